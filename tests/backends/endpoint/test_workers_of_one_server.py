"""Several workers that ask one server: one response store, and limits that are shared."""

import json
import os
import subprocess
import sys

from toy_server import VLLM


def test_workers_share_one_store(serve, tmp_path, request):
    root = request.config.rootpath
    contexts = (root / "published_data/demo/summarization/contexts.jsonl").read_text().splitlines()
    rows = [
        {"context_id": json.loads(contexts[0])["id"], "output": f"A storm closed the harbour, version {number}."}
        for number in range(30)
    ]
    (tmp_path / "in").mkdir()
    for name in "ab":  # the same texts twice, for two workers
        (tmp_path / "in" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def requests(*arguments):
        server = serve(VLLM)
        line = ["score", tmp_path / "in", "--ladders", "demo/summarization", "--dimension", "relevance", *arguments]
        line += ["--judge", "openai:toy", "--base-url", server.url, "--store", tmp_path / f"{len(arguments)}.sqlite"]
        done = subprocess.run(
            [sys.executable, "-m", "refladder", *map(str, line)],
            cwd=root,
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "exact label probabilities [exact:token-ids]" in done.stderr
        return sum(path == "/v1/completions" for path, _ in server.asked)

    whole = requests("--out", tmp_path / "out.jsonl")
    shards = requests("--out", tmp_path / "out", "--workers", "2")
    assert whole >= 30 * 5
    assert shards <= whole + 10  # a handshake more, and no question twice
