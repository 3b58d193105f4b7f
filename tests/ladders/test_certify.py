"""certify: verdicts on rungs of known quality, the stored file, and the signatures that name it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from ladder_judges import DIMENSION, Comparing, set_of
from scored_folders import Inline, split

import refladder
from refladder.backends import connect
from refladder.calibration.records import Look, Threshold
from refladder.errors import DataError, UsageError
from refladder.files.certificate import CERTIFICATE, json_of, sealed, write_certificate
from refladder.files.jsonl import write_record
from refladder.files.ladder_sets import (
    find_folder,
    ladder_set,
    load_ladders,
    rated_names,
    write_ladder_set,
)
from refladder.ladders.certificate_tables import certificate_tables
from refladder.ladders.certify import JUDGMENTS, certify, open_asker
from refladder.loaders.linker import Linker
from refladder.records import Link, Rung
from refladder.settings import Asking
from refladder.signatures import scale_of


def certificate_of(qualities, judge=None, how=None):
    opened = set_of(qualities)
    return certify(opened, open_asker(opened, judge or Comparing(), how or Asking()))


def with_ladders(opened, ladders):
    return ladder_set("made", [DIMENSION], list(opened.contexts.values()), list(ladders))


def signature_of(path):
    return json.loads(path.read_text("utf-8").splitlines()[0])["signature"]


def test_rising_ladders_pass():
    found = certificate_of([[0, 1, 2, 4]] * 12)
    (dimension,) = found.dimensions
    assert found.verdict == dimension.verdict == "pass"
    assert found.counts.judgments == 12 * 6 * 2
    assert found.counts.of_rungs == {"pass": 48, "rewrite": 0, "drop": 0, "refuse": 0}
    assert [step.in_order for step in dimension.steps] == [12] * 3
    # 2^-12; Holm multiplies equal p-values by the number of tests, 3
    assert dimension.steps[0].p == pytest.approx(0.5**12, rel=1e-5)
    assert dimension.steps[0].p_holm == pytest.approx(3 * 0.5**12, rel=1e-5)
    # The judge is Davidson's model with the qualities as strengths and 0.5 as the weight of a tie.
    strengths = [level.strength for level in dimension.levels]
    assert strengths == pytest.approx([0, 1, 2, 4], abs=0.02)
    assert dimension.ties == pytest.approx(0.5, abs=0.01)
    assert found == sealed(found)
    shown = json_of(found)
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown


def test_strengths_that_cannot_be_fitted_are_absent_with_a_note(monkeypatch):
    monkeypatch.setattr("refladder.statistics.davidson._STEPS", 1)  # no fit converges
    found = certificate_of([[0, 1, 2, 4]] * 12)
    (dimension,) = found.dimensions
    assert found.verdict == "pass"
    assert [level.strength for level in dimension.levels] == [None] * 4
    assert dimension.ties is None
    unfitted = "no strengths and no spacing, because the fit of Davidson's model did not"
    assert any(unfitted in note for note in found.notes)


def test_one_swapped_ladder_is_named_and_the_set_passes():
    found = certificate_of([[0, 1, 3, 2.5, 4]] + [[0, 1, 2, 3, 4]] * 11)
    assert found.verdict == "pass"
    first, *others = found.of_ladders
    # Levels 3 and 4 are swapped. The chain 1-2-4-5 loses w(2,4) at quality 2.5, the chain 1-2-3-5 has w(3,5) at 4 - 3:
    # sums of margins 1.5 + 1.5 against 2 + 1 in quality; the logistic curve bends, so the even one is larger.
    assert first.rungs == ("pass", "pass", "rewrite", "pass", "pass")
    assert first.verdict == "rewrite"
    assert first.adjacent == {"in_order": 3, "of": 4}
    assert {row.verdict for row in others} == {"pass"}


def test_a_level_that_is_swapped_everywhere_is_dropped():
    found = certificate_of([[0, 1, 3, 2.5, 4]] * 12)
    (dimension,) = found.dimensions
    assert found.verdict == "drop"
    verdicts = [level.verdict for level in dimension.levels]
    assert verdicts == ["pass", "pass", "drop", "rewrite", "pass"]
    assert found.counts.of_rungs["drop"] == 12


def test_a_judge_without_an_opinion_refuses(tmp_path, command):
    found = certificate_of([[1, 1, 1]] * 12)
    step = found.dimensions[0].steps[0]
    assert (found.verdict, step.decided, step.p) == ("refuse", 0, 1.0)
    opened = set_of([[1, 1, 1]] * 3)
    records = list(opened.contexts.values()), list(opened.ladders.values())
    write_ladder_set(tmp_path / "flat", opened.dimensions, *records, [])
    done = command(f"certify {tmp_path}/flat")
    assert done.code == 3
    assert "verdict: refuse" in done.out


def test_few_contexts_cannot_pass_and_the_note_says_so():
    found = certificate_of([[0, 3, 6]] * 4)
    # 2 tests: 2^-4 * 2 = .125 is above .1; 2^-5 * 2 = .0625
    assert found.verdict == "untested"
    assert found.notes[0] == (
        "Too few ladders for a verdict: worth 4 of 5. No sign test of 2 steps can pass with them even if all ladders rise; "
        "build ladders for more contexts."
    )
    assert found.counts.of_rungs["pass"] == 12
    # One ladder that falls is a finding: no step is shown to rise.
    assert certificate_of([[6, 3, 0]] + [[0, 3, 6]] * 3).verdict == "refuse"
    assert certificate_of([[0, 3, 6]] * 5).verdict == "pass"


def test_a_biased_judge_is_inconsistent_and_the_orders_cancel():
    found = certificate_of([[0, 1, 2]] * 12, Comparing(first=9.0))
    assert found.verdict == "pass"
    assert found.counts.inconsistent == {"count": 36, "of": 36}
    assert found.dimensions[0].steps[0].w == pytest.approx(0.5, abs=0.01)


def test_what_cannot_be_parsed_is_counted_and_no_number():
    broken = Comparing(unparsed=lambda target, reference: "c0 1" in target and "c0 2" in reference)
    found = certificate_of([[0, 1, 2]] * 12, broken)
    assert found.counts.unparsed == 1
    first = found.of_ladders[0]
    assert first.rungs == ("refuse", "refuse", "pass")
    assert first.adjacent == {"in_order": 1, "of": 1}
    assert found.dimensions[0].steps[0].decided == 11


@pytest.mark.parametrize(
    ("level", "levels", "strengths"),
    [
        (3, ["pass", "untested", "untested"], [0, 1, None]),
        (2, ["untested"] * 3, [0, None, 2]),
        (1, ["untested", "untested", "pass"], [None, 0, 1]),
    ],
)
def test_a_level_that_the_judge_never_answered_about_is_untested(level, levels, strengths):
    broken = Comparing(unparsed=lambda *texts: any(text.endswith(f" {level}") for text in texts))
    found = certificate_of([[0, 1, 2]] * 12, broken)
    (dimension,) = found.dimensions
    assert found.verdict == "untested"
    assert [each.verdict for each in dimension.levels] == levels
    for each, strength in zip(dimension.levels, strengths, strict=True):
        assert each.strength == (strength and pytest.approx(strength, abs=0.02))
    assert found.counts.unparsed == 12 * 2 * 2
    assert certificate_tables(found)


def test_a_copy_of_a_lower_rung_is_rewritten_whatever_the_judge_says():
    opened = set_of([[0, 1, 2, 3]] * 6)
    first, *others = opened.ladders.values()
    text = f"{first.rungs[0].text}\n"
    copied = replace(first, rungs=(*first.rungs[:3], replace(first.rungs[3], text=text)))
    again = with_ladders(opened, [copied, *others])
    # A judge that an empty line impresses: it puts the copy above rung 3.
    found = certify(again, open_asker(again, Comparing(raised_by={text: 9.0})))
    assert found.of_ladders[0].adjacent == {"in_order": 3, "of": 3}
    assert found.of_ladders[0].rungs == ("pass", "pass", "pass", "rewrite")


def test_a_ladder_that_length_climbs_is_counted():
    opened = set_of([[0, 1, 2]] * 6)
    found = certify(opened, open_asker(opened, Comparing()))
    assert found.counts.length_climbs == 0
    assert found.counts.spearman_length is None  # all rungs have as many words
    longer = [
        tuple(
            Rung(level=rung.level, text=rung.text + " word" * rung.level) for rung in ladder.rungs
        )
        for ladder in opened.ladders.values()
    ]
    pairs = zip(opened.ladders.values(), longer, strict=True)
    again = with_ladders(opened, [replace(ladder, rungs=rungs) for ladder, rungs in pairs])
    found = certify(again, open_asker(again, Comparing()))
    assert (found.counts.length_climbs, found.counts.spearman_length) == (6, 1.0)


def test_judgments_are_stored_and_not_asked_again(tmp_path):
    judge, path = Comparing(), tmp_path / "j.jsonl"
    first = certificate_of([[0, 1, 2]] * 6, judge, Asking(judgments=path))
    assert judge.asked == 36
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:20]) + lines[20][:30])  # killed while it wrote judgment 20
    assert certificate_of([[0, 1, 2]] * 6, judge, Asking(judgments=path)) == first
    assert judge.asked == 36 + 36 - 19


def test_recorded_judgments_stand_in_for_a_judge(folder, tmp_path, fails):
    judgments = tmp_path / "kept.jsonl"
    certified = refladder.certify(folder, judge="builtin", judgments=judgments)
    (folder / "certificate.json").unlink()
    before = judgments.read_bytes()
    assert refladder.certify(folder, judgments_from=judgments) == certified
    assert (folder / "certificate.json").is_file()
    assert judgments.read_bytes() == before
    refused = f"{judgments}: no judgments of some rungs ("
    assert refused in fails(2, f"certify demo/dialogue --judgments-from {judgments}")
    only = "name the judgments of exactly these ladders and prompts, or a judge with --judge"
    assert only in fails(2, f"certify demo/dialogue --judgments-from {judgments}")


@pytest.mark.parametrize("outcomes", ["win,lost,tie", "loss,win,tie", "win,tie"])
def test_recorded_judgments_between_other_outcomes_are_refused(folder, tmp_path, fails, outcomes):
    judgments = tmp_path / "kept.jsonl"
    refladder.certify(folder, judge="builtin", judgments=judgments)
    first, *lines = judgments.read_text("utf-8").splitlines()
    line = json.loads(lines[0])
    line["outcomes"] = outcomes.split(",")
    line["logprobs"] = line["logprobs"][: len(line["outcomes"])]
    judgments.write_text("\n".join([first, json.dumps(line), *lines[1:]]) + "\n", "utf-8")
    refused = f"{judgments}:2: outcomes {outcomes.replace(',', ', ')!r}, and this file holds"
    assert refused in fails(2, f"certify {folder} --judgments-from {judgments}")


def test_a_set_without_texts_of_contexts_is_refused():
    bare = ladder_set("bare", [DIMENSION], [], list(set_of([[0, 1]] * 2).ladders.values()))
    missing = r"bare: the set has no contexts\.jsonl, which a judge needs"
    with pytest.raises(UsageError, match=missing):
        open_asker(bare, Comparing())


@pytest.fixture
def folder(tmp_path):
    """A copy of a shipped set without its certificate."""
    shutil.copytree(find_folder("demo/story"), tmp_path / "set")
    (tmp_path / "set" / CERTIFICATE).unlink()
    return tmp_path / "set"


def test_scores_name_the_certificate_and_an_edit_makes_it_stale(
    folder, command, fails, stories, tmp_path
):
    plain, out = tmp_path / "plain.jsonl", tmp_path / "certified.jsonl"
    line = f"score {stories} --ladders {folder}"
    command(f"{line} --out {plain}")
    assert "certificate" not in signature_of(plain)
    assert command(f"certify {folder}").code == 0
    assert (folder / JUDGMENTS).is_file()
    digest = json.loads((folder / CERTIFICATE).read_text())["digest"]
    command(f"{line} --out {out}")
    certified = signature_of(plain).replace("|backend", f"|certificate:{digest}|backend")
    assert signature_of(out) == certified
    again = command(f"rescore {out}.judgments.jsonl").rows[0]
    assert again["signature"] == certified
    assert f"certificate {digest} by builtin/1" in command(f"show {folder}").out
    shown = command(f"show {folder} story-02").out
    assert "certificate by builtin/1: rungs 1 pass," in shown
    ladders = folder / "ladders.jsonl"
    ladders.write_text(ladders.read_text().replace("bottle", "jar", 1))
    for reading in (f"show {folder}", line):
        message = fails(2, reading)
        assert f"{folder / CERTIFICATE}: the certificate is of other ladders" in message
        assert "certify the set again with `refladder certify`, or delete the file" in message
    assert command(f"certify {folder}").code == 0
    assert command(f"show {folder}").code == 0


def test_a_folder_with_a_certificate_that_was_changed_is_refused(folder):
    ladders = load_ladders(str(folder)).digest
    found = sealed(replace(certificate_of([[0, 1, 2]] * 6), ladders=ladders))
    write_certificate(folder, found)
    assert load_ladders(str(folder)).certificate == found
    write_certificate(folder, replace(found, verdict="drop"))
    with pytest.raises(DataError, match="the certificate was changed after it was written"):
        load_ladders(str(folder))
    assert load_ladders(str(folder), certified=False).certificate is None


def test_a_build_of_other_ladders_removes_the_certificate(folder):
    opened = load_ladders(str(folder))
    ladders, contexts = list(opened.ladders.values()), list(opened.contexts.values())
    write_certificate(folder, certificate_of([[0, 1, 2]] * 6))
    for kept, stays in ((ladders, True), (ladders[1:], False)):
        write_ladder_set(folder, opened.dimensions, contexts, kept, [])
        assert (folder / CERTIFICATE).exists() is stays


def test_a_dry_run_reads_the_judgments_where_they_are(command, fails, folder, tmp_path):
    line = f"certify {folder} --store {tmp_path}/r.sqlite"
    judgments = tmp_path / "j.jsonl"
    assert "480 calls" in command(f"{line} --dry-run").out
    assert not (folder / CERTIFICATE).exists()
    command(f"{line} --judgments {judgments}")
    before = judgments.read_bytes()
    # An answer of the store is counted there, and is no judgment of an earlier run.
    for path, kept, free in ((judgments, 480, 0), (tmp_path / "new.jsonl", 0, 480)):
        done = command(f"{line} --judgments {path} --dry-run --json").rows[0]
        backend = done["backends"][0]
        assert (done["kept_judgments"], backend["free"], backend["calls"]) == (kept, free, 0)
        assert judgments.read_bytes() == before
    judgments.write_text("{}\n")
    text = fails(2, f"certify {folder} --judgments {judgments} --dry-run")
    assert f'{judgments}:1: expected a line with "schema": "run/3", found None' in text


def test_a_shipped_set_keeps_its_certificate(command):
    stored = find_folder("demo/story") / CERTIFICATE
    before = stored.read_bytes()
    (row,) = command("certify demo/story --json").rows
    assert row["verdict"] == "drop"
    assert "digest" in row
    assert stored.read_bytes() == before


@pytest.mark.parametrize("name", rated_names())
def test_shipped_certificates_are_current(name):
    opened = load_ladders(name)
    advice = f"run `refladder certify published_data/{name} --judgments FILE` and keep the new file"
    assert certify(opened, open_asker(opened, connect("builtin"))) == opened.certificate, advice


def test_a_certificate_keeps_the_judgments_that_were_made_before_it(
    folder, command, stories, tmp_path
):
    out = tmp_path / "scored.jsonl"
    line = f"score {stories} --ladders {folder} --out {out}"
    command(line)
    command(f"certify {folder}")
    judgments = tmp_path / "scored.jsonl.judgments.jsonl"
    lines = judgments.read_text("utf-8").splitlines()
    with judgments.open("a", encoding="utf-8") as file:
        file.write('{"torn')  # by a kill
    command(line)
    assert "|certificate:" in signature_of(out)
    assert judgments.read_text("utf-8").splitlines()[1:] == lines[1:]
    assert command(f"rescore {judgments}").rows[0]["signature"] == signature_of(out)


def test_a_certificate_does_not_change_the_scale(folder, command, fails, stories, tmp_path):
    """What was made of scores before `certify` is good for those after it, and the other way round."""
    old, new, both = (tmp_path / f"{name}.jsonl" for name in ("old", "new", "both"))
    assert command(f"score {stories} --ladders {folder} --out {old}").code == 0
    assert command(f"certify {folder}").code == 0
    assert command(f"score {stories} --ladders {folder} --out {new}").code == 0
    plain, certified = signature_of(old), signature_of(new)
    assert plain != certified
    assert scale_of(certified) == plain == scale_of(plain)
    both.write_text(old.read_text() + new.read_text())
    least = "--min coherence_score=-99"
    passed = [len(command(f"filter {table} {least}").rows) for table in (both, old)]
    assert passed[0] == 2 * passed[1] > 0
    column, threshold = "coherence_score", tmp_path / "threshold.json"
    for first, then in ((plain, new), (certified, old)):
        look = Look(column=column, signature=first, label="good", number=1, digest="d")
        made = Threshold(
            column=column, cutoff=-99.0, precision=0.9, recall=None, sure=0.9, signature=first, label="good",
            good=">= 1", labels=9, labels_above=9, bad_above=0, rows=9, kept=9, used=(), version="1", unit="row",
            looks=(look,),
        )  # fmt: skip
        write_record(threshold, made)
        assert command(f"filter {then} --threshold {threshold}").code == 0
    other = tmp_path / "other.jsonl"
    other.write_text(old.read_text().replace("rule:ladder-sum", "rule:other"))
    text = fails(2, f"filter {other} --threshold {threshold}")
    assert "another signature: rule:other here, rule:ladder-sum in" in text
    link = Link(from_signature=plain, to_signature="elsewhere", columns=(), version="1")
    assert Linker(link, "l.json").maps(certified, "x:1")
    text = fails(2, f"link --from {old} --to {new} --out {tmp_path}/l")
    assert "have the same signature, so their scores are on one scale already" in text


def test_files_of_a_set_that_was_certified_since_are_not_scored_again(
    folder, command, rows, tmp_path, monkeypatch
):
    monkeypatch.setattr("refladder.many_files.workers.Processes", Inline)
    out = tmp_path / "out"

    def stamps():
        return sorted((path, path.stat().st_mtime_ns) for path in out.glob("*.jsonl"))

    line = f"score {split(rows(6), tmp_path / 'in', 1)} --ladders {folder} --out {out}"
    assert command(line).code == 0
    assert command(f"certify {folder}").code == 0
    before = stamps()
    assert len(before) == 6
    assert command(line).code == 0
    assert stamps() == before
    before[0][0].unlink()  # a file that is to be scored again gets the new signature
    assert command(line).code == 0
    signatures = {signature_of(path) for path, _ in before}
    assert len(signatures) == 2
    assert len(set(map(scale_of, signatures))) == 1
    assert command(f"filter {out} --min coherence_score=-99").code == 0
    assert command(f"rescore {out}").code == 0
