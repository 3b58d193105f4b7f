"""watch: the file of readings, what is refused before a judge is asked, and readings that resume."""

from __future__ import annotations

import json
import math
import re

import pytest
from answering import put, requests

import refladder
from refladder.backends import Backend
from refladder.errors import BackendError, DataError, UsageError
from refladder.records import LabelReading

SET = "general/reply"
LADDERS = refladder.load_ladders(SET)
LEVELS = {
    rung.text: (rung.level, number)
    for number, ladder in enumerate(LADDERS.ladders.values())
    for rung in ladder.rungs
}


def level(text):
    """The rating of the text in a prompt, and whether it is a rung: these rise, a little more in each ladder."""
    for rung, (level, number) in LEVELS.items():
        if rung in text:
            return 0.3 + 0.8 * level + number / 100, True
    return float(re.search(r"Reply of quality (\d\.\d+)", text)[1]), False


class Rater(Backend):
    """Rates texts as `way` says, given the rating and whether it is a rung's; what it rates None is unparsed."""

    fingerprint = ""
    answering = None

    def __init__(self, name="judge", way=lambda rating, _: rating):
        self.fingerprint, self.asked, self._way = name, 0, way
        self.fails_after = math.inf

    def write(self, *_):
        raise AssertionError

    def read_labels(self, prompts, _):
        found = []
        for prompt in prompts:
            if self.asked >= self.fails_after:
                raise BackendError("down")
            self.asked += 1
            rating = self._way(*level(prompt.text))
            if rating is None:
                found.append(LabelReading(reason="unparsed: nothing"))
                continue
            shares = percentages(rating)
            logprobs = tuple(math.log(max(share, 1e-7) / 100) for share in shares)
            found.append(LabelReading(logprobs=logprobs, mass=1.0))
        return found


class OneByOne(Rater):
    """Gives each reading when it has it, as a server does."""

    def read_labels_each(self, prompts, labels):
        for number, prompt in enumerate(prompts):
            yield number, self.read_labels([prompt], labels)[0]


def percentages(rating):
    """The percentages of 1 to 5 with this mean."""
    low = min(int(rating), 4)
    shares = {low: 100 * (low + 1 - rating), low + 1: 100 * (rating - low)}
    return [shares.get(number, 0) for number in range(1, 6)]


ASKED = {"answers": "rating", "dimensions": ["helpfulness"]}


@pytest.fixture
def baseline(tmp_path):
    path = tmp_path / "judge.json"
    refladder.watch(SET, judge=Rater(), baseline=path, new=True, **ASKED)
    return path


def test_a_new_file_holds_two_readings_and_a_check_adds_none(baseline):
    before = baseline.read_bytes()
    record = json.loads(before)
    assert record["schema"] == "watch/1"
    assert record["anchors"] == list(LADDERS.anchors)
    assert (record["ladders"], record["answers"]) == (LADDERS.digest, "rating")
    assert [each["number"] for each in record["readings"]] == [1, 2]
    assert {len(each["rungs"]) for each in record["readings"]} == {60}
    judge = Rater("milder", lambda rating, _: 1 + 4 * ((rating - 1) / 4) ** 0.6)
    found = refladder.watch(SET, judge=judge, baseline=baseline, answers="rating")
    # 12 anchors of 5 rungs, on the criterion of the file.
    assert judge.asked == 60
    assert [each["verdict"] for each in found["criteria"]] == ["scale"]
    assert (found["judge"], found["judge_before"], found["reading"]) == ("milder", "judge", 3)
    assert baseline.read_bytes() == before
    assert list(baseline.parent.iterdir()) == [baseline]
    turned = refladder.watch(
        SET, judge=Rater("other", lambda rating, _: 6 - rating), baseline=baseline, answers="rating"
    )
    assert [each["verdict"] for each in turned["criteria"]] == ["order"]
    assert (
        "order: the order has changed, which no map repairs; certify the set with this judge"
        in str(turned)
    )
    refladder.watch(SET, judge=judge, baseline=baseline, answers="rating", update=True)
    assert [each["number"] for each in json.loads(baseline.read_text())["readings"]] == [1, 2, 3]


def test_fewer_anchors_are_compared_with_the_same_ones(baseline, caplog):
    judge = Rater()
    found = refladder.watch(SET, judge=judge, baseline=baseline, answers="rating", anchors=6)
    assert (judge.asked, found["criteria"][0]["anchors"]) == (30, 6)
    assert found["criteria"][0]["verdict"] == "same"
    few = refladder.watch(SET, judge=judge, baseline=baseline, answers="rating", anchors=5)
    assert few["criteria"][0]["verdict"] == "unknown"
    assert "5 anchors: at least 6 are needed for another verdict than unknown" in caplog.text


def test_frozen_texts_are_rated_and_placed_too(tmp_path, write_jsonl):
    rows = [
        {"context": f"Ticket {number % 8}.", "output": f"Reply of quality {2 + number / 12:.2f}."}
        for number in range(24)
    ]
    asked = {**ASKED, "baseline": tmp_path / "judge.json"}
    refladder.watch(SET, judge=Rater(), new=True, texts=rows, **asked)
    table = write_jsonl(rows)
    same = refladder.watch(SET, judge=Rater(), texts=str(table), **asked)
    assert same["criteria"][0]["verdict"] == "same"
    assert same["criteria"][0]["text_place"]["excess"] == 0

    turned = Rater(way=lambda rating, is_rung: rating if is_rung else 6 - rating)
    found = refladder.watch(SET, judge=turned, texts=rows, **asked)["criteria"][0]
    assert (found["verdict"], found["place"]["changed"]) == ("order", 0)
    assert refladder.watch(SET, judge=turned, **asked)["criteria"][0]["text_place"] is None
    refused = {
        "has other texts: 24 texts, and this run 23, or others; ": {"texts": rows[1:]},
        r"^update adds a reading of all that .*judge\.json holds; leave out anchors, and give its texts$": {
            "update": True
        },
    }
    for message, given in refused.items():
        with pytest.raises((DataError, UsageError), match=message):
            refladder.watch(SET, judge=Rater(), **asked, **given)
    with pytest.raises(
        DataError, match="row 1 of texts: the output is empty, and a frozen text is needed"
    ):
        refladder.watch(SET, judge=Rater(), texts=[{"output": ""}], **asked)


def damaged(change):
    def damage(path):
        record = json.loads(path.read_text())
        change(record)
        path.write_text(json.dumps(record))

    return damage


def unparsed(record):
    record["readings"][1]["rungs"][7]["rating"] = None


REFUSED = {
    "another set": ({"ladders": "general/grounded"}, None, "has other ladders: \\w{12}, and this run \\w{12}; give what it"),
    "another mode": ({"answers": "rating:stated"}, None, "has other answers: rating, and this run rating:stated; "),
    "other criteria": ({"dimensions": ["clarity"]}, None, r"has other criteria: helpfulness@\w{12}, and this run clarity@"),
    "another prompt": (
        {},
        damaged(lambda record: record.update(prompts=["open/rating@000000000000"])),
        r"has other prompts: open/rating@0{12}, and this run open/rating@\w{12}; ",
    ),
    "more anchors": (
        {"anchors": 12},
        damaged(lambda record: [
            record.update(anchors=record["anchors"][:11]),
            *(each.update(rungs=each["rungs"][:55]) for each in record["readings"]),
        ]),
        "has other anchors: 11 anchors, and this run 12; give what it was made with, or make another one with new$",
    ),
    "unparsed rungs": ({}, damaged(unparsed), "watch/1: 1 rungs or texts of reading 2 have no rating"),
    "one reading": (
        {}, damaged(lambda record: record["readings"].pop()), "watch/1: it needs two readings or more",
    ),
    "other rungs": (
        {}, damaged(lambda record: record["readings"][1]["rungs"].pop()), "reading 2 is of other rungs or texts",
    ),
    "anchors without rungs": (
        {}, damaged(lambda record: record["anchors"].pop()), "its rungs are not those of its criteria and anchors",
    ),
    "mixed levels": (
        {},
        damaged(lambda record: [each["rungs"][0].update(level=3) for each in record["readings"]]),
        "its anchors do not have the same levels",
    ),
    "another schema": (
        {}, damaged(lambda record: record.update(schema="watch/9")), "watch/9, of another version of refladder",
    ),
    "damaged": ({}, lambda path: path.write_text("{"), "not JSON"),
    "no ratings of rungs": (
        {"answers": "anchored"}, None, "^answers anchored rates no rungs alone; use rating, rating:stated or rating:together$",
    ),
    "own ladders": ({"ladders": "demo/story"}, None, "^demo/story: the rungs of a shared set are watched, and each context"),
    "an existing file": ({"new": True}, None, r"judge\.json: exists; leave out new, or name another file$"),
    "both": ({"new": True, "update": True}, None, "^new and update: give one of them$"),
    "a share": ({"at_most": 3.0}, None, "^at_most 3: a share of decisions from 0 to 1 is needed$"),
    "no file": (
        {}, lambda path: path.unlink(), r"no such file, so nothing says how the judge was; make it once with new$",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_a_judge_is_asked(name, baseline):
    given, damage, message = REFUSED[name]
    if damage:
        damage(baseline)
    judge = Rater()
    asked = {"ladders": SET, "answers": "rating", **given}
    with pytest.raises((DataError, UsageError), match=message):
        refladder.watch(judge=judge, baseline=baseline, **asked)
    assert judge.asked == 0


def test_a_reading_with_unparsed_rungs_makes_no_baseline_and_gives_no_verdict(
    baseline, tmp_path, caplog
):
    def way(rating, _):
        return None if rating > 4.4 else rating

    path = tmp_path / "other.json"
    with pytest.raises(
        BackendError,
        match=r"ratings could not be read, so .*other\.json is not written; run the same",
    ):
        refladder.watch(SET, judge=Rater(way=way), baseline=path, new=True, **ASKED)
    assert not path.exists()
    # The same command asks for these again only.
    judge = Rater()
    refladder.watch(SET, judge=judge, baseline=path, new=True, **ASKED)
    assert 0 < judge.asked < 120
    found = refladder.watch(
        SET, judge=Rater(way=way), baseline=baseline, answers="rating", update=True
    )
    assert found["criteria"][0]["verdict"] == "unknown"
    assert found["criteria"][0]["unparsed"] > 0
    assert "ratings and is not added" in caplog.text
    assert len(json.loads(baseline.read_text())["readings"]) == 2


def test_answers_in_files_have_a_folder_for_each_reading(command, tmp_path):
    path, answers = tmp_path / "judge.json", tmp_path / "answers"
    line = f"watch {SET} --judge openai:m --base-url file:{answers} --dimension helpfulness --baseline {path}"

    def answer(number):
        folder = answers / f"reading-{number}"
        lines = []
        for request in requests(folder):
            rating, _ = level(request["body"]["messages"][-1]["content"])
            named = enumerate(percentages(rating), start=1)
            text = "\n".join(f"{number}: {share:.1f}" for number, share in named)
            lines.append({"custom_id": request["custom_id"], "text": text})
        put(folder, lines)

    done = command(f"{line} --new")
    assert done.code == 4
    assert "reading-1" in done.err
    assert "reading-2" in done.err
    answer(1)
    answer(2)
    assert command(f"{line} --new").code == 0
    # The answers of a reading are never those of an older one.
    for number in (3, 4):
        assert command(line).code == 4
        answer(number)
        done = command(f"{line} --json")
        assert done.code == 0, done.err
        assert json.loads(done.out)["reading"] == number
        assert json.loads(done.out)["criteria"][0]["verdict"] == "same"


def test_dry_run_counts_both_readings_and_exit_code_3_is_for_unknown(command, tmp_path):
    path = tmp_path / "judge.json"
    line = f"watch {SET} --answers rating --dimension clarity --baseline {path}"
    done = command(f"{line} --new --dry-run")
    assert done.out.startswith("dry run, builtin: 120 calls")
    assert not path.exists()
    assert command(f"{line} --new").code == 0
    assert command(f"{line} --anchors 5").code == 3
    done = command(line)
    assert done.code == 0
    assert "clarity: same: the ratings have moved by 0.00, and places hold" in done.out


def test_an_interrupted_reading_goes_on(baseline):
    judge = OneByOne()
    judge.fails_after = 30
    with pytest.raises(BackendError):
        refladder.watch(SET, judge=judge, baseline=baseline, answers="rating")
    assert judge.asked == 30
    judge.fails_after = math.inf
    found = refladder.watch(SET, judge=judge, baseline=baseline, answers="rating")
    assert (found["criteria"][0]["verdict"], judge.asked) == ("same", 60)
    assert list(baseline.parent.iterdir()) == [baseline]
