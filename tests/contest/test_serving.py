"""The server of the review page: who is answered, what forms may ask for, and what starts."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import contextmanager
from urllib.parse import quote

import pytest
from review_data import NASTY, contest
from waiting import until

pytest.importorskip("starlette", reason="the server of the page is an extra")

from refladder.contest import building
from refladder.contest.building import Builder
from refladder.contest.serving import review_app
from refladder.contest.workspace import Workspace
from refladder.errors import UsageError

HOST, TOKEN = "127.0.0.1:8000", "a-token"
USUAL = {"host": HOST, "authorization": f"Bearer {TOKEN}", "content-type": "application/json"}


def ask(app, path, *, method="GET", headers=None, body=b"", query=""):
    """One request; gives status, headers and JSON (or text)."""
    sent = []
    given = {**USUAL, **(headers or {})}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items() if value],
    }

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    text = b"".join(message.get("body", b"") for message in sent).decode()
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, json.loads(text) if text.startswith("{") else text


def post(app, name, body):
    """Status and answer."""
    return ask(app, f"/api/{name}", method="POST", body=json.dumps(body).encode())[::2]


@contextmanager
def served(folder):
    workspace = Workspace(folder / "run", [folder])
    builder = Builder(workspace)
    yield review_app(workspace, builder, token=TOKEN, hosts=frozenset({HOST}))
    builder.close()


@pytest.fixture
def folder(tmp_path):
    return contest(tmp_path / "named", rows=3)


@pytest.fixture
def app(folder):
    with served(folder) as app:
        yield app


@pytest.fixture(scope="module")
def any_app(tmp_path_factory):
    """A server for tests that do not mind what others have stored."""
    with served(contest(tmp_path_factory.mktemp("shared") / "named", rows=3)) as app:
        yield app


@pytest.mark.parametrize(
    ("headers", "status", "message"),
    [
        ({"host": "evil.example:8000"}, 421, "answers only under the address that it printed"),
        ({"host": "127.0.0.1:9000"}, 421, "answers only under"),
        ({"host": None}, 421, "answers only under"),
        ({"origin": "http://evil.example"}, 403, "requests from other pages are refused"),
        ({"origin": "null"}, 403, "requests from other pages are refused"),
        ({"origin": "http://["}, 403, "requests from other pages are refused"),  # no URL
        ({"authorization": None}, 401, "open the address that `refladder review` printed last"),
        ({"authorization": "Bearer a-tokem"}, 401, "the key of this page is missing or old"),
    ],
)
def test_foreign_requests_are_refused(any_app, headers, status, message):
    for method, path in (("GET", "key"), ("POST", "ratings"), ("POST", "run")):
        found, _, answer = ask(any_app, f"/api/{path}", method=method, headers=headers, body=b"{}")
        assert found == status
        assert message in answer["error"]


def test_the_page_itself_holds_no_data_and_no_token(any_app):
    status, headers, text = ask(any_app, "/", headers={"authorization": None})
    assert status == 200
    assert TOKEN not in text
    assert "aardvark" not in text
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


def test_only_json_is_taken_and_not_much_of_it(any_app):
    def status(body, content_type="application/json"):
        headers = {"content-type": content_type}
        return ask(any_app, "/api/ratings", method="POST", headers=headers, body=body)[0]

    assert (status(b"{}", "text/plain"), status(b"{}", None)) == (415, 415)
    assert status(b"x" * (1 << 20) + b"yy") == 413
    assert status(b"{") == 400
    assert ask(any_app, "/api/ratings")[0] == 405


def test_a_rating_is_on_the_disk_when_it_is_answered(app, folder):
    rating = {"first": 0, "second": 1, "criterion": 0, "winner": "second", "rater": "ann"}
    assert post(app, "ratings", rating) == (200, {"stored": True})
    assert len((folder / "run" / "preferences.jsonl").read_text().splitlines()) == 1
    assert ask(app, "/api/mine", query="rater=ann")[2]["ratings"] == [rating]
    assert ask(app, "/api/mine", query="rater=bob")[2]["ratings"] == []
    assert post(app, "undo", rating) == (200, {"removed": True})
    message = "a preference is between two texts of one row"
    assert post(app, "ratings", {**rating, "second": 3}) == (400, {"error": message})


def test_the_pool_gives_nothing_away(any_app):
    words = json.dumps(ask(any_app, "/api/pool")[2])
    clues = ("aardvark", "badger", "winner", "r0", "rate")
    assert [clue for clue in clues if clue in words] == []


def form(**more):
    criterion = {"name": "clarity", "description": "Plain."}
    return {
        "table": "rows.jsonl",
        "prompt": "Write about {topic}.",
        "models": [
            {"name": "a", "backend": "scripted:aardvark.jsonl"},
            {"name": "b", "backend": "scripted:badger.jsonl"},
        ],
        "judge": "builtin",
        "criteria": [{**criterion, "worst": "-2: bad", "best": "2: good", "weight": 2}],
        "out": "again",
        **more,
    }


STRANGE = ["\ud800", "x" * 200_000, "a/" * 4000, "a\0b", "", "\u202e", "*", "\n"]
STRANGE += [[], {}, None, True, -1, 1e308, 10**400]


class NotStarted:
    """Stands for a process, whose arguments the system must be able to take."""

    exitcode = 2

    def __init__(self, arguments, *_):
        assert not any("\0" in os.fsdecode(os.fsencode(argument)) for argument in arguments)

    def join(self, _timeout):
        return 2


@pytest.mark.parametrize("value", STRANGE, ids=lambda value: repr(value)[:12])
def test_strange_values_in_requests_are_no_fault_of_the_server(any_app, value, monkeypatch):
    """Each field of each request in turn; `ask` raises what the server does not answer."""
    monkeypatch.setattr(building, "Process", NotStarted)
    pair = {"first": 0, "second": 1, "criterion": 0, "winner": "first", "rater": "ann"}
    bodies = [("ratings", {"text": 0, "criterion": 0, "value": 1, "rater": "ann"})]
    bodies += [("ratings", pair), ("undo", pair)]
    bodies += [(name, form()) for name in ("fill", "plan", "run")]
    changed = [(name, {**body, field: value}) for name, body in bodies for field in body]
    for part in ("criteria", "models"):
        first = form()[part][0]
        changed += [("plan", form(**{part: [{**first, field: value}]})) for field in first]
    for name, body in [*changed, ("ratings", value), ("plan", value)]:
        status, answer = post(any_app, name, body)
        assert status in (200, 400), (name, body)
        assert status == 200 or len(answer["error"]) < 1000
    words = quote(str(value)[:9000].encode("utf-8", "surrogatepass"))
    for query in ("pool?run", "key?run", "table?table", "mine?rater"):
        name, _, field = query.partition("?")
        assert ask(any_app, f"/api/{name}", query=f"{field}={words}")[0] in (200, 400), name


def test_what_is_wrong_with_a_request_is_one_sentence(any_app):
    def told(**change):
        status, answer = post(any_app, "plan", form(**change))
        assert status == 400
        return answer["error"]

    words = "the request holds half of a surrogate pair, which no file can hold; take it out"
    assert told(out="\ud800") == words
    words = "a name or a text in the request is too long ({}); shorten it"
    assert told(table="x" * 200_000) == words.format("File name too long")
    assert told(prompt="x" * 200_000) == words.format("Argument list too long")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table": "../rows.jsonl"}, "not under a folder"),
        ({"table": "*.jsonl"}, "no such file under a folder that was named"),
        ({"table": ""}, "fill in 'table'"),
        ({"out": "../x"}, "run name '../x': use letters"),
        ({"out": ""}, "fill in 'out'"),
        ({"judge": "scripted:/etc/passwd"}, "not under a folder"),
        ({"judge": "hf:/etc"}, "not under a folder"),
        ({"judge": "shell:rm"}, "backend 'shell:rm' is unknown; choose one of"),
        ({"judge": "--explain"}, "backend '--explain' is unknown"),
        ({"models": "x"}, "fill in 'models'"),
        ({"models": [{"name": "a=b", "backend": "builtin"}]}, "'a=b' contains '='; choose another"),
    ],
)
def test_a_form_cannot_reach_further_than_the_page(folder, change, message):
    with pytest.raises(UsageError, match=message):
        Builder(Workspace(None, [folder])).arguments(form(**change))


def test_words_of_a_form_are_words_and_no_options(folder):
    criteria = [{"name": "--json", "description": f"-x {NASTY}"}]
    asked = form(prompt="--explain {topic}", criteria=criteria, judge="hf:~/models")
    arguments = Builder(Workspace(None, [folder])).arguments(asked)
    assert arguments[1] == "--prompt-text=--explain {topic}"
    assert f"--criterion=--json=-x {NASTY}" in arguments
    assert f"--judge=hf:{folder}/~/models" in arguments
    assert arguments[-2:] == ["--", str(folder / "rows.jsonl")]


def test_a_run_is_not_written_through_a_link(folder, tmp_path):
    (folder / "again").mkdir()
    (folder / "again" / "results.jsonl").symlink_to(tmp_path / "other.jsonl")
    with pytest.raises(UsageError, match=r"results\.jsonl' is not under a folder"):
        Builder(Workspace(None, [folder])).arguments(form())


def ended(app):
    """What became of the run, once it is over."""
    state = ask(app, "/api/progress")[2]
    return state["state"] != "running" and state


def test_build_run_fail_stop_and_resume(app, folder):
    filled = post(app, "fill", form())[1]
    assert filled["filled"][0] == "Write about topic0 ."
    assert post(app, "fill", form(prompt="{topic} {tpoic}"))[1]["unknown"] == ["tpoic"]
    planned = post(app, "plan", form())[1]
    assert planned["command"].startswith("refladder compete '--prompt-text=Write about {topic}.'")
    assert len(planned["cost"]) == 3
    assert not (folder / "again").exists()
    post(app, "run", form(judge="scripted:none.jsonl"))
    state = until(lambda: ended(app))
    assert state["state"] == "failed"
    assert "none.jsonl'; pass scripted:PATH" in state["messages"][-1]
    assert not (folder / "again" / "results.jsonl").exists()
    model = folder / "aardvark.jsonl"
    answers = model.read_bytes()
    model.unlink()
    os.mkfifo(model)  # the run waits for the model's first answer
    assert post(app, "run", form())[1]["state"] == "running"
    assert "a run is under way" in post(app, "run", form())[1]["error"]
    post(app, "stop", {})
    assert until(lambda: ended(app))["state"] == "stopped"
    model.unlink()
    model.write_bytes(answers)
    post(app, "run", form())
    state = until(lambda: ended(app))
    assert (state["state"], state["written"], state["judged"]) == ("finished", 6, 6), state
    assert ask(app, "/api/runs")[2]["runs"] == [str(folder / "run"), "again"]
    (criterion,) = ask(app, "/api/pool", query="run=again")[2]["pool"]["criteria"]
    assert (criterion["low"], criterion["worst"]) == (-2, "bad")
    assert (criterion["high"], criterion["best"], criterion["weight"]) == (2, "good", 2)
    assert criterion["description"] == "Plain.\nWorst (-2): bad\nBest (2): good"
