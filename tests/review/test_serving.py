"""The server of the review page: who is answered, what may be read, and what starts."""

from __future__ import annotations

import asyncio
import json
import os

import pytest
from review_data import NASTY, contest
from waiting import until

pytest.importorskip("starlette", reason="the server of the page is an extra")

from refladder.errors import UsageError
from refladder.review.building import Builder
from refladder.review.serving import review_app
from refladder.review.workspace import Workspace

HOST, TOKEN = "127.0.0.1:8000", "a-token"
USUAL = {"host": HOST, "authorization": f"Bearer {TOKEN}", "content-type": "application/json"}


def ask(app, path, *, method="GET", headers=None, body=b"", query=""):
    """One request; gives status, headers and JSON (or text)."""
    sent = []
    given = {**USUAL, **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items() if value is not None],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    text = b"".join(message.get("body", b"") for message in sent).decode()
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, json.loads(text) if text.startswith("{") else text


@pytest.fixture
def folder(tmp_path):
    return contest(tmp_path / "named", rows=3)


@pytest.fixture
def app(folder):
    workspace = Workspace(folder / "run", [folder])
    builder = Builder(workspace)
    yield review_app(workspace, builder, token=TOKEN, hosts=frozenset({HOST}))
    builder.close()


@pytest.mark.parametrize(
    ("headers", "status", "message"),
    [
        ({"host": "evil.example:8000"}, 421, "answers only under the address that it printed"),
        ({"host": "127.0.0.1:9000"}, 421, "answers only under"),
        ({"host": None}, 421, "answers only under"),
        ({"origin": "http://evil.example"}, 403, "requests from other pages are refused"),
        ({"origin": "null"}, 403, "requests from other pages are refused"),
        ({"authorization": None}, 401, "open the address that `refladder review` printed last"),
        ({"authorization": "Bearer a-tokem"}, 401, "the key of this page is missing or old"),
    ],
)
@pytest.mark.parametrize("path", ["/api/key", "/api/ratings", "/api/run"])
def test_foreign_requests_are_refused(app, headers, status, message, path):
    found, _, answer = ask(app, path, method="POST" if path != "/api/key" else "GET", headers=headers, body=b"{}")
    assert found == status
    assert message in answer["error"]


def test_the_page_itself_holds_no_data_and_no_token(app):
    status, headers, text = ask(app, "/", headers={"authorization": None})
    assert status == 200
    assert TOKEN not in text
    assert "aardvark" not in text
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    for name, value in {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}.items():
        assert headers[name] == value
    assert headers["cache-control"] == "no-store"


def test_only_json_is_taken_and_not_much_of_it(app):
    post = {"method": "POST", "path": "/api/ratings"}
    assert ask(app, **post, headers={"content-type": "text/plain"}, body=b"{}")[0] == 415
    assert ask(app, **post, headers={"content-type": None}, body=b"{}")[0] == 415
    assert ask(app, **post, body=b"x" * (1 << 20) + b"yy")[0] == 413
    assert ask(app, **post, body=b"{")[0] == 400
    assert ask(app, "/api/ratings")[0] == 405


def test_a_rating_is_on_the_disk_when_it_is_answered(app, folder):
    rating = {"first": 0, "second": 1, "criterion": 0, "winner": "second", "rater": "ann"}
    status, _, answer = ask(app, "/api/ratings", method="POST", body=json.dumps(rating).encode())
    assert (status, answer) == (200, {"stored": True})
    assert len((folder / "run" / "preferences.jsonl").read_text().splitlines()) == 1
    assert ask(app, "/api/mine", query="rater=ann")[2]["ratings"] == [rating]
    assert ask(app, "/api/mine", query="rater=bob")[2]["ratings"] == []
    assert ask(app, "/api/undo", method="POST", body=json.dumps(rating).encode())[2] == {"removed": True}
    bad = json.dumps({**rating, "second": 3}).encode()
    assert ask(app, "/api/ratings", method="POST", body=bad)[::2] == (
        400,
        {"error": "a preference is between two texts of one row"},
    )


def test_the_pool_gives_nothing_away(app):
    words = json.dumps(ask(app, "/api/pool")[2])
    for clue in ("aardvark", "badger", "winner", "r0", "rate"):
        assert clue not in words


@pytest.mark.parametrize("name", ["../outside.csv", "/etc/passwd", "link/outside.csv", "a\0b", "~/x"])
def test_paths_stay_under_the_named_folders(tmp_path, folder, name):
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "outside.csv").write_text("a\n1\n")
    (folder / "link").symlink_to(outside)
    workspace = Workspace(None, [folder])
    if name == "~/x":
        assert workspace.allowed(name).is_relative_to(folder)
        return
    for use in (workspace.allowed, workspace.preview, workspace.sheet):
        with pytest.raises(UsageError, match="is not under a folder that was named at the start"):
            use(name)
    assert "link/outside.csv" not in workspace.tables()


def form(**more):
    return {
        "table": "rows.jsonl",
        "prompt": "Write about {topic}.",
        "models": [
            {"name": "a", "backend": "scripted:aardvark.jsonl"},
            {"name": "b", "backend": "scripted:badger.jsonl"},
        ],
        "judge": "builtin",
        "criteria": [{"name": "clarity", "description": "Plain.", "worst": "-2: bad", "best": "2: good", "weight": 2}],
        "out": "again",
        **more,
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table": "../rows.jsonl"}, "not under a folder"),
        ({"out": "../x"}, "run name '../x': use letters"),
        ({"out": ""}, "fill in 'out'"),
        ({"judge": "scripted:/etc/passwd"}, "not under a folder"),
        ({"judge": "hf:/etc"}, "not under a folder"),
        ({"judge": "hf:~/models"}, None),
        ({"judge": "shell:rm"}, "backend 'shell:rm' is unknown; choose one of"),
        ({"judge": "--restart"}, "backend '--restart' is unknown"),
        ({"models": "x"}, "fill in 'models'"),
        ({"models": [{"name": "a=b", "backend": "builtin"}]}, "name 'a=b' holds a '='"),
    ],
)
def test_a_form_cannot_reach_further_than_the_page(folder, change, message):
    builder = Builder(Workspace(None, [folder]))
    if message is None:
        assert f"--judge=hf:{folder}/~/models" in builder.arguments(form(**change))
        return
    with pytest.raises(UsageError, match=message):
        builder.arguments(form(**change))


def test_words_of_a_form_are_words_and_no_options(folder):
    asked = form(prompt="--restart {topic}", criteria=[{"name": "--json", "description": f"-x {NASTY}"}])
    arguments = Builder(Workspace(None, [folder])).arguments(asked)
    assert arguments[1] == "--prompt-text=--restart {topic}"
    assert f"--criterion=--json=-x {NASTY}" in arguments
    assert arguments[-2:] == ["--", str(folder / "rows.jsonl")]


def ended(app):
    """What became of the run, once it is over."""
    state = ask(app, "/api/progress")[2]
    return state["state"] != "running" and state


def test_build_run_stop_and_resume(app, folder):
    def post(path, body):
        return ask(app, path, method="POST", body=json.dumps(body).encode())[2]

    filled = post("/api/fill", form())
    assert filled["filled"][0] == "Write about topic0 ."
    assert post("/api/fill", form(prompt="{topic} {tpoic}"))["unknown"] == ["tpoic"]
    planned = post("/api/plan", form())
    assert planned["command"].startswith("refladder compete '--prompt-text=Write about {topic}.'")
    assert len(planned["cost"]) == 3
    assert not (folder / "again").exists()
    answers = (folder / "aardvark.jsonl").read_bytes()
    (folder / "aardvark.jsonl").unlink()
    os.mkfifo(folder / "aardvark.jsonl")  # the run waits for the model's first answer
    assert post("/api/run", form())["state"] == "running"
    assert "a run is under way" in post("/api/run", form())["error"]
    assert post("/api/stop", {})["state"] == "stopped"
    (folder / "aardvark.jsonl").unlink()
    (folder / "aardvark.jsonl").write_bytes(answers)
    assert post("/api/run", form())["state"] == "running"
    state = until(lambda: ended(app))
    assert (state["state"], state["written"], state["judged"]) == ("finished", 6, 6), state
    assert ask(app, "/api/runs")[2]["runs"] == [str(folder / "run"), "again", "run"]
    criterion = ask(app, "/api/pool", query="run=again")[2]["pool"]["criteria"][0]
    assert [criterion[name] for name in ("low", "high", "worst", "best", "weight")] == [-2, 2, "bad", "good", 2]
    assert criterion["description"] == "Plain.\nWorst (-2): bad\nBest (2): good"


def test_a_failed_run_says_why(app, folder):
    asked = json.dumps(form(judge="scripted:none.jsonl")).encode()
    ask(app, "/api/run", method="POST", body=asked)
    state = until(lambda: ended(app))
    assert state["state"] == "failed"
    assert "none.jsonl'; pass scripted:PATH" in state["messages"][-1]
    assert not (folder / "again" / "results.jsonl").exists()
