"""Several workers that ask one server: one response store, and limits that are shared."""

import json
import os
import subprocess
import sys

from scored_folders import Inline, scored, split
from toy_server import VLLM


def test_parts_share_one_store(serve, tmp_path, request):
    root = request.config.rootpath
    contexts = (root / "published_data/demo/summarization/contexts.jsonl").read_text().splitlines()
    rows = [
        {
            "context_id": json.loads(contexts[0])["id"],
            "output": f"A storm closed the harbour, version {number}.",
        }
        for number in range(30)
    ]
    (tmp_path / "in").mkdir()
    for name in "ab":  # the same texts twice, for two parts
        (tmp_path / "in" / f"{name}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows)
        )

    server = serve(VLLM)

    def prompts(*arguments):
        before = len(server.asked)
        line = [
            "score",
            tmp_path / "in",
            "--ladders",
            "demo/summarization",
            "--dimension",
            "relevance",
            *arguments,
        ]
        line += [
            "--judge",
            "openai:toy",
            "--base-url",
            server.url,
            "--store",
            tmp_path / "store.sqlite",
        ]
        done = subprocess.run(
            [sys.executable, "-m", "refladder", *map(str, line)],
            cwd=root,
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "exact label probabilities" in done.stderr
        asked = [
            body["prompt"] for path, body in server.asked[before:] if path == "/v1/completions"
        ]
        return sum(len(prompt) if isinstance(prompt[0], list) else 1 for prompt in asked)

    first, second = (prompts("--out", tmp_path / "out", "--shard", part) for part in ("1/2", "2/2"))
    assert first >= 30 * 5
    assert second <= 10  # a handshake: the answers are in the store


def test_limits_of_a_finished_run_may_change_and_what_its_scores_depend_on_may_not(
    serve, command, fails, tmp_path, monkeypatch
):
    monkeypatch.setattr("refladder.fleet.workers.Processes", Inline)
    server = serve(VLLM)
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out"
    command("export", "demo/summarization", "--out", rows)
    rows.write_text(rows.read_text().partition("\n")[0] + "\n")
    whoever = (
        "score",
        rows,
        "--ladders",
        "demo/summarization",
        "--dimension",
        "relevance",
        "--out",
        out,
    )
    run = (*whoever, "--judge", "openai:toy", "--base-url", server.url, "--no-store")
    assert command(*run).code == 0
    before, asked = scored(out), len(server.asked)
    assert command(*run).code == 0
    assert len(server.asked) == asked  # nothing is left, so the judge is not opened
    assert command(*run, "--judge-option", "max_concurrency=2").code == 0
    for other in ((*run, "--judge-option", "mode=top"), (*whoever, "--judge", "builtin")):
        message = fails(2, *other)
        assert message.startswith(f"refladder: {out}: its files are of another run (")
        assert "choose another folder, or delete this one" in message
    text = fails(1, *run, "--base-url", "http://127.0.0.1:9/v1", "--judge-option", "attempts=1")
    assert "127.0.0.1:9" in text  # no server there, so the signature cannot be known
    assert scored(out) == before


def test_parts_of_a_run_have_one_judge(serve, command, fails, tmp_path, monkeypatch):
    monkeypatch.setattr("refladder.fleet.workers.Processes", Inline)
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out"
    command("export", "demo/summarization", "--out", rows)
    lines = rows.read_text().splitlines()
    source = split([json.loads(lines[0]), json.loads(lines[-1])], tmp_path / "in", 1)
    part = (
        "score",
        source,
        "--ladders",
        "demo/summarization",
        "--dimension",
        "relevance",
        "--out",
        out,
    )
    part += ("--no-store", "--shard")
    assert command(*part, "1/2", "--judge", "openai:toy", "--base-url", serve(VLLM).url).code == 0
    message = fails(2, *part, "2/2")
    assert message.startswith(f"refladder: {out}: its files are of another run (")
    assert [path.name for path in out.glob("*.jsonl")] == ["00.jsonl"]
