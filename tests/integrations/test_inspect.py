"""The scorer in real runs of Inspect, with its model for tests."""

from __future__ import annotations

import json
import math
from pathlib import Path
from zipfile import ZipFile

import pytest

pytest.importorskip("inspect_ai", reason="inspect_ai is not installed; run make test-integrations")

from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessageSystem,
    ChatMessageUser,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import includes, match, mean, precomputed_scores, stderr
from inspect_ai.solver import generate, solver
from json_lines import read_lines
from story_texts import CONTEXT_IDS, TEXTS

import refladder
from refladder.errors import UnknownNameError
from refladder.files.inspect_logs import read_samples
from refladder.integrations.inspect import ladder
from refladder.signatures import same_scale


def answer(text):
    output = ModelOutput.from_content("mockllm", text)
    output.usage = ModelUsage()  # otherwise a tokenizer is downloaded, to count tokens
    return output


def run(scorer, metadata, folder, texts=TEXTS):
    import anyio

    model = get_model(
        "mockllm/model", custom_outputs=[answer(text) for text in texts], memoize=False
    )
    task = Task(
        dataset=[Sample(input="Write.", metadata=row) for row in metadata],
        solver=generate(),
        scorer=scorer,
    )

    async def go():
        return await eval_async(task, model=model, log_dir=str(folder), max_samples=1)

    (log,) = anyio.run(go)
    return log


def test_samples_have_the_scores_of_the_command_line_and_one_stays_unscored(tmp_path, expected):
    scorer = ladder(ladders="demo/story", dimensions=["coherence"])
    log = run(scorer, [{"context_id": name} for name in CONTEXT_IDS], tmp_path)
    assert log.status == "success", log.error
    first, second, unscored = (sample.scores["refladder"] for sample in log.samples)
    assert [first.value, second.value] == [row["coherence_score"] for row in expected]
    assert first.metadata["coherence"] == first.value
    of_sample, of_row = first.metadata["signature"], expected[0]["signature"]
    # The table has two criteria, and the scorer one.
    assert same_scale(of_sample, of_row, "coherence_score")
    assert math.isnan(unscored.value)
    assert unscored.reason == "scoring_failed"
    assert (
        unscored.explanation
        == "coherence: no coherence ladder for context 'story-99' in demo/story"
    )
    (result,) = log.results.scores
    assert (result.scored_samples, result.unscored_samples) == (2, 1)
    assert result.metrics["mean"].value == pytest.approx((first.value + second.value) / 2)


def test_scores_of_a_table_are_given_to_a_log_by_precomputed_scores(tmp_path, expected):
    """The samples of `run` have the ids 1, 2 and 3; the last has no ladder, and so no record."""
    answers = [
        {"id": number, "context_id": name, "output": text}
        for number, (name, text) in enumerate(zip(CONTEXT_IDS, TEXTS, strict=True), start=1)
    ]
    scored = refladder.score(answers, ladders="demo/story", dimensions=["coherence"])
    records = [
        {
            "id": row["id"],
            "value": row["coherence_score"],
            "metadata": {"signature": row["signature"]},
        }
        for row in scored
        if row["coherence_score"] is not None
    ]
    path = tmp_path / "scores.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    scorer = precomputed_scores(str(path), metrics=[mean(), stderr()])
    log = run(scorer, [{"context_id": name} for name in CONTEXT_IDS], tmp_path)
    assert log.status == "success", log.error
    scores = [(sample.scores or {}).get("precomputed_scores") for sample in log.samples]
    assert [score.value for score in scores[:2]] == [row["coherence_score"] for row in expected]
    assert [*scores[0].metadata] == ["signature"]
    assert same_scale(scores[0].metadata["signature"], expected[0]["signature"], "coherence_score")
    assert scores[2] is None  # which Inspect does not count as unscored either
    (result,) = log.results.scores
    assert (result.scored_samples, result.unscored_samples) == (2, 0)
    assert result.metrics["mean"].value == pytest.approx(
        sum(score.value for score in scores[:2]) / 2
    )


def test_several_dimensions_give_the_overall_score(tmp_path, expected):
    log = run(
        ladder(ladders="demo/story"), [{"context_id": name} for name in CONTEXT_IDS[:2]], tmp_path
    )
    scores = [sample.scores["refladder"] for sample in log.samples]
    assert [score.value for score in scores] == [row["overall_score"] for row in expected]
    assert [score.metadata["complexity"] for score in scores] == [
        row["complexity_score"] for row in expected
    ]


def test_answers_of_a_store_can_be_used(tmp_path, expected):
    scorer = ladder(
        ladders="demo/story", dimensions=["coherence"], store=str(tmp_path / "store.sqlite")
    )
    log = run(scorer, [{"context_id": CONTEXT_IDS[0]}], tmp_path)
    assert log.samples[0].scores["refladder"].value == expected[0]["coherence_score"]


def test_bad_input(tmp_path):
    with pytest.raises(
        UnknownNameError, match=r"unknown ladder set .* 'demo/stori'; did you mean 'demo/story'"
    ):
        ladder(ladders="demo/stori")
    log = run(ladder(ladders="demo/story"), [{"topic": "dogs"}], tmp_path)
    assert log.status == "error"
    assert (
        "needs a field context_id (of the ladder set) or context; fields: topic"
        in log.error.message
    )


@pytest.fixture
def finished(tmp_path):
    """A log of two samples in two epochs, with two scorers; one input is a chat, and one output is empty."""
    import anyio

    outputs = [*TEXTS[:2], TEXTS[0], ""]
    model = get_model(
        "mockllm/model", custom_outputs=[answer(text) for text in outputs], memoize=False
    )
    chat = [ChatMessageSystem(content="Be brief."), ChatMessageUser(content="Tell a story.")]
    samples = [
        Sample(
            id="first", input="Write a story.", target="sea", metadata={"topic": CONTEXT_IDS[0]}
        ),
        Sample(id="second", input=chat, target="dragon", metadata={"topic": CONTEXT_IDS[1]}),
    ]
    task = Task(dataset=samples, solver=generate(), scorer=[includes(), match()], epochs=2)

    async def go():
        return await eval_async(task, model=model, log_dir=str(tmp_path), max_samples=1)

    (log,) = anyio.run(go)
    return log


def test_a_log_is_scored_as_a_table(finished, tmp_path, command, monkeypatch):
    """What Inspect itself says of a sample, and the scores of the same texts in a table."""
    monkeypatch.chdir(tmp_path)
    line = f"score {finished.location} --ladders demo/story --column context_id=metadata_topic"
    assert command(f"{line} --out scored.jsonl").code == 3
    rows = {row["sample_id"]: row for row in read_lines("scored.jsonl")}
    assert len(rows) == len(finished.samples) == 4
    plain = [
        {"context_id": each.metadata["topic"], "output": each.output.completion}
        for each in finished.samples
    ]
    scored = refladder.score(plain, ladders="demo/story")
    for sample, same in zip(finished.samples, scored, strict=True):
        row = rows[sample.uuid]
        assert (row["id"], row["epoch"]) == (sample.id, sample.epoch)
        assert row["model"] == "mockllm/model"
        assert row["output"] == sample.output.completion
        assert row["score_includes"] == sample.scores["includes"].value
        assert row["score_match"] == sample.scores["match"].value
        assert row["coherence_score"] == same["coherence_score"]
        text = "system: Be brief.\n\nuser: Tell a story."
        assert row["input"] == {"first": "Write a story.", "second": text}[sample.id]
    assert sum(row["coherence_note"] == "the output is empty" for row in rows.values()) == 1
    # The column `model` says whose outputs they are.
    assert command(f"{line} --out scored.csv").code == 3
    done = command("compare scored.jsonl --by coherence_grade --column system=model --json")
    assert "refladder: 1 system in scored.jsonl" in done.err
    alone = command(f"score {finished.location} --ladders general/reply --any-judge --dry-run")
    assert "no context in 3 of 4 rows" in alone.err
    assert refladder.score(
        finished.location,
        ladders="demo/story",
        columns={"context_id": "metadata_topic"},
        out="again.jsonl",
    )
    assert read_lines("again.jsonl") == read_lines("scored.jsonl")


@solver
def breaks(number):
    """Answer, and then end the sample of this id with an error."""

    async def solve(state, answers):
        state = await answers(state)
        if state.sample_id == number:
            raise RuntimeError("broken")
        return state

    return solve


def log_of(folder, number, **more):
    import anyio

    model = get_model(
        "mockllm/model", custom_outputs=[answer(text) for text in TEXTS], memoize=False
    )
    dataset = [Sample(input="Write.", id=each) for each in range(1, len(TEXTS) + 1)]
    task = Task(dataset=dataset, solver=breaks(number))

    async def go():
        return await eval_async(task, model=model, log_dir=str(folder), max_samples=1, **more)

    (log,) = anyio.run(go)
    return Path(log.location)


def test_a_log_that_is_not_whole_is_refused(tmp_path, fails):
    def told(log):
        told = fails(2, f"score {log} --ladders general/reply")
        return told.removeprefix(f"refladder: {log}: ")

    broken = log_of(tmp_path / "error", 2)
    assert told(broken) == (
        f"a log with the status 'error', so samples may be missing; run `inspect eval-retry {broken}`, and name the new "
        "log\n"
    )
    without = log_of(tmp_path / "without", None, log_samples=False)
    whole = f"and {len(TEXTS)} in its run; name a whole log, of a run that kept its samples\n"
    assert told(without) == f"0 samples in this log, {whole}"
    good, less = log_of(tmp_path / "good", None), tmp_path / "less.eval"
    with ZipFile(good) as source, ZipFile(less, "w") as target:
        for name in source.namelist():
            if not name.startswith("samples/2"):
                target.writestr(name, source.read(name))
        at = source.getinfo("samples/2_epoch_1.json").header_offset + 100
    assert told(less) == f"{len(TEXTS) - 1} samples in this log, {whole}"
    # One bit of a sample, which Inspect reads without a look at the checksum.
    content = bytearray(good.read_bytes())
    content[at] ^= 1
    good.write_bytes(content)
    assert told(good).startswith("cannot be read as a log of Inspect (")


def test_a_sample_that_ended_with_an_error_has_no_answer(tmp_path):
    log = log_of(tmp_path, 2, fail_on_error=False)
    texts = [row["output"] for row in read_samples(str(log))]
    assert texts == [text if number != 2 else None for number, text in enumerate(TEXTS, 1)]


def test_a_damaged_log_is_named(tmp_path, fails, write_jsonl):
    log = tmp_path / "bad.eval"
    assert f"refladder: {log}: no such file" in fails(2, f"score {log} --ladders demo/story")
    log.write_bytes(b"no log")
    message = f"refladder: {log}: cannot be read as a log of Inspect ("
    assert message in fails(2, f"score {log} --ladders demo/story")
    rows = write_jsonl([{"context_id": CONTEXT_IDS[0], "output": TEXTS[0]}])
    assert "unknown file extension; use" in fails(
        2, f"score {rows} --ladders demo/story --out {tmp_path}/new.eval"
    )
