"""The commands over a real connection to the toy server."""

import json
import os
import subprocess
import sys

from toy_server import TEXT_ONLY, VLLM

CONTEXT = "The harbour of Lerwick was closed on Monday after a storm."


def refladder(*arguments, cwd, cache):
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "refladder", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )


def table(folder, rows):
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_score_goes_on_without_asking_again(serve, tmp_path, request):
    server = serve(VLLM)
    root = request.config.rootpath
    ids = json.loads(
        (root / "published_data/demo/summarization/contexts.jsonl").read_text().splitlines()[0]
    )
    rows = [
        {"context_id": ids["id"], "output": f"A storm closed the harbour, version {place}."}
        for place in range(3)
    ]
    source = table(tmp_path, rows)
    arguments = [
        "score",
        source,
        "--ladders",
        "demo/summarization",
        "--out",
        tmp_path / "out.jsonl",
    ]
    arguments += [
        "--any-judge",
        "--judge",
        "openai:toy",
        "--base-url",
        server.url,
        "--judge-option",
        "max-concurrency=8",
    ]
    done = refladder(*arguments, cwd=root, cache=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "toy at http://127.0.0.1" in done.stderr
    assert "exact label probabilities" in done.stderr
    scored = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(scored) == 3
    assert all(row["relevance_score"] is not None for row in scored)
    assert "openai:toy@127.0.0.1" in scored[0]["signature"]
    reading = [body for path, body in server.asked if path == "/v1/completions"]
    done = refladder(*arguments, cwd=root, cache=tmp_path)
    assert done.returncode == 0, done.stderr
    again = [body for path, body in server.asked if path == "/v1/completions"]
    assert len(again) - len(reading) < 10  # a handshake, and not one of the rows


def test_a_demanded_mode_that_is_impossible_is_an_exit_code_and_a_sentence(
    serve, tmp_path, request
):
    server = serve(TEXT_ONLY)
    source = table(tmp_path, [{"context_id": "summarization-01", "output": "y"}])
    arguments = [
        "score",
        source,
        "--ladders",
        "demo/summarization",
        "--out",
        "-",
        "--judge",
        "openai:toy",
    ]
    done = refladder(
        *arguments,
        "--base-url",
        server.url,
        "--judge-option",
        "mode=top",
        cwd=request.config.rootpath,
        cache=tmp_path,
    )
    assert done.returncode == 1
    assert "'toy' does not support the requested mode top" in done.stderr
    assert "Traceback" not in done.stderr
