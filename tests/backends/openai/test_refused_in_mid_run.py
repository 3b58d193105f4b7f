"""A key that is refused in mid-run: what was answered before is kept, also without a response store."""

import json
from dataclasses import replace

import pytest
from toy_server import OPENAI

from refladder.files.jsonl import read_appended


class Watched(list):
    """What a server is asked; `then` is called as the question with this number arrives."""

    def __init__(self, number, then):
        super().__init__()
        self.number, self.then = number, then

    def append(self, request):
        super().append(request)
        if len(self.questions) == self.number:
            self.then()

    @property
    def questions(self):
        """The different prompts; one may take several requests."""
        texts = (body["messages"][0]["content"] for _, body in self if "messages" in body)
        return {text for text in texts if "harbour, version" in text}


@pytest.mark.parametrize("arguments", [(), ("--both-orders",)])
def test_the_rest_alone_is_asked(serve, command, tmp_path, request, arguments):
    root = request.config.rootpath
    contexts = (root / "published_data/demo/summarization/contexts.jsonl").read_text().splitlines()
    ids = [json.loads(line)["id"] for line in contexts[:2]]
    table, server = tmp_path / "t.jsonl", serve(OPENAI)
    rows = [
        {"context_id": ids[n % 2], "output": f"A storm closed the harbour, version {n}."}
        for n in range(8)
    ]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    judge = (
        "--judge",
        "openai:toy",
        "--base-url",
        server.url,
        "--no-store",
        "--judge-option",
        "max_concurrency=1",
    )
    score = (
        "score",
        table,
        "--ladders",
        "demo/summarization",
        "--dimension",
        "relevance",
        "--any-judge",
        *judge,
        *arguments,
    )

    def run(name, number=-1):
        server.quirks = OPENAI
        server.asked = Watched(
            number, lambda: setattr(server, "quirks", replace(OPENAI, key="another"))
        )
        done = command(*score, "--out", tmp_path / name)
        return done, len(server.asked.questions)

    done, whole = run("whole.jsonl")
    assert done.code == 3  # the toy model gives some labels too little
    assert whole == 8 * 5 * (2 if arguments else 1)
    done, before = run("s.jsonl", 24)
    assert done.code == 1
    assert "it was sent no key (401: " in done.err
    assert before == 25  # the last of them was refused
    kept = tmp_path / "s.jsonl.judgments.jsonl.unfinished"
    assert len(read_appended(kept)) == 24
    done, after = run("s.jsonl")
    assert done.code == 3
    assert after == whole - 24
    assert not kept.exists()
    for name in ("", ".judgments.jsonl"):
        assert (tmp_path / f"s.jsonl{name}").read_bytes() == (
            tmp_path / f"whole.jsonl{name}"
        ).read_bytes()
