"""The filter in real pipelines of datatrove: in this process, and with workers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("datatrove", reason="datatrove is not installed; run make test-integrations")

from datatrove.data import Document
from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
from story_texts import CONTEXT_IDS, TEXTS

from refladder.errors import UnknownNameError, UsageError
from refladder.integrations.datatrove import LadderFilter
from refladder.signatures import same_scale

DOCS = Path(__file__).parents[2] / "docs"


def rows_of(folder):
    return [
        json.loads(line)
        for path in sorted(folder.rglob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]


def run(folder, *, minimum, files=1, **settings):
    """Filter the texts, once for each input file; gives the statistics and the kept and the dropped rows."""
    (folder / "in").mkdir()
    for number in range(files):
        documents = [
            {"id": f"{number}-{name}", "text": text, "context_id": name}
            for name, text in zip(CONTEXT_IDS, TEXTS, strict=True)
        ]
        (folder / "in" / f"{number}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in documents)
        )
    dropped = JsonlWriter(str(folder / "dropped"), compression=None)
    block = LadderFilter(
        ladders="demo/story", minimum=minimum, exclusion_writer=dropped, **settings
    )
    kept = JsonlWriter(str(folder / "kept"), compression=None)
    pipeline = [JsonlReader(str(folder / "in")), block, kept]
    stats = LocalPipelineExecutor(
        pipeline, tasks=files, workers=files, logging_dir=str(folder / "logs")
    ).run()
    counts = {name: stat.total for name, stat in stats.stats[1].stats.items()}
    return counts, rows_of(folder / "kept"), rows_of(folder / "dropped")


def test_kept_dropped_and_unscored_documents_are_counted(tmp_path, expected):
    best, worst = (row["coherence_score"] for row in expected)
    assert best > worst
    counts, kept, dropped = run(tmp_path, minimum=best, dimensions=["coherence"])
    names = ("total", "forwarded", "dropped", "dropped_below_minimum", "dropped_unscored")
    assert [counts[name] for name in names] == [3, 1, 2, 1, 1]
    (row,) = kept
    assert row["metadata"]["refladder_score"] == best
    # The table has two criteria, and the filter one.
    signature = row["metadata"]["refladder_signature"]
    assert same_scale(signature, expected[0]["signature"], "coherence_score")
    reasons = {row["metadata"]["context_id"]: row["metadata"]["filter_reason"] for row in dropped}
    assert reasons == {"story-02": "below_minimum", "story-99": "unscored"}
    note = next(row["metadata"]["refladder_note"] for row in dropped if row["text"] == TEXTS[2])
    assert note == "coherence: no coherence ladder for context 'story-99' in demo/story"


def test_workers_open_a_judge_each(tmp_path, expected):
    overall = [row["overall_score"] for row in expected]
    counts, kept, _ = run(tmp_path, minimum=0.0, files=2, batch_size=2)
    assert [counts[name] for name in ("total", "forwarded", "dropped_unscored")] == [6, 4, 2]
    assert [row["metadata"]["refladder_score"] for row in kept] == overall * 2


def test_documents_of_a_batch_may_give_their_context_in_different_ways():
    documents = [
        Document(text="A dog.", id="a", metadata={"context_id": "story-01"}),
        Document(
            text="A dog.", id="b", metadata={"context": "An idea that no ladder was built for."}
        ),
        Document(text="A dog.", id="c", metadata={"context_id": "story-01"}),
    ]
    kept = list(LadderFilter(ladders="demo/story", minimum=0.0).run(documents))
    assert [document.id for document in kept] == ["a", "c"]


def test_bad_input():
    with pytest.raises(
        UnknownNameError, match=r"unknown ladder set .* 'demo/stori'; did you mean 'demo/story'"
    ):
        LadderFilter(ladders="demo/stori", minimum=0.5)
    with pytest.raises(UnknownNameError, match="unknown dimension 'wit'"):
        LadderFilter(ladders="demo/story", minimum=0.5, dimensions=["wit"])
    block = LadderFilter(ladders="demo/story", minimum=0.5)
    with pytest.raises(
        UsageError, match=r"context_id \(of the ladder set\) or context; fields: none$"
    ):
        list(block.run([Document(text="a", id="b")]))


def test_the_pipeline_of_the_tutorial_keeps_what_the_command_keeps(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "tutorial" / "score-a-corpus.md").read_text("utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    for name in ("corpus.toml", "seeds.jsonl"):
        (shown,) = re.findall(rf"^\$ cat {name}\n(.*?)^\$ ", text, re.DOTALL | re.MULTILINE)
        (tmp_path / name).write_text(shown, "utf-8")
    subprocess.run([sys.executable, DOCS / "examples" / "make_documents.py"], check=True)
    build = "build table --source seeds.jsonl --task-file corpus.toml --shared 3 --writer builtin --out shared"
    assert command(*build.split()).code == 0
    (tmp_path / "threshold.json").write_text(
        '{"cutoff": 6.5}', "utf-8"
    )  # all that the program reads
    (tmp_path / "program.py").write_text(program, "utf-8")
    done = subprocess.run(
        [sys.executable, "program.py"], check=True, capture_output=True, text=True
    )
    columns = "--column output_id=id --column output=text"
    assert command(*f"score documents {columns} --ladders shared --out scored".split()).code == 3
    filtered = command("filter scored --min educational_value_score=6.5 --out kept.parquet")
    ((kept, rejected, empty),) = re.findall(
        r"2,000 rows: (\d+) passed .*, ([\d,]+) rejected, (\d+) unscored",
        filtered.out + filtered.err,
    )
    assert (
        int(empty) > 0
    )  # which datatrove's reader leaves out, so that the filter does not count them
    assert done.stdout.splitlines()[-3:] == [
        f"forwarded {kept}",
        f"dropped_below_minimum {rejected.replace(',', '')}",
        "dropped_unscored 0",
    ]
