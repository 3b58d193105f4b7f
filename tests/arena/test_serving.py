"""The server of the review page: who is answered, what may be read, and what starts."""

from __future__ import annotations

import asyncio
import json
import os
from urllib.parse import quote

import pytest
from review_data import NASTY, contest
from waiting import until

pytest.importorskip("starlette", reason="the server of the page is an extra")

from refladder.arena import building
from refladder.arena.building import Builder
from refladder.arena.serving import review_app
from refladder.arena.workspace import Workspace
from refladder.errors import DataError, UsageError

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
        "headers": [
            (name.encode(), value.encode()) for name, value in given.items() if value is not None
        ],
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
        ({"origin": "http://["}, 403, "requests from other pages are refused"),  # no URL
        ({"authorization": None}, 401, "open the address that `refladder review` printed last"),
        ({"authorization": "Bearer a-tokem"}, 401, "the key of this page is missing or old"),
    ],
)
@pytest.mark.parametrize("path", ["/api/key", "/api/ratings", "/api/run"])
def test_foreign_requests_are_refused(app, headers, status, message, path):
    found, _, answer = ask(
        app, path, method="POST" if path != "/api/key" else "GET", headers=headers, body=b"{}"
    )
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
    for name, value in {
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
    }.items():
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
    assert ask(app, "/api/undo", method="POST", body=json.dumps(rating).encode())[2] == {
        "removed": True
    }
    bad = json.dumps({**rating, "second": 3}).encode()
    assert ask(app, "/api/ratings", method="POST", body=bad)[::2] == (
        400,
        {"error": "a preference is between two texts of one row"},
    )


def test_the_pool_gives_nothing_away(app):
    words = json.dumps(ask(app, "/api/pool")[2])
    for clue in ("aardvark", "badger", "winner", "r0", "rate"):
        assert clue not in words


@pytest.mark.parametrize(
    "name",
    ["../outside.csv", "/etc/passwd", "link/outside.csv", "linked.csv", "a\0b", "\ud800", "~/x"],
)
def test_paths_stay_under_the_named_folders(tmp_path, folder, name):
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "outside.csv").write_text("a\n1\n")
    (folder / "link").symlink_to(outside)
    (folder / "linked.csv").symlink_to(outside / "outside.csv")
    workspace = Workspace(None, [folder])
    if name == "~/x":
        assert workspace.allowed(name).is_relative_to(folder)
        return
    for use in (workspace.allowed, workspace.preview, workspace.review_data):
        with pytest.raises(UsageError, match="is not under a folder that was named at the start"):
            use(name)
    assert workspace.tables() == ["aardvark.jsonl", "badger.jsonl", "judge.jsonl", "rows.jsonl"]


@pytest.mark.parametrize("name", ["*.csv", "**/s.csv", "deep/[s].csv", "deep", "", "."])
def test_a_table_is_one_file_and_no_pattern(tmp_path, folder, name):
    """`s.csv` matches, and is a link to a file elsewhere."""
    (tmp_path / "s.csv").write_text("a\nsecret\n")
    (folder / "deep").mkdir()
    for place in (folder, folder / "deep"):
        (place / "s.csv").symlink_to(tmp_path / "s.csv")
    builder = Builder(Workspace(None, [folder]))
    for use in (
        lambda: builder.fill(form(table=name)),
        lambda: builder.arguments(form(table=name)),
        lambda: builder._workspace.preview(name),
    ):
        with pytest.raises(
            UsageError, match=r"no such file under a folder that was named|fill in 'table'"
        ):
            use()


def test_the_files_of_a_run_do_not_leave_the_named_folders(tmp_path, folder, command):
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (folder / "run" / "results.jsonl").rename(outside / "results.jsonl")
    (folder / "run" / "results.jsonl").symlink_to(outside / "results.jsonl")
    workspace = Workspace(None, [folder])
    assert workspace.runs() == []
    with pytest.raises(
        DataError, match=r"results\.jsonl: a link to .*elsewhere/results\.jsonl, which is not in"
    ):
        workspace.review_data("run")
    (folder / "texts.csv").write_text("context_id,output\nstory-01,A text.\n")
    kept = outside / "judgments.jsonl"
    given = ("--ladders", "demo/story", "--out", folder / "scored.csv", "--judgments", kept)
    assert command("score", folder / "texts.csv", *given).code == 0
    data = workspace.review_data("scored.csv")
    assert "climbs" not in data.key
    assert any(
        "judgments.jsonl' is not under a folder that was named" in each
        for each in data.key["warnings"]
    )
    assert (
        "climbs" in Workspace(folder / "scored.csv", [folder]).review_data("").key
    )  # named by the user
    config = folder / "scored.csv.run.json"
    config.write_text(
        config.read_text()
        .replace("demo/story", str(outside))
        .replace(str(kept), f"{folder}/kept.jsonl")
    )
    kept.rename(folder / "kept.jsonl")
    data = Workspace(None, [folder]).review_data("scored.csv")
    assert "climbs" in data.key
    assert any("elsewhere' is not under a folder" in each for each in data.key["warnings"])


def test_a_run_is_not_written_through_a_link(folder, tmp_path):
    (folder / "again").mkdir()
    (folder / "again" / "results.jsonl").symlink_to(tmp_path / "other.jsonl")
    with pytest.raises(UsageError, match=r"results\.jsonl' is not under a folder"):
        Builder(Workspace(None, [folder])).arguments(form())


STRANGE = [
    "\ud800",
    "x" * 200_000,
    "a/" * 4000,
    "a\0b",
    "",
    "\u202e",
    [],
    {},
    None,
    True,
    -1,
    1e308,
    10**400,
    "*",
    "\n",
]


class NotStarted:
    """Stands for a process, whose arguments the system must be able to take."""

    exitcode = 2

    def __init__(self, arguments, *_):
        assert not any(
            "\0" in argument for argument in map(os.fsdecode, map(os.fsencode, arguments))
        )

    def join(self, _timeout):
        return 2


@pytest.mark.parametrize("value", STRANGE, ids=lambda value: repr(value)[:12])
def test_strange_values_in_requests_are_told_and_are_no_fault_of_the_server(
    app, value, monkeypatch
):
    """Each field of each request in turn; `ask` raises what the server does not answer."""
    monkeypatch.setattr(building, "Process", NotStarted)
    bodies = [
        ("ratings", {"text": 0, "criterion": 0, "value": 1, "rater": "ann"}),
        ("ratings", {"first": 0, "second": 1, "criterion": 0, "winner": "first", "rater": "ann"}),
        ("undo", {"first": 0, "second": 1, "criterion": 0, "winner": "first", "rater": "ann"}),
        ("fill", form()),
        ("plan", form()),
        ("run", form()),
    ]
    changed = [(name, {**body, field: value}) for name, body in bodies for field in body]
    for part in ("criteria", "models"):
        first = form()[part][0]
        changed += [("plan", form(**{part: [{**first, field: value}]})) for field in first]
    for name, body in [*changed, ("ratings", value), ("plan", value)]:
        status, _, answer = ask(app, f"/api/{name}", method="POST", body=json.dumps(body).encode())
        assert status in (200, 400), (name, body)
        assert status == 200 or len(answer["error"]) < 1000
    for name, field in (("pool", "run"), ("key", "run"), ("table", "table"), ("mine", "rater")):
        words = quote(str(value)[:9000].encode("utf-8", "surrogatepass"))
        assert ask(app, f"/api/{name}", query=f"{field}={words}")[0] in (200, 400), name


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "out",
            "\ud800",
            "the request holds half of a surrogate pair, which no file can hold; take it out",
        ),
        (
            "table",
            "x" * 200_000,
            "a name or a text in the request is too long (File name too long); shorten it",
        ),
        (
            "prompt",
            "x" * 200_000,
            "a name or a text in the request is too long (Argument list too long); shorten it",
        ),
    ],
)
def test_what_is_wrong_with_a_request_is_one_sentence(app, name, value, message):
    found = ask(app, "/api/plan", method="POST", body=json.dumps(form(**{name: value})).encode())
    assert found[::2] == (400, {"error": message})


def form(**more):
    return {
        "table": "rows.jsonl",
        "prompt": "Write about {topic}.",
        "models": [
            {"name": "a", "backend": "scripted:aardvark.jsonl"},
            {"name": "b", "backend": "scripted:badger.jsonl"},
        ],
        "judge": "builtin",
        "criteria": [
            {
                "name": "clarity",
                "description": "Plain.",
                "worst": "-2: bad",
                "best": "2: good",
                "weight": 2,
            }
        ],
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
        ({"judge": "--explain"}, "backend '--explain' is unknown"),
        ({"models": "x"}, "fill in 'models'"),
        (
            {"models": [{"name": "a=b", "backend": "builtin"}]},
            "name 'a=b' contains '='; choose another name",
        ),
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
    asked = form(
        prompt="--explain {topic}", criteria=[{"name": "--json", "description": f"-x {NASTY}"}]
    )
    arguments = Builder(Workspace(None, [folder])).arguments(asked)
    assert arguments[1] == "--prompt-text=--explain {topic}"
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
    assert ask(app, "/api/runs")[2]["runs"] == [str(folder / "run"), "again"]
    criterion = ask(app, "/api/pool", query="run=again")[2]["pool"]["criteria"][0]
    assert [criterion[name] for name in ("low", "high", "worst", "best", "weight")] == [
        -2,
        2,
        "bad",
        "good",
        2,
    ]
    assert criterion["description"] == "Plain.\nWorst (-2): bad\nBest (2): good"


def test_a_failed_run_says_why(app, folder):
    asked = json.dumps(form(judge="scripted:none.jsonl")).encode()
    ask(app, "/api/run", method="POST", body=asked)
    state = until(lambda: ended(app))
    assert state["state"] == "failed"
    assert "none.jsonl'; pass scripted:PATH" in state["messages"][-1]
    assert not (folder / "again" / "results.jsonl").exists()
