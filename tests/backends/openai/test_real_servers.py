"""A server that others wrote, `transformers serve`, with a tiny model made on the spot."""

import json
import sys
from pathlib import Path

import pytest
from asked import LABELS, questions
from served import started

from refladder.backends import connect
from refladder.commands.main import run
from refladder.errors import LabelsUnavailableError
from refladder.records import Sampling
from refladder.testing import check_backend


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    for package in ("torch", "transformers"):
        pytest.importorskip(
            package, reason=f"{package} is not installed; pip install torch transformers"
        )
    import trained_model

    return trained_model.save(tmp_path_factory.mktemp("model"), questions(6))


@pytest.fixture(scope="module")
def transformers_serve(folder, tmp_path_factory):
    for package in ("fastapi", "uvicorn", "accelerate"):
        pytest.importorskip(
            package, reason=f"{package} is not installed; pip install accelerate fastapi uvicorn"
        )
    log = tmp_path_factory.mktemp("log") / "serve.txt"
    command = [
        Path(sys.executable).with_name("transformers"),
        "serve",
        folder,
        "--host",
        "127.0.0.1",
    ]
    with started([*command, "--device", "cpu"], log) as url:
        yield url


def test_transformers_serve_gives_votes(transformers_serve, folder):
    backend = connect(f"openai:{folder}", base_url=transformers_serve, max_concurrency="2")
    print(backend.notice)  # noqa: T201  shown with -s: what this version of the server can do
    assert backend.fingerprint.endswith(" sample1-fixed-shares")
    readings = backend.read_labels(questions(6), LABELS)
    votes = [
        max(range(3), key=reading.logprobs.__getitem__)
        for reading in readings
        if reading.logprobs is not None
    ]
    assert votes == [place % 3 for place in range(6)]  # as it was trained


def test_transformers_serve_writes(transformers_serve, folder):
    backend = connect(f"openai:{folder}", base_url=transformers_serve, max_concurrency="2")
    texts = backend.write(questions(3), Sampling(max_tokens=8))
    assert [text.text for text in texts] == ["Better", "Worse", "Similar"]
    assert all(text.finish == "stop" for text in texts)
    check_backend(backend)


@pytest.mark.parametrize("mode", ["exact", "top"])
def test_transformers_serve_has_no_log_probabilities(transformers_serve, folder, mode):
    backend = connect(f"openai:{folder}", base_url=transformers_serve, mode=mode)
    with pytest.raises(LabelsUnavailableError, match=f"does not support the requested mode {mode}"):
        _ = backend.fingerprint


def test_the_whole_job_over_transformers_serve(transformers_serve, folder, tmp_path, capsys):
    table, task = tmp_path / "table.csv", tmp_path / "task.toml"
    task.write_text(
        'task = "open"\n[[dimensions]]\nname = "clarity"\ndescription = "Lost or clear."\nlow = 1\nhigh = 5\n'
    )
    lines = [
        f"c{context},Say {context}.,s{system},{'word ' * (system + 1)},{1 + (context + system) % 3}"
        for context in (1, 2)
        for system in (1, 2, 3)
    ]
    table.write_text("\n".join(["context_id,context,system,output,clarity", *lines]) + "\n")
    data = ("--source", str(table), "--task-file", str(task))
    server = (
        f"openai:{folder}",
        "--base-url",
        transformers_serve,
        "--store",
        str(tmp_path / "store.sqlite"),
    )

    def refladder(*arguments):
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert code in {0, 3}, err
        return out, err

    # This model knows three words, so most rungs are duplicates: each is in a ladder or has its reason.
    out, _ = refladder(
        "build",
        "own",
        *data,
        "--out",
        tmp_path / "written",
        "--rungs",
        "2",
        "--json",
        "--writer",
        *server,
    )
    built = json.loads(out)
    assert built["ladders"] + built["failed"] == 2
    refladder(
        "build", "own", *data, "--writer", "builtin", "--out", tmp_path / "ladders", "--rungs", "3"
    )

    scored = tmp_path / "scored.jsonl"
    judged = (
        "score",
        table,
        "--ladders",
        tmp_path / "ladders",
        "--out",
        scored,
        "--judge",
        *server,
        "--json",
    )
    first = json.loads(refladder(*judged)[0])
    assert (first["rows"], first["judgments"], first["reused"]) == (6, 18, 0)
    Path(f"{scored}.judgments.jsonl").unlink()
    again = json.loads(refladder(*judged)[0])
    readable = 18 - first["unparsed"]
    assert readable > 0
    assert again["unscored"] == first["unscored"]

    out, _ = refladder(
        "filter",
        scored,
        "--min",
        "clarity_grade=1",
        "--unscored",
        "keep",
        "--out",
        tmp_path / "kept.jsonl",
        "--json",
    )
    assert json.loads(out)["rows"] == 6
    out, _ = refladder(
        "evaluate",
        "own",
        *data,
        "--ladders",
        tmp_path / "ladders",
        "--judge",
        *server,
        "--json",
        "--resamples",
        "20",
    )
    rows = [json.loads(line) for line in out.splitlines()]
    ladder = next(
        row for row in rows if row["method"] == "ladder" and row["level"] == "within_context"
    )
    assert ladder["contexts"] + ladder["skipped"] == 2
    assert "sample1-fixed" in ladder["signature"]
