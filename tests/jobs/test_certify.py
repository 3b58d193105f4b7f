"""certify: verdicts on rungs of known quality, the stored file, and the signatures that name it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from ladder_judges import DIMENSION, RECIPE, Comparing, set_of
from scored_folders import Inline, split

from refladder.backends import connect
from refladder.errors import DataError, UsageError
from refladder.files.jsonl import write_record
from refladder.files.ladder_sets import (
    CERTIFICATE,
    certificate_digest,
    find_folder,
    ladder_set,
    load_ladders,
    rated_names,
    write_certificate,
    write_ladder_set,
)
from refladder.jobs.certify import JUDGMENTS, certify, open_asker
from refladder.jobs.link import Linker
from refladder.records import Ladder, Link, Look, Rung, Threshold, scale_of
from refladder.settings import Asking


def certificate_of(qualities, judge=None):
    opened = set_of(qualities)
    return certify(opened, open_asker(opened, judge or Comparing()))


def test_rising_ladders_pass():
    found = certificate_of([[0, 1, 2, 4]] * 12)
    (dimension,) = found["dimensions"]
    assert found["verdict"] == dimension["verdict"] == "pass"
    assert found["counts"]["judgments"] == 12 * 6 * 2
    assert found["counts"]["of_rungs"] == {"pass": 48, "rewrite": 0, "drop": 0, "refuse": 0}
    assert [step["in_order"] for step in dimension["steps"]] == [12] * 3
    # 2^-12; Holm multiplies equal p-values by the number of tests, 3
    assert dimension["steps"][0]["p"] == pytest.approx(0.5**12, rel=1e-5)
    assert dimension["steps"][0]["p_holm"] == pytest.approx(3 * 0.5**12, rel=1e-5)
    # The judge is Davidson's model with the qualities as strengths and 0.5 as the weight of a tie.
    assert [level["strength"] for level in dimension["levels"]] == pytest.approx(
        [0, 1, 2, 4], abs=0.02
    )
    assert dimension["ties"] == pytest.approx(0.5, abs=0.01)
    assert found["digest"] == certificate_digest(found)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_strengths_that_cannot_be_fitted_are_absent_with_a_note(monkeypatch):
    monkeypatch.setattr("refladder.ranking.davidson._STEPS", 1)  # no fit converges
    found = certificate_of([[0, 1, 2, 4]] * 12)
    (dimension,) = found["dimensions"]
    assert found["verdict"] == "pass"
    assert [level["strength"] for level in dimension["levels"]] == [None] * 4
    assert dimension["ties"] is None
    assert any(
        "no strengths and no spacing, because the fit of Davidson's model did not" in n
        for n in found["notes"]
    )


def test_one_swapped_ladder_is_named_and_the_set_passes():
    found = certificate_of([[0, 1, 3, 2.5, 4]] + [[0, 1, 2, 3, 4]] * 11)
    assert found["verdict"] == "pass"
    first, *others = found["of_ladders"]
    # Levels 3 and 4 are swapped. The chain 1-2-4-5 loses w(2,4) at quality 2.5, the chain 1-2-3-5 has w(3,5) at 4 - 3:
    # sums of margins 1.5 + 1.5 against 2 + 1 in quality; the logistic curve bends, so the even one is larger.
    assert first["rungs"] == ["pass", "pass", "rewrite", "pass", "pass"]
    assert first["verdict"] == "rewrite"
    assert first["adjacent"] == {"in_order": 3, "of": 4}
    assert {row["verdict"] for row in others} == {"pass"}


def test_a_level_that_is_swapped_everywhere_is_dropped():
    found = certificate_of([[0, 1, 3, 2.5, 4]] * 12)
    (dimension,) = found["dimensions"]
    assert found["verdict"] == "drop"
    assert [level["verdict"] for level in dimension["levels"]] == [
        "pass",
        "pass",
        "drop",
        "rewrite",
        "pass",
    ]
    assert found["counts"]["of_rungs"]["drop"] == 12


def test_a_judge_without_an_opinion_refuses():
    found = certificate_of([[1, 1, 1]] * 12)
    assert found["verdict"] == "refuse"
    assert found["dimensions"][0]["steps"][0]["decided"] == 0
    assert found["dimensions"][0]["steps"][0]["p"] == 1.0


def test_few_contexts_cannot_pass_and_the_note_says_so():
    found = certificate_of([[0, 3, 6]] * 5)
    # 2 tests: 2^-5 * 2 = .0625 is above .05; 2^-6 * 2 = .031
    assert found["verdict"] == "refuse"
    assert "worth: fewer than 6 contexts" in found["notes"][0]
    assert certificate_of([[0, 3, 6]] * 6)["verdict"] == "pass"


def test_a_biased_judge_is_inconsistent_and_the_orders_cancel():
    found = certificate_of([[0, 1, 2]] * 12, Comparing(first=9.0))
    assert found["verdict"] == "pass"
    assert found["counts"]["inconsistent"] == {"count": 36, "of": 36}
    assert found["dimensions"][0]["steps"][0]["w"] == pytest.approx(0.5, abs=0.01)


def test_what_cannot_be_parsed_is_counted_and_no_number():
    broken = Comparing(unparsed=lambda target, reference: "c0 1" in target and "c0 2" in reference)
    found = certificate_of([[0, 1, 2]] * 12, broken)
    assert found["counts"]["unparsed"] == 1
    first = found["of_ladders"][0]
    assert first["rungs"] == ["refuse", "refuse", "pass"]
    assert first["adjacent"] == {"in_order": 1, "of": 1}
    assert found["dimensions"][0]["steps"][0]["decided"] == 11


def test_a_copy_of_a_lower_rung_is_rewritten_whatever_the_judge_says():
    opened = set_of([[0, 1, 2, 3]] * 6)
    first, *others = opened.ladders.values()
    copied = replace(
        first,
        rungs=(*first.rungs[:3], replace(first.rungs[0], level=4, text=f"{first.rungs[0].text}\n")),
    )
    again = ladder_set("made", [DIMENSION], list(opened.contexts.values()), [copied, *others])
    # A judge that an empty line impresses: it puts the copy above rung 3.
    found = certify(
        again, open_asker(again, Comparing(raised_by={first.rungs[0].text + "\n": 9.0}))
    )
    assert found["of_ladders"][0]["adjacent"] == {"in_order": 3, "of": 3}
    assert found["of_ladders"][0]["rungs"] == ["pass", "pass", "pass", "rewrite"]


def test_a_ladder_that_length_climbs_is_counted():
    opened = set_of([[0, 1, 2]] * 6)
    found = certify(opened, open_asker(opened, Comparing()))
    assert found["counts"]["length_climbs"] == 0
    assert found["counts"]["spearman_length"] is None  # all rungs have as many words
    longer = [
        Ladder(
            context_id=ladder.context_id,
            task="story",
            dimension="worth",
            rungs=tuple(
                Rung(level=rung.level, text=rung.text + " word" * rung.level)
                for rung in ladder.rungs
            ),
            recipe=RECIPE,
        )
        for ladder in opened.ladders.values()
    ]
    again = ladder_set("made", [DIMENSION], list(opened.contexts.values()), longer)
    found = certify(again, open_asker(again, Comparing()))
    assert (found["counts"]["length_climbs"], found["counts"]["spearman_length"]) == (6, 1.0)


def test_judgments_are_stored_and_not_asked_again(tmp_path):
    opened, judge = set_of([[0, 1, 2]] * 6), Comparing()
    first = certify(opened, open_asker(opened, judge, Asking(judgments=tmp_path / "j.jsonl")))
    assert judge.asked == 36
    lines = (tmp_path / "j.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "j.jsonl").write_bytes(
        b"".join(lines[:20]) + lines[20][:30]
    )  # killed while it wrote judgment 20
    assert (
        certify(opened, open_asker(opened, judge, Asking(judgments=tmp_path / "j.jsonl"))) == first
    )
    assert judge.asked == 36 + 36 - 19


def test_a_set_without_texts_of_contexts_is_refused():
    opened = set_of([[0, 1]] * 2)
    bare = ladder_set("bare", [DIMENSION], [], list(opened.ladders.values()))
    with pytest.raises(
        UsageError, match=r"bare: the set has no contexts\.jsonl, which a judge needs"
    ):
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
    plain = command(
        "score", stories, "--ladders", folder, "--out", tmp_path / "plain.jsonl", "--json"
    ).rows[0]
    assert "certificate" not in plain["signature"]
    done = command("certify", folder)
    assert done.code == 0
    assert (folder / JUDGMENTS).is_file()
    digest = json.loads((folder / CERTIFICATE).read_text())["digest"]
    out = tmp_path / "certified.jsonl"
    row = command("score", stories, "--ladders", folder, "--out", out, "--json").rows[0]
    assert row["signature"] == plain["signature"].replace(
        "|backend", f"|certificate:{digest}|backend"
    )
    again = command(
        "rescore", f"{out}.judgments.jsonl", "--out", tmp_path / "again.jsonl", "--json"
    ).rows[0]
    assert again["signature"] == row["signature"]
    assert f"certificate {digest} by builtin/1" in command("show", folder).out
    assert "certificate by builtin/1: rungs 1 pass," in command("show", folder, "story-02").out
    ladders = folder / "ladders.jsonl"
    ladders.write_text(ladders.read_text().replace("bottle", "jar", 1))
    for arguments in (("show", folder), ("score", stories, "--ladders", folder)):
        message = fails(2, *arguments)
        assert f"{folder / CERTIFICATE}: the certificate is of other ladders" in message
        assert "certify the set again with `refladder certify`, or delete the file" in message
    assert command("certify", folder).code == 0
    assert command("show", folder).code == 0


def test_a_certificate_that_was_changed_is_refused(folder):
    found = certificate_of([[0, 1, 2]] * 6) | {"ladders": load_ladders(str(folder)).digest}
    write_certificate(folder, found | {"verdict": "pass"})
    with pytest.raises(DataError, match="the certificate was changed after it was written"):
        load_ladders(str(folder))
    (folder / CERTIFICATE).write_text("{")
    with pytest.raises(DataError, match="JSON"):
        load_ladders(str(folder))
    (folder / CERTIFICATE).write_text("[]")
    with pytest.raises(
        DataError, match='not a certificate: expected an object with "schema": "certificate/1"'
    ):
        load_ladders(str(folder))


def test_a_build_of_other_ladders_removes_the_certificate(folder):
    opened = load_ladders(str(folder))
    ladders, contexts = list(opened.ladders.values()), list(opened.contexts.values())
    write_certificate(folder, certificate_of([[0, 1, 2]] * 6))
    write_ladder_set(folder, opened.dimensions, contexts, ladders, [])
    assert (folder / CERTIFICATE).exists()
    write_ladder_set(folder, opened.dimensions, contexts, ladders[1:], [])
    assert not (folder / CERTIFICATE).exists()


def test_a_dry_run_counts_the_questions(command, folder):
    assert "480 calls" in command("certify", folder, "--dry-run").out
    assert not (folder / CERTIFICATE).exists()
    command("certify", folder)
    done = command("certify", folder, "--dry-run", "--json").rows[0]
    assert (done["backends"][0]["calls"], done["kept_judgments"]) == (0, 480)


def test_a_dry_run_reads_the_judgments_where_they_are(command, fails, folder, tmp_path):
    store, judgments = ("--store", tmp_path / "r.sqlite"), tmp_path / "j.jsonl"
    command("certify", folder, *store, "--judgments", judgments)
    before = judgments.read_bytes()
    # An answer of the store is counted there, and is no judgment of an earlier run.
    for path, kept, free in ((judgments, 480, 0), (tmp_path / "new.jsonl", 0, 480)):
        done = command("certify", folder, *store, "--judgments", path, "--dry-run", "--json").rows[
            0
        ]
        assert (
            done["kept_judgments"],
            done["backends"][0]["free"],
            done["backends"][0]["calls"],
        ) == (kept, free, 0)
        assert judgments.read_bytes() == before
    judgments.write_text("{}\n")
    text = fails(2, "certify", folder, "--judgments", judgments, "--dry-run")
    assert f'{judgments}:1: expected a line with "schema": "run/2", found None' in text


def test_a_shipped_set_keeps_its_certificate(command):
    before = (find_folder("demo/story") / CERTIFICATE).read_bytes()
    done = command("certify", "demo/story", "--json")
    assert done.rows[0]["verdict"] == "drop"
    assert "digest" in done.rows[0]
    assert (find_folder("demo/story") / CERTIFICATE).read_bytes() == before


@pytest.mark.parametrize("name", rated_names())
def test_shipped_certificates_are_current(name):
    opened = load_ladders(name)
    stored = json.loads((find_folder(name) / CERTIFICATE).read_text())
    found = certify(opened, open_asker(opened, connect("builtin")))
    assert found == stored, (
        f"run `refladder certify published_data/{name} --judgments FILE` and keep the new file"
    )


def test_refusal_is_exit_code_3(tmp_path, command):
    opened = set_of([[1, 1, 1]] * 3)
    write_ladder_set(
        tmp_path / "flat",
        opened.dimensions,
        list(opened.contexts.values()),
        list(opened.ladders.values()),
        [],
    )
    done = command("certify", tmp_path / "flat")
    assert done.code == 3
    assert "verdict: refuse" in done.out


def test_a_certificate_keeps_the_judgments_that_were_made_before_it(
    folder, command, stories, tmp_path
):
    asked = ["score", stories, "--ladders", folder, "--out", tmp_path / "scored.jsonl"]
    command(*asked)
    command("certify", folder)
    judgments = tmp_path / "scored.jsonl.judgments.jsonl"
    lines = judgments.read_text("utf-8").splitlines()
    with judgments.open("a", encoding="utf-8") as file:
        file.write('{"torn')  # by a kill
    row = command(*asked, "--json").rows[0]
    assert "|certificate:" in row["signature"]
    assert judgments.read_text("utf-8").splitlines()[1:] == lines[1:]
    again = command("rescore", judgments, "--out", tmp_path / "again.jsonl", "--json").rows[0]
    assert again["signature"] == row["signature"]


def test_a_certificate_does_not_change_the_scale(folder, command, fails, stories, tmp_path):
    """What was made of scores before `certify` is good for those after it, and the other way round."""
    score = ("score", stories, "--ladders", folder)
    old, new, both = (tmp_path / f"{name}.jsonl" for name in ("old", "new", "both"))
    assert command(*score, "--out", old).code == 0
    assert command("certify", folder).code == 0
    assert command(*score, "--out", new).code == 0
    plain, certified = (
        json.loads(path.read_text().splitlines()[0])["signature"] for path in (old, new)
    )
    assert plain != certified
    assert scale_of(certified) == plain == scale_of(plain)
    both.write_text(old.read_text() + new.read_text())
    least = ("--min", "coherence_score=-99")
    assert (
        len(command("filter", both, *least).rows)
        == 2 * len(command("filter", old, *least).rows)
        > 0
    )
    made = {
        "label": "good",
        "good": ">= 1",
        "labels": 9,
        "labels_above": 9,
        "bad_above": 0,
        "rows": 9,
        "kept": 9,
    }
    for first, then in ((plain, new), (certified, old)):
        threshold = Threshold(
            column="coherence_score",
            cutoff=-99.0,
            precision=0.9,
            recall=None,
            sure=0.9,
            signature=first,
            used=(),
            version="1",
            unit="row",
            looks=(
                Look(column="coherence_score", signature=first, label="good", number=1, digest="d"),
            ),
            **made,
        )
        write_record(tmp_path / "threshold.json", threshold)
        assert command("filter", then, "--threshold", tmp_path / "threshold.json").code == 0
    other = tmp_path / "other.jsonl"
    other.write_text(old.read_text().replace("rule:ladder-sum", "rule:other"))
    assert "another signature: rule:other here, rule:ladder-sum in" in fails(
        2, "filter", other, "--threshold", tmp_path / "threshold.json"
    )
    linker = Linker(
        Link(from_signature=plain, to_signature="elsewhere", columns=(), version="1"), "l.json"
    )
    assert linker.maps(certified, "x:1")
    text = fails(
        2,
        "link",
        "--from",
        f"{old}.judgments.jsonl",
        "--to",
        f"{new}.judgments.jsonl",
        "--out",
        tmp_path / "l",
    )
    assert "have the same signature, so their scores are on one scale already" in text


def test_files_of_a_set_that_was_certified_since_are_not_scored_again(
    folder, command, stories, tmp_path, monkeypatch
):
    monkeypatch.setattr("refladder.fleet.workers.Processes", Inline)
    out = tmp_path / "out"
    source = split(
        [json.loads(line) for line in stories.read_text("utf-8").splitlines()], tmp_path / "in", 1
    )
    score = ("score", source, "--ladders", folder, "--out", out)
    assert command(*score).code == 0
    assert command("certify", folder).code == 0
    before = sorted((path, path.stat().st_mtime_ns) for path in out.glob("*.jsonl"))
    assert len(before) == 6
    assert command(*score).code == 0
    assert sorted((path, path.stat().st_mtime_ns) for path in out.glob("*.jsonl")) == before
    before[0][0].unlink()  # a file that is to be scored again gets the new signature
    assert command(*score).code == 0
    signatures = {json.loads(path.read_text().splitlines()[0])["signature"] for path, _ in before}
    assert len(signatures) == 2
    assert len({scale_of(signature) for signature in signatures}) == 1
    least = ("--min", "coherence_score=-99")
    assert command("filter", out, *least, "--out", tmp_path / "kept.jsonl").code == 0
    assert command("rescore", out, "--out", tmp_path / "again.jsonl").code == 0
