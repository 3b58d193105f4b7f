"""An OpenAI-compatible server over the toy model, with a switch for each way in which real servers differ.

The presets are those of servers that were measured or read (vLLM and SGLang from their protocol files).
"""

import json
import re
from dataclasses import dataclass, replace

import numpy as np
from http_server import HttpServer, Reply
from toy_model import NO_THOUGHT, VOCABULARY, ToyModel

MODEL = "toy"


@dataclass(frozen=True)
class Quirks:
    # yes, silent (accepted and not returned), refused, forbidden (with a 403)
    chat_logprobs: str = "yes"
    refuses: tuple = ()  # fields, each refused in the words and the status of some server; system is the role
    null_first: bool = False  # an alternative of the first token has null instead of a number
    # the fields without which another provider answers, which drops log-probabilities
    routed: dict | None = None
    top_limit: int | None = 20
    only_9999: bool = False  # every alternative has -9999.0, which is no number
    completions: bool = True
    completion_logprobs: str = "classic"  # classic, chat (the chat's shape), silent
    completion_limit: int | None = 20
    token_prompts: bool = True
    token_ids: bool = False  # logprob_token_ids
    # many prompts a request: yes, refused, reversed (numbered, the last first), mixed up
    together: str = "yes"
    longest: int = 4096  # tokens of a prompt of a continues
    score: bool = False
    tokenize: str = ""  # server (messages), template (/apply-template and text), ""
    several: str = "yes"  # n > 1: yes, one (accepted, one answer), refused
    most_answers: int = 128  # the largest n
    fixed: bool = False  # temperature and seed ignored
    continues: bool = False  # continues an answer that was begun
    tokenizes_begun: bool = True  # and so in /tokenize
    form: str = "ignored"  # a grammar and a bias of tokens: kept, ignored, biased (and so are the values it returns)
    silent_after: tuple = ()  # parts of prompts after which the model ends its answer at once
    thinks: bool = False
    thoughts: str = ""  # where they are: "" in the answer, a field of the message, or hidden, which takes 100 tokens
    switch: dict | None = None  # the fields that keep it from thinking
    effort: bool = False  # log-probabilities and a temperature only with reasoning_effort none
    length_field: str = "max_tokens"
    tempered: bool = True
    strict: bool = False  # refuses the fields of other servers
    named: object = None  # (number of requests so far) -> the model that answers name
    key: str = ""
    header: str = ""  # a request without it is refused
    under_v1: bool = False  # a proxy: all paths lie under /v1
    unknown: int = 404  # status of an unknown path
    html: bool = False
    answer: object = None  # (messages, seed) -> choice, instead of the model
    flat: bool = False


OPENAI = Quirks(completions=False)
VLLM = Quirks(tokenize="server", token_ids=True, continues=True)
VLLM_OLDER = replace(VLLM, token_ids=False)
SGLANG = Quirks(tokenize="server", score=True, continues=True)
UNLIMITED = Quirks(completion_limit=None, top_limit=None)
LLAMA_SERVER = replace(UNLIMITED, tokenize="template", completion_logprobs="chat", continues=True)
LLAMA_CPP_PYTHON = Quirks(top_limit=None, token_prompts=False, several="one", form="kept")
TEXT_ONLY = Quirks(chat_logprobs="silent", completions=False, several="one")
TRANSFORMERS = replace(
    TEXT_ONLY, completions=True, completion_logprobs="silent", token_prompts=False, fixed=True
)
_FOREIGN = ("chat_template_kwargs", "thinking", "reasoning", "grammar", "continue_final_message")


# Messages of Claude behind a gateway, Mistral, o3, Gemma, Groq and vLLM, with their status.
REFUSALS = {
    "top_p": (
        400,
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
    ),
    "seed": (
        422,
        "[{'type': 'extra_forbidden', 'loc': ['body', 'seed'], 'msg': 'Extra inputs are not permitted'}]",
    ),
    "temperature": (400, "`temperature` is deprecated for this model."),
    "system": (400, "System role not supported"),
    "response_format": (400, "'response_format' is not supported with this model"),
    "n": (400, "'n' : number must be at most 1"),
}


class RefusedError(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class ToyServer(HttpServer):
    """Counts what it is asked in `asked`, path to number, and keeps the bodies."""

    def __init__(self, quirks, model=None):
        super().__init__(self._answer_http)
        self.quirks = quirks
        self.model = model or ToyModel(flat=quirks.flat, silent_after=quirks.silent_after)
        self.asked = []

    def exact(self, prompt, labels):
        """Exact label log-probabilities of a prompt through the chat template."""
        ids = self.model.encode(self.model.render(prompt.messages))
        return [self.model.label(ids, label) for label in labels]

    def _answer_http(self, _method, path, headers, body):  # noqa: PLR0911  one return a case
        quirks = self.quirks
        sent = json.loads(body) if body else {}
        self.asked.append((path, sent))
        if quirks.html:
            return Reply(b"<html></html>", headers={"content-type": "text/html"})
        if quirks.key and headers.get("authorization") != f"Bearer {quirks.key}":
            told = headers.get("authorization", "").removeprefix("Bearer ")
            return Reply({"error": {"message": f"Incorrect API key provided: {told}"}}, 401)
        if quirks.header and quirks.header not in headers:
            return Reply({"error": {"message": f"{quirks.header} is required"}}, 401)
        if path == "/v1/models":
            return Reply({"data": [{"id": MODEL}]})
        if sent.get("model", MODEL) != MODEL:
            told = f"The model `{sent['model']}` does not exist"
            return Reply({"error": {"message": told, "code": "model"}}, 404)
        routes = {
            "/v1/chat/completions": self._chat,
            "/v1/completions": self._complete if quirks.completions else None,
            "/v1/score": self._score if quirks.score else None,
            "/tokenize": self._tokenize if quirks.tokenize else None,
            "/apply-template": self._template if quirks.tokenize == "template" else None,
        }
        if quirks.under_v1:
            routes = {f"/v1{path.removeprefix('/v1')}": route for path, route in routes.items()}
        route = routes.get(path.partition("?")[0])
        if route is None:
            told = "Not Found" if quirks.unknown == 404 else "Forbidden"
            return Reply({"detail": told}, quirks.unknown)
        try:
            named = {} if quirks.named is None else {"model": quirks.named(len(self.asked))}
            return Reply({**route(sent), **named})
        except RefusedError as refused:
            return Reply({"error": {"message": str(refused)}}, refused.status)

    def _chat(self, sent):
        quirks = self.quirks
        if quirks.effort and sent.get("reasoning_effort") != "none":
            quirks = replace(quirks, tempered=False, chat_logprobs="refused")
        self._check_fields(sent, quirks)
        messages = sent["messages"]
        if quirks.answer is not None:
            usage = {"prompt_tokens": 100, "completion_tokens": 29}
            return {"choices": [quirks.answer(messages, sent.get("seed", 0))], "usage": usage}
        ids = self.model.encode(
            self._rendered(sent, begun=messages[-1]["role"] == "assistant" and quirks.continues)
        )
        number = sent.get("n", 1)
        choices = [
            self._choice(sent, ids, index)
            for index in range(number if quirks.several == "yes" else 1)
        ]
        return {"choices": choices, "usage": {"prompt_tokens": len(ids), "completion_tokens": 1}}

    def _check_fields(self, sent, quirks):  # noqa: C901, PLR0912  one branch a field
        roles = {message["role"] for message in sent["messages"]}
        for given in {*sent, *roles}.intersection(quirks.refuses):
            raise RefusedError(*REFUSALS[given])
        for given in ("max_tokens", "max_completion_tokens"):
            if given in sent and given != quirks.length_field:
                raise RefusedError(
                    400, f"Unsupported parameter: '{given}'. Use '{quirks.length_field}' instead."
                )
        for given in ("temperature", "top_p"):
            if given in sent and not quirks.tempered:
                message = f"Unsupported value: '{given}' does not support {sent[given]} with this model. Only the default "
                raise RefusedError(400, f"{message}(1) value is supported.")
        for given in _FOREIGN if quirks.strict else ():
            if given in sent:
                raise RefusedError(400, f"Unknown parameter: '{given}'.")
        if quirks.strict and quirks.thinks and "reasoning_effort" in sent and quirks.switch is None:
            raise RefusedError(
                400,
                "Unsupported value: 'reasoning_effort' does not support 'none' with this model.",
            )
        if sent.get("logprobs") and quirks.chat_logprobs == "refused":
            raise RefusedError(400, "logprobs are not supported with this model")
        if sent.get("logprobs") and quirks.chat_logprobs == "forbidden":
            raise RefusedError(403, "You are not allowed to request logprobs from this model")
        if quirks.top_limit is not None and sent.get("top_logprobs", 0) > quirks.top_limit:
            raise RefusedError(
                400, f"Invalid value for 'top_logprobs': must be at most {quirks.top_limit}"
            )
        number = sent.get("n", 1)
        if number > 1 and quirks.several == "refused":
            raise RefusedError(400, "n must be 1")
        if number > quirks.most_answers:
            raise RefusedError(
                400, f"candidateCount must be in the range [1, {quirks.most_answers}]"
            )

    def _choice(self, sent, ids, index):
        quirks = self.quirks
        temperature = 0 if quirks.fixed else sent.get("temperature", 1.0)
        seed = sent.get("seed", 0) * 1000 + index
        most, thought = sent.get(quirks.length_field, 64), {}
        if "grammar" in sent and quirks.form != "ignored":
            text, said, finish = self._in_form(sent, ids)
        else:
            text, said, finish = self.model.say(ids, most=most, temperature=temperature, seed=seed)
        if quirks.thinks and not self._switched_off(sent):
            text, thought, finish = self._after_a_thought(text, finish, most)
        message = {"role": "assistant", "content": text, **thought}
        choice = {"index": index, "message": message, "finish_reason": finish}
        routed = quirks.routed is None or quirks.routed.items() <= sent.items()
        if sent.get("logprobs") and quirks.chat_logprobs == "yes" and routed:
            content = [
                self._row([*ids, *said[:place]], token, sent.get("top_logprobs", 0))
                for place, token in enumerate(said)
            ]
            choice["logprobs"] = {"content": content}
            if "grammar" in sent and quirks.form == "biased":
                for row in content:
                    row["logprob"] = 0.0
        return choice

    def _switched_off(self, sent):
        return bool(self.quirks.switch) and self.quirks.switch.items() <= sent.items()

    def _rendered(self, sent, *, begun):
        """The prompt, with an empty thought where thoughts are switched off, and the answer that was begun."""
        messages = sent["messages"]
        thought = NO_THOUGHT if self._switched_off(sent) else ""
        if begun:
            return self.model.render(messages[:-1]) + thought + messages[-1]["content"]
        return self.model.render(messages) + thought

    def _after_a_thought(self, text, finish, most):
        """The text of an answer, the other fields of its message, and its end."""
        thought = "Is it better or worse?"
        if not self.quirks.thoughts:
            return f"<think>{thought}</think>\n\n{text}", {}, finish
        shown = {} if self.quirks.thoughts == "hidden" else {self.quirks.thoughts: thought}
        return ("", shown, "length") if most < 100 else (text, shown, finish)

    def _in_form(self, sent, ids):
        """The most probable tokens, after the bias, of what the grammar allows: literals and sets of letters."""
        parts = re.findall(
            r'"((?:[^"\\]|\\.)*)"|\[(\w+)\]', sent["grammar"].removeprefix("root ::= ")
        )
        allowed = [letters for literal, either in parts for letters in (literal or [either])]
        said, spelt = [], 0
        while spelt < len(allowed):
            fits = [
                number
                for number, token in enumerate(VOCABULARY)
                if len(token) <= len(allowed) - spelt
                and all(letter in allowed[spelt + place] for place, letter in enumerate(token))
            ]
            logprobs = self.model.logprobs([*ids, *said])
            best = max(
                fits,
                key=lambda number: logprobs[number] + sent["logit_bias"].get(VOCABULARY[number], 0),
            )
            said.append(best)
            spelt += len(VOCABULARY[best])
        return self.model.text(said), said, "stop"

    def _row(self, ids, token, top):
        logprobs = self.model.logprobs(ids)
        best = np.argsort(-logprobs)[:top]

        def entry(number):
            value = float(logprobs[number])
            if self.quirks.only_9999:
                value = -9999.0
            return {"token": self.model.token(number), "id": int(number), "logprob": value}

        alternatives = [entry(number) for number in best]
        if self.quirks.null_first and alternatives:
            alternatives[0]["logprob"] = None
        return {
            **entry(token),
            "logprob": float(logprobs[token]),
            "top_logprobs": alternatives,
        }

    def _complete(self, sent):
        quirks = self.quirks
        prompt = sent["prompt"]
        if len(prompt) > quirks.longest and isinstance(prompt[0], int):
            raise RefusedError(
                400, f"This model's maximum context length is {quirks.longest} tokens"
            )
        if isinstance(prompt[0], list):
            return self._complete_each(sent)
        if isinstance(prompt, list):
            if not quirks.token_prompts:
                raise RefusedError(400, "prompt must be a string")
            ids = prompt
        else:
            ids = self.model.encode(prompt)
        top = sent.get("logprobs") or 0
        if quirks.completion_limit is not None and top > quirks.completion_limit:
            raise RefusedError(400, f"logprobs must be at most {quirks.completion_limit}")
        text, said, finish = self.model.say(ids, most=1, temperature=0, seed=0)
        choice = {"index": 0, "text": text, "finish_reason": finish}
        said = said or [self.model.end]  # it ends at once, and that has log-probabilities too
        if top and quirks.completion_logprobs == "chat":
            choice["logprobs"] = {"content": [self._row(ids, said[0], top)]}
        elif top and quirks.completion_logprobs == "classic":
            choice["logprobs"] = self._classic(sent, ids, said, top)
        return {"choices": [choice], "usage": {"prompt_tokens": len(ids), "completion_tokens": 1}}

    def _complete_each(self, sent):
        how = self.quirks.together
        if how == "refused":
            raise RefusedError(400, "prompt must be a string or token ids")
        answers = [self._complete({**sent, "prompt": each}) for each in sent["prompt"]]
        choices = [answer["choices"][0] for answer in answers]
        choices = choices[::-1] if how == "mixed up" else choices
        choices = [{**each, "index": number} for number, each in enumerate(choices)]
        used = sum(each["usage"]["prompt_tokens"] for each in answers)
        usage = {"prompt_tokens": used, "completion_tokens": len(choices)}
        return {"choices": choices[::-1] if how == "reversed" else choices, "usage": usage}

    def _classic(self, sent, ids, said, top):
        logprobs = self.model.logprobs(ids)
        wanted = sent.get("logprob_token_ids") if self.quirks.token_ids else None
        best = (
            [*said, *wanted] if wanted else [int(number) for number in np.argsort(-logprobs)[:top]]
        )
        ids_as_names = sent.get("return_tokens_as_token_ids") and self.quirks.token_ids
        names = [
            f"token_id:{number}" if ids_as_names else self.model.token(number) for number in best
        ]
        tops = dict(zip(names, (float(logprobs[number]) for number in best), strict=True))
        return {
            "tokens": [self.model.token(said[0])],
            "token_logprobs": [float(logprobs[said[0]])],
            "top_logprobs": [tops],
            "text_offset": [0],
        }

    def _score(self, sent):
        wanted = sent["label_token_ids"]
        if self.quirks.together == "refused" and len(sent["items"]) > 2:
            raise RefusedError(400, "too many items")
        if any(len(sent["query"]) + len(item) > self.quirks.longest for item in sent["items"]):
            raise RefusedError(
                400, f"This model's maximum context length is {self.quirks.longest} tokens"
            )
        rows = [
            np.exp(self.model.logprobs([*sent["query"], *item])[wanted]) for item in sent["items"]
        ]
        return {"scores": [[float(value) for value in row] for row in rows]}

    def _tokenize(self, sent):
        if self.quirks.tokenize == "template":
            if "content" not in sent:
                return {"tokens": []}
            return {"tokens": self.model.encode(sent["content"])}
        text = self._rendered(
            sent, begun=bool(sent.get("continue_final_message")) and self.quirks.tokenizes_begun
        )
        return {"tokens": self.model.encode(text), "count": 1, "max_model_len": 4096}

    def _template(self, sent):
        return {"prompt": self._rendered(sent, begun=False)}
