"""build --extend: a rung above the top of every ladder of a set, for all of them or none."""

from __future__ import annotations

import json

import numpy as np
import pytest
from doubles import Double
from ladder_judges import DIMENSION, Comparing, set_of
from simulated import quality_of, text_of

import refladder
from refladder.errors import UsageError
from refladder.files.jsonl import to_line
from refladder.files.ladder_sets import CERTIFICATE, SET, load_ladders, write_ladder_set
from refladder.jobs.build import Extension, build, to_extend
from refladder.jobs.certify import certify, open_asker
from refladder.jobs.mend import Mender
from refladder.records import Completion, Sampling, Shared

QUALITIES = [[0.0, 2.0, 4.0]] * 8


class KilledError(Exception):
    """The process ends here."""


class Writer(Double):
    """Writes a text 2 better than the one it is shown; in the contexts of `wrong` no better until a seed is reached."""

    fingerprint = "writer/1"

    def __init__(self, wrong=(), until=0, *, refused=(), killed_after=99):
        self.wrong, self.until, self.refused, self.left = set(wrong), until, set(refused), killed_after
        self.prompts = []

    @property
    def texts_at_once(self):
        return 2

    def write(self, prompts, sampling):
        if self.left < len(prompts):
            raise KilledError
        self.left -= len(prompts)
        self.prompts += prompts
        return [self._completion(prompt, sampling.seed) for prompt in prompts]

    def _completion(self, prompt, seed):
        context = prompt.slots["context"]
        if context in self.refused:
            return Completion(text="", finish="error", note="HTTP 503")
        best = quality_of(prompt.slots["lower"])
        better = best - 1 if context in self.wrong and seed < self.until else best + 2
        return Completion(text=text_of(better, f"{context} {prompt.role} {seed}"))


def stored(folder, ladders, shared=None, certificate=None):
    write_ladder_set(
        folder, ladders.dimensions, list(ladders.contexts.values()), list(ladders.ladders.values()), (), shared=shared
    )
    if certificate:
        (folder / CERTIFICATE).write_text(json.dumps(certificate), "utf-8")
    return folder


@pytest.fixture
def old(tmp_path):
    return stored(tmp_path / "old", set_of(QUALITIES))


def extended(old, folder, writer, *, judge=None, **how):
    extends = to_extend(old)
    contexts, sampling = list(extends.ladders.contexts.values()), Sampling()
    asked = {"sampling": sampling, "attempts": 2}
    mender = None
    if judge is not None:
        about = {"contexts": contexts, "dimensions": [DIMENSION], "folder": folder}
        mender = Mender(writer=writer, judge=judge, **about, **asked)
    return build(
        writer,
        contexts,
        extends.ladders.dimensions,
        folder,
        rungs=extends.ladders.rungs + 1,
        human=extends.texts,
        shared=bool(extends.ladders.anchors),
        mender=mender,
        extends=extends,
        **asked,
        **how,
    )


def test_every_ladder_gets_a_top_and_the_lower_levels_stay_as_they_are(old, tmp_path):
    writer = Writer()
    report = extended(old, tmp_path / "new", writer)
    assert (report.ladders, report.failures, report.certificate) == (8, (), None)
    before, after = load_ladders(old), load_ladders(tmp_path / "new")
    assert list(after.ladders) == list(before.ladders)
    for key, ladder in after.ladders.items():
        assert ladder.rungs[:3] == before.ladders[key].rungs
        context = before.contexts[key[0]].text
        assert (ladder.rungs[3].level, ladder.rungs[3].text) == (4, text_of(6.0, f"{context} above 0"))
        assert ladder.rungs[3].between is None
        (prompt,) = ladder.recipe.prompts
        assert prompt.startswith("story/above@")
        assert (ladder.recipe.backend, ladder.recipe.sampling) == ("by hand+writer/1", None)
    assert (after.rungs, before.rungs) == (4, 3)
    assert after.digest != before.digest
    assert {prompt.slots["lower"] for prompt in writer.prompts} == {
        each.rungs[2].text for each in before.ladders.values()
    }
    for name in ("contexts.jsonl", "dimensions.jsonl", "context_digests.jsonl"):
        assert (tmp_path / "new" / name).read_bytes() == (old / name).read_bytes()
    # Once more: the second top is written above the first.
    extended(tmp_path / "new", tmp_path / "higher", writer)
    highest = load_ladders(tmp_path / "higher").ladders["c0", "worth"]
    assert [quality_of(rung.text) for rung in highest.rungs] == [0, 2, 4, 6, 8]
    assert highest.recipe.backend == "by hand+writer/1"


def test_an_interrupted_run_is_resumed(old, tmp_path):
    with pytest.raises(KilledError):
        extended(old, tmp_path / "new", Writer(killed_after=5))
    assert not (tmp_path / "new" / "ladders.jsonl").exists()
    writer = Writer()
    assert extended(old, tmp_path / "new", writer).ladders == 8
    assert len(writer.prompts) == 4  # the first four are in the journal: 2 at once, and the third call had no room
    extended(old, tmp_path / "whole", Writer())
    assert (tmp_path / "new" / "ladders.jsonl").read_bytes() == (tmp_path / "whole" / "ladders.jsonl").read_bytes()


def test_one_failed_top_leaves_no_set(old, tmp_path):
    report = extended(old, tmp_path / "new", Writer(refused=["Idea 3."]))
    (failure,) = report.failures
    assert (report.ladders, failure.context_id, failure.level) == (0, "c3", 4)
    assert failure.reasons == ("failed: HTTP 503",) * 2
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["build.journal.jsonl"]


def test_a_top_that_is_not_better_is_written_anew(old, tmp_path):
    writer = Writer(["Idea 3."], until=2)  # seed 2 is that of the first round: 2 attempts come before it
    report = extended(old, tmp_path / "new", writer, judge=Comparing())
    assert report.certificate["built"] == {"rounds": 1, "rewritten": 1, "dropped": 0, "failed": 0}
    assert report.certificate["verdict"] == "pass"
    ladder = load_ladders(tmp_path / "new").ladders["c3", "worth"]
    assert ladder.rungs[:3] == load_ladders(old).ladders["c3", "worth"].rungs
    assert quality_of(ladder.rungs[3].text) == 6


def test_a_top_that_stays_below_leaves_no_set(old, tmp_path):
    report = extended(old, tmp_path / "new", Writer(["Idea 3."], until=99), judge=Comparing())
    (failure,) = report.failures
    assert (report.ladders, report.certificate, failure.context_id) == (0, None, "c3")
    assert failure.reasons == ("not certified: comparing/1 does not find level 4 in order",)
    assert not (tmp_path / "new" / "ladders.jsonl").exists()
    again, judge = Writer(["Idea 3."], until=99), Comparing()
    assert extended(old, tmp_path / "new", again, judge=judge) == report
    assert (len(again.prompts), judge.asked) == (0, 0)


def test_lower_levels_that_are_out_of_order_are_no_reason_to_fail_or_to_drop(tmp_path):
    # Level 2 is worse than level 1 everywhere; a build would drop it.
    old = stored(tmp_path / "old", set_of([[1.0, 0.0, 4.0]] * 8))
    report = extended(old, tmp_path / "new", Writer(), judge=Comparing())
    assert (report.ladders, report.failures) == (8, ())
    assert report.certificate["counts"]["rungs"] == 4
    assert report.certificate["verdict"] != "pass"
    before, after = load_ladders(old), load_ladders(tmp_path / "new")
    assert all(ladder.rungs[:3] == before.ladders[key].rungs for key, ladder in after.ladders.items())


def test_a_shared_set_keeps_its_anchors_and_their_seed(tmp_path):
    ladders = set_of(QUALITIES[:3])
    anchors = tuple(ladders.contexts)
    old = stored(tmp_path / "old", ladders, shared=Shared(anchors=anchors, seed=7))
    assert extended(old, tmp_path / "new", Writer()).anchors == anchors
    assert (tmp_path / "new" / SET).read_bytes() == (old / SET).read_bytes()
    assert load_ladders(tmp_path / "new").anchors == anchors


def test_failures_of_the_old_set_go_with_it(old, tmp_path):
    report = extended(old, tmp_path / "none", Writer(refused=["Idea 3."]))
    (old / "failures.jsonl").write_bytes(to_line(report.failures[0]))
    assert extended(old, tmp_path / "new", Writer()).failures == ()
    assert (tmp_path / "new" / "failures.jsonl").read_bytes() == (old / "failures.jsonl").read_bytes()


def test_a_certified_set_is_certified_again_by_its_judge(old):
    certificate = certify(load_ladders(old), open_asker(load_ladders(old), Comparing()))
    stored(old, load_ladders(old), certificate=certificate)
    extends = to_extend(old)
    extends.check_judge(Comparing())
    other = type("Other", (Comparing,), {"fingerprint": "other/1"})()
    message = "old is certified by comparing/1, and the judge is other/1; name the same with --judge, or ask for the "
    with pytest.raises(UsageError, match=message + "certificate of another with --certify$"):
        extends.check_judge(other)
    Extension(load_ladders(old, certified=False)).check_judge(other)


RULES = [
    {"role": "above", "contains": {"context": "lighthouse"}, "finish": "length", "text": "cut"},
    {"role": "above", "text": "A whole new story."},
]


def test_the_command_names_what_failed_and_ends_with_3(command, tmp_path):
    rules = tmp_path / "rules.jsonl"
    rules.write_text("".join(json.dumps(rule) + "\n" for rule in RULES), "utf-8")
    named = [each.id for each in load_ladders("demo/story").contexts.values() if "lighthouse" in each.text]
    asked = ("build", "--extend", "demo/story", "--writer", f"scripted:{rules}", "--out", tmp_path / "new")
    done = command(*asked)
    assert done.code == 3
    count = 2 * len(named)
    assert (
        f"{tmp_path / 'new'}: no set was written, since {count} of its ladders would have no new top; try" in done.err
    )
    assert f"{named[0]} coherence rung 6: truncated: the writer reached max_tokens" in done.err
    assert not (tmp_path / "new" / "ladders.jsonl").exists()
    (row,) = command(*asked, "--json").rows
    assert (row["ladders"], row["failed"]) == (0, count)
    with pytest.raises(
        UsageError, match=rf"no set was written, since {count} of its .* restart \({named[0]} coherence"
    ):
        refladder.build(extend="demo/story", writer=f"scripted:{rules}", out=tmp_path / "new2")


def test_command_and_call_write_the_same_set(command, tmp_path):
    done = command("build", "--extend", "demo/story", "--out", tmp_path / "new", "--dry-run")
    assert "dry run, builtin: at most " in done.out
    done = command("build", "--extend", "demo/story", "--out", tmp_path / "new")
    assert (done.code, "24 ladders of 6 rungs in" in done.err) == (0, True)
    ladders = refladder.build(extend="demo/story")
    assert ladders.digest == load_ladders(tmp_path / "new").digest
    # demo/story is certified, so both are, by certificates of their own.
    assert ladders.certificate["digest"] == load_ladders(tmp_path / "new").certificate["digest"]
    assert ladders.certificate["ladders"] == ladders.digest != load_ladders("demo/story").digest
    assert ladders.certificate["counts"]["rungs"] == 6


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("demo/story", "--extend takes contexts, dimensions and rungs from demo/story; leave out the other data"),
        ("--rungs 5", "--extend takes contexts, dimensions and rungs from demo/story; leave out --rungs"),
        ("--shared 2", "leave out --shared"),
        ("--dimension coherence", "leave out --dimension"),
        ("--human rungs.csv", "leave out --human"),
    ],
)
def test_what_is_about_new_ladders_is_refused(fails, tmp_path, words, message):
    assert message in fails(2, "build", *words.split(), "--extend", "demo/story", "--out", tmp_path / "new")


def test_bad_input(fails, old, tmp_path):
    out = ("--out", tmp_path / "new")
    assert "name a benchmark or your table (BENCHMARK), or a set with --extend" in fails(2, "build", *out)
    with pytest.raises(UsageError, match="data is missing; give a table or a benchmark, or a set with extend"):
        refladder.build(out=tmp_path / "new")
    with pytest.raises(UsageError, match=r"extend takes .* from demo/story; leave out rungs$"):
        refladder.build(extend="demo/story", rungs=4)
    (old / "contexts.jsonl").unlink()
    text = fails(2, "build", "--extend", old, *out)
    assert f"{old}: the set has no contexts.jsonl, which the writer needs; add that file" in text
    assert f"{old}: --extend and --out must be different files" in fails(2, "build", "--extend", old, "--out", old)


def test_scores_of_both_sets_are_linked(command, tmp_path):
    new, stories = tmp_path / "new", tmp_path / "stories.jsonl"
    assert command("build", "--extend", "demo/story", "--out", new).code == 0
    assert command("export", "demo/story", "--out", stories).code == 0
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    for ladders, out in (("demo/story", before), (new, after)):
        assert command("score", stories, "--ladders", ladders, "--dimension", "coherence", "--out", out).code == 0

    def scores(path, column="coherence_score"):
        return np.array([json.loads(line)[column] for line in path.read_text("utf-8").splitlines()])

    for first, second, end in ((before, after, 21), (after, before, 15)):
        link = tmp_path / f"link-{end}.json"
        judged = [f"{path}.judgments.jsonl" for path in (first, second)]
        done = command("link", "--from", judged[0], "--to", judged[1], "--out", link)
        assert done.code == 0, done.err
        column = json.loads(link.read_text())["columns"][0]
        assert column["ends"] == [-end, end]  # 1 + 2 + ... + 6, and 1 + ... + 5
        assert column["slope"] == pytest.approx(1.0)  # the same judge on the same lower rungs
        assert column["error"] < 0.2 * column["identity_error"]
        mapped = tmp_path / f"mapped-{end}.jsonl"
        assert command("rescore", judged[0], "--link", link, "--out", mapped).code == 0
        wrong = np.abs(scores(mapped, "coherence_score_linked") - scores(second))
        assert np.mean(wrong) < 0.2 * np.mean(np.abs(scores(first) - scores(second)))
        low, high = (scores(mapped, f"coherence_score_linked_{name}") for name in ("low", "high"))
        assert np.all((low >= -end) & (high <= end))
        assert np.mean((low <= scores(second)) & (scores(second) <= high)) > 0.9
