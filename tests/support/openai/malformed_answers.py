"""Everything that a server can answer wrongly, by name: whole replies, and fields of a good answer."""

import copy
import gzip
import json

from fault_server import _choice
from http_server import Reply

LOGPROBS = {"logprobs": True}
DEEP = "[" * 50_000 + "]" * 50_000
_SLOT = "<here>"


def good(row=0, sent=LOGPROBS):
    """The answer that every fault is made from."""
    usage = {"prompt_tokens": 9, "completion_tokens": 1}
    choices = [_choice(row, sent)]
    return {"id": f"answer-{row:010d}-0000000000", "choices": choices, "usage": usage}


def _with(path, text):
    """A good answer with a JSON text in the place of one field."""
    answer = copy.deepcopy(good())
    place = answer
    *way, last = path
    for step in way:
        place = place[step]
    place[last] = _SLOT
    spoilt = json.dumps(answer).replace(json.dumps(_SLOT), text)
    return Reply(spoilt.encode("utf-8", "surrogatepass"))


def _statuses(error, *statuses):
    return {f"status {status}": Reply({"error": error}, status) for status in statuses}


_DATE = "Wed, 21 Oct 99999999999999999999 07:28:00 GMT"
_CHAT = "/v1/chat/completions"
_CHOICE = ("choices", 0)
_FIRST = (*_CHOICE, "logprobs", "content", 0)
_CONTENT = (*_CHOICE, "message", "content")
_TOP = (*_FIRST, "top_logprobs", 0)
_ODD = ("null", "7", '"text"', "[null]", "{}", "1e999", "9" * 400)
_FIELDS = {
    "choices": ("choices",),
    "choice": _CHOICE,
    "message": (*_CHOICE, "message"),
    "content": _CONTENT,
    "finish_reason": (*_CHOICE, "finish_reason"),
    "logprobs": (*_CHOICE, "logprobs"),
    "places": (*_CHOICE, "logprobs", "content"),
    "first place": _FIRST,
    "top_logprobs": (*_FIRST, "top_logprobs"),
    "top token": _TOP,
    "token": (*_TOP, "token"),
    "logprob": (*_TOP, "logprob"),
    "usage": ("usage",),
    "prompt_tokens": ("usage", "prompt_tokens"),
    "id": ("id",),
}
# Faults of one answer: other rows are not touched.
ROWS = {
    **{f"{name} {text[:12]}": _with(path, text) for name, path in _FIELDS.items() for text in _ODD},
    "half a surrogate pair": _with(_CONTENT, '"\\ud800"'),
    "a NUL and an escape": _with(_CONTENT, '"\\u0000\\u001b[2J"'),
    "a token id of 5000 digits": _with((*_TOP, "token"), '"token_id:' + "9" * 5000 + '"'),
    "log-probabilities above 0": _with((*_TOP, "logprob"), "5"),
    "NaN": _with((*_TOP, "logprob"), "NaN"),
    "parts of content": _with(_CONTENT, '[null, 7, {"text": null}, {"text": {}}]'),
    "an error under 200": Reply({"error": {"message": {"error": [None]}}}),
    "an empty error": Reply({"error": {}}),
    "an empty body": Reply(b""),
    "blanks": Reply(b" \n "),
    "null": Reply(b"null"),
    "a list": Reply(b"[]"),
    "a text": Reply(b'"x"'),
    "a number": Reply(b"7"),
    "two objects": Reply(b"{}{}"),
    "half an object": Reply(b'{"choices": [{'),
    "deeply nested": Reply(b'{"choices": ' + DEEP.encode() + b"}"),
    "a number of 5000 digits": Reply(b"9" * 5000),
    "not UTF-8": Reply(b'{"choices": "\xff"}'),
    "UTF-16": Reply(json.dumps(good()).encode("utf-16")),
    "HTML": Reply(b"<html>", headers={"content-type": "text/html"}),
    "an unknown charset": Reply({}, headers={"content-type": "application/json; charset=\x01"}),
    "gzip that is none": Reply(b"{}", headers={"content-encoding": "gzip"}),
    "gzip cut off": Reply(gzip.compress(b"{}" * 999)[:-9], headers={"content-encoding": "gzip"}),
    "packed as br": Reply(b"{}", headers={"content-encoding": "br"}),
    "a bomb": Reply(gzip.compress(b" " * 100_000_000, 1), headers={"content-encoding": "gzip"}),
    "no length": Reply(good(), headers={"content-length": "x"}),
    "a header without end": Reply(good(), headers={"x-long": "y" * 200_000}),
    "half a body": Reply(good(), fault="half"),
    "no answer": Reply(good(), fault="reset"),
    **_statuses({"message": "x"}, 300, 400, 405, 408, 409, 413, 418, 422),
    **_statuses("x", 425, 451, 500, 501, 502, 503, 504, 505, 599),
    "status 400 of a deep body": Reply(DEEP.encode(), 400),
    "status 500 of no text": Reply(b"\xff\xfe", 500),
    "status 204": Reply(b"", 204),
    "status 999": Reply({}, 999),
}
# Faults that end a run: of the key, the model, the address.
RUNS = {
    **_statuses({"message": "x"}, 401, 402, 403, 404),
    "no quota": Reply({"error": {"message": "quota", "code": "insufficient_quota"}}, 429),
    "429 for a day": Reply({}, 429, {"retry-after": "86400"}),
    "429 for ever": Reply({}, 429, {"retry-after": "9" * 400 + "h"}),
    "429 until a date that is none": Reply({}, 429, {"retry-after": _DATE}),
    "503 for a day": Reply({}, 503, {"retry-after": "86400"}),
    "a redirect to another host": Reply({}, 307, {"location": f"http://127.0.0.9:9{_CHAT}"}),
    "a redirect to another port": Reply({}, 308, {"location": f"http://127.0.0.1:9{_CHAT}"}),
    "a redirect to a file": Reply({}, 302, {"location": "file:///etc/hostname"}),
    "a redirect to nowhere": Reply({}, 307, {"location": "http://[::1"}),
    "a redirect to itself": Reply({}, 307, {"location": _CHAT}),
    "silence": Reply({}, wait=30),
}
# Faults that spoil the connection, so that the next request on it may have to be tried again.
CONNECTIONS = {
    "a length too short": Reply(good(), headers={"content-length": "5"}),
    "chunks that are none": Reply(good(), headers={"transfer-encoding": "chunked"}),
}
