"""A key in the environment appears in no file, message or traceback.

`run_with_canary` is for the tests of any backend that needs a key: it runs a command in a world of its own, with a key
in every variable from which one could be read, and looks for that key wherever the command could have left it.
"""

import json
import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from json_lines import write_lines
from support import command_server
from waiting import HANG

from refladder.backends import connect
from refladder.backends.openai.client import Capabilities
from refladder.errors import DataError, RefladderError, redacted
from refladder.files.streams import filesystem
from refladder.loaders import load_benchmark

CANARY = "sk-canary-7f3d9a51c6e84b20"
KEYS = ("OPENAI_API_KEY", "REFLADDER_API_KEY", "ANTHROPIC_API_KEY")
VARIABLES = (*KEYS, "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
ROOT = Path(__file__).parent.parent


def run_with_canary(program, folder, *arguments, code=None):
    """Run `refladder WORDS` (or Python `code`) in `folder`; returns (exit code, output and errors).

    Fails when the key stands in what was printed, or in any file below `folder`, which is also the home, the cache and
    the folder for temporary files.
    """
    home = folder / "home"
    home.mkdir(exist_ok=True)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
        "TMPDIR": str(home),
        "XDG_CACHE_HOME": str(home),
        **dict.fromkeys(VARIABLES, CANARY),
        "REFLADDER_HEADERS": json.dumps({"X-Key": CANARY}),
    }
    words = [each for line in arguments for each in str(line).split()]
    command = [program, *words] if code is None else [sys.executable, "-X", "dev", "-c", code]
    found = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, check=False, timeout=HANG
    )
    printed = found.stdout + found.stderr
    assert CANARY.encode() not in printed, "the key was printed"
    assert leaks(folder) == []
    return found.returncode, printed.decode()


@pytest.fixture(scope="module")
def with_canary():
    with command_server.program() as folder:
        yield partial(run_with_canary, Path(folder, "refladder"))


def leaks(folder):
    """Files below a folder that hold the key."""
    return [
        str(path)
        for path in folder.rglob("*")
        if path.is_file() and CANARY.encode() in path.read_bytes()
    ]


def write_outputs(folder):
    outputs = load_benchmark("demo/summarization").outputs[:2]
    write_lines(
        folder / "outputs.jsonl",
        [
            {"output_id": one.id, "context_id": one.context_id, "output": one.text}
            for one in outputs
        ],
    )


LADDERS = "--ladders demo/summarization"
SCORE = f"score outputs.jsonl {LADDERS} --out scored.jsonl --store r.sqlite"
INTO_A_FOLDER = f"score outputs.jsonl {LADDERS} --out folder"


def test_the_search_finds_a_key(with_canary, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "log").write_text(f"Authorization: Bearer {CANARY}")
    assert leaks(tmp_path) == [str(tmp_path / "deep" / "log")]
    code = "import os; print(os.environ['HF_TOKEN']); raise ValueError(dict(os.environ))"
    with pytest.raises(AssertionError, match="the key was printed"):
        with_canary(tmp_path / "deep", code=code)


def test_scoring_and_building_leave_no_key(with_canary, tmp_path):
    write_outputs(tmp_path)
    rule = {"role": "compare", "answer": {"win": -1, "loss": -1.5, "tie": -2}}
    write_lines(tmp_path / "rules.jsonl", [rule])
    code, printed = with_canary(tmp_path, SCORE, "--judge scripted:rules.jsonl --any-judge")
    assert code == 0
    assert "2 rows, 0 scores missing" in printed
    written = {path.name for path in tmp_path.iterdir()}
    assert written >= {"scored.jsonl", "scored.jsonl.run.json", "r.sqlite"}
    build = "build demo/story --rungs 2 --out built --store r.sqlite"
    for line in (build, "store show --store r.sqlite"):
        assert with_canary(tmp_path, line)[0] == 0


def test_a_crash_leaves_no_key(with_canary, tmp_path):
    write_outputs(tmp_path)
    crash = f"""
import os, sys
from refladder.commands import main as cli
from refladder.backends import builtin
def broken(self, prompts, labels):
    key = os.environ["OPENAI_API_KEY"]
    raise RuntimeError("a fault of the backend")
builtin.Builtin.read_labels = broken
sys.exit(cli.run({SCORE.split()!r}))
"""
    code, printed = with_canary(tmp_path, code=crash)
    assert code == 1
    assert "RuntimeError: a fault of the backend" in printed


NO_OPTION = "unknown option of backend 'openai' 'api_key'"
NO_USER = "base_url must hold no user, pass"


@pytest.mark.parametrize(
    ("line", "option", "said"),
    [
        (SCORE, f"api_key={CANARY}", NO_OPTION),
        (INTO_A_FOLDER, f"api_key={CANARY}", NO_OPTION),
        (SCORE, f"base_url=https://user:{CANARY}@127.0.0.1:1/v1", NO_USER),
        (SCORE, f"base_url=http://127.0.0.1:1/v1?k={CANARY}", NO_USER),
    ],
)
def test_a_key_that_is_given_where_none_belongs_is_not_repeated(
    with_canary, tmp_path, line, option, said
):
    write_outputs(tmp_path)
    code, printed = with_canary(tmp_path, line, f"--judge openai:m --judge-option {option}")
    assert code == 2
    assert said in printed


@contextmanager
def server(status):
    """Refuses every request and, as some servers do, repeats the key that it was sent in body and headers."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            key = self.headers.get("Authorization", "")
            seen.append(key)
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.dumps(
                {"error": {"message": f"Incorrect API key provided: {key}.", "code": "invalid"}}
            ).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("X-Seen", key)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815  the name that http.server calls

        def log_message(self, *_):
            pass

    with serving(Handler) as address:
        yield f"{address}/v1", seen


@contextmanager
def serving(handler):
    """The address of a server with this handler."""
    running = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}"
    finally:
        running.shutdown()
        thread.join()
        running.server_close()


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_server_that_repeats_the_key(with_canary, tmp_path, status):
    write_outputs(tmp_path)
    with server(status) as (url, seen):
        options = f"--judge openai:m --judge-option base_url={url}"
        code, printed = with_canary(tmp_path, SCORE, options)
    assert code == 1
    assert printed.strip()
    assert f"Bearer {CANARY}" in seen  # it was sent, so it could have leaked


# With a secret as PW; what is shown has *** in its place.
SECRETS = (
    "http://u:PW@h/a.jsonl",
    "zip://a.csv::filecache::https://u:PW@h/z.zip: no such file",
    "http://u:P@W@h/a",
    "https://h/a?X-Amz-Date=1&X-Amz-Signature=PW&x=2",
    "https://h/a?x-goog-credential=PW",
    "https://h/a?sv=1&sig=PW%3D#f",
    "https://h/a?token=PW",
    "https://h/a?AWSAccessKeyId=PW&Signature=PW",
    "https://h/a?key=PW",
    "--judge-option OPENAI_API_KEY=PW",
    'extra={"api_key":"PW","n":1}',
    '{"headers": {"Authorization": "Bearer P W"}}',
    "{'client_secret': 'PW', 'top_k': 3}",
    "extra=[('api_key', 'PW')]",
)
NO_SECRETS = (
    "hf://datasets/o/n@main/a.jsonl",
    "hub:o/n@main",
    "--judge-option 'x': must be KEY=VALUE",
    '{"signature": "ladder-sum|v1", "max_tokens": 3}',
    "api_key_file=key.txt",
    "https://h/a?tokenizer=x&keys=2",
    "mail a@b.org, see http://h/x",
)


@pytest.mark.parametrize("text", [*SECRETS, *NO_SECRETS])
def test_secrets_in_text(text):
    shown = re.sub(r"(Bearer P W|(u:)?P@?W(%3D)?)", "***", text)
    assert redacted(text) == shown
    assert redacted({"a": [text, {text: (text,)}]}) == {"a": [shown, {shown: (shown,)}]}
    assert str(DataError(text)) == shown


def test_secrets_in_options():
    def options(secret):
        nested = [{"password": secret, "max_tokens": 3, "stop_token": "x"}]
        return {"extra": {"api_key": secret, "nested": nested}, "n": 1}

    assert redacted(options("PW")) == options("***")
    assert redacted({"api_key": None, "token": ""}) == {"api_key": None, "token": ""}


@pytest.mark.parametrize(
    "url",
    ["http://u:PW@h/a.jsonl", "simplecache::http://u:PW@h/a.jsonl", "zip://a::http://:PW@h/z"],
)
def test_a_url_with_a_password_is_refused(url):
    with pytest.raises(
        RefladderError, match=r"://: the URL contains a password, and URLs are written to files"
    ) as told:
        filesystem(url)
    assert "PW" not in str(told.value)


@contextmanager
def files_at_a_url(folder):
    """Serves the files of a folder, whatever the query."""

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, *_):
            pass

    with serving(Handler) as address:
        yield address


def test_a_signed_url_is_read_and_its_signature_is_kept_nowhere(with_canary, tmp_path):
    pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    served, work = tmp_path / "served", tmp_path / "work"
    served.mkdir()
    work.mkdir()
    write_outputs(served)
    with files_at_a_url(served) as url:
        source = f"{url}/outputs.jsonl?X-Amz-Signature={CANARY}&token={CANARY}&name=/a.jsonl"
        none = source.replace("outputs", "none")
        password = url.replace("//", f"//u:{CANARY}@")
        for source_and_out, expected, said in (
            (f"{source} --out scored.jsonl", 0, ""),
            (f"{source} --out folder", 0, ""),
            (f"{source} --out folder", 0, "1 from earlier runs"),
            (f"{none} --out x.jsonl", 2, "?X-Amz-Signature=***&token=***&name=/a.jsonl: no "),
            (f"{password}/a.jsonl --out x.jsonl", 2, "the URL contains a password"),
        ):
            code, printed = with_canary(work, f"score {LADDERS} {source_and_out}")
            assert code == expected, printed
            assert said in printed


def test_a_key_in_extra_is_sent_and_kept_nowhere(with_canary, tmp_path):
    write_outputs(tmp_path)
    extra = json.dumps({"api_key": CANARY, "top_k": 3}, separators=(",", ":"))
    with server(200) as (url, _):
        options = f"--judge openai:m --judge-option base_url={url} --judge-option extra={extra}"
        for line in (SCORE, INTO_A_FOLDER):
            assert with_canary(tmp_path, line, options)[0] in (0, 1, 3)
        twice = with_canary(tmp_path, SCORE, options, f"--judge-option extra={extra}")
        assert (twice[0], "given twice" in twice[1]) == (2, True)
    judge = connect("openai:m", base_url="http://127.0.0.1:9/v1", extra=extra)
    judge._capabilities = Capabilities(mode="top", top=5)
    assert CANARY not in judge.fingerprint
    assert "('top_k', 3)" in judge.fingerprint
