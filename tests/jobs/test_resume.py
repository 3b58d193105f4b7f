"""A run of `score` that was cut off, anywhere and in any way, goes on to the same bytes as one go."""

from __future__ import annotations

import itertools
import json
import os
import signal
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from doubles import Double
from json_lines import read_lines
from waiting import HANG, count_lines, until

import refladder
from refladder.cli import calling
from refladder.records import LabelReading
from refladder.scoring import judgment_file, scorer

LADDERS = "--ladders demo/story"

# The built-in judge, which waits at its fourth call while the file HOLD exists, so that a kill falls in the middle.
# A shell that runs tests in the background has SIGINT ignored, and children inherit that: the driver takes it back.
DRIVER = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from refladder import backends
from refladder.backends.builtin import Builtin
from refladder.commands.main import main
from refladder.registry import Entry

class Slow(Builtin):
    calls = 0

    def read_labels(self, prompts, labels):
        self.calls += 1
        while self.calls > 3 and os.path.exists(os.environ["HOLD"]):
            time.sleep(0.01)
        return super().read_labels(prompts, labels)

backends.BACKENDS["slow"] = Entry("__main__:open_slow", "")
open_slow = lambda target: Slow()
main(sys.argv[1:])
"""


@pytest.mark.parametrize("cut", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_cut_off_and_run_again(process, command, write_jsonl, rows, tmp_path, cut):  # noqa: PLR0917  fixtures
    line = f"score {write_jsonl(rows(150))} {LADDERS} --json --out"
    one_go, again, hold = (tmp_path / name for name in ("one.jsonl", "again.jsonl", "hold"))
    kept = Path(f"{again}.judgments.jsonl")
    counts = json.loads(command(f"{line} {one_go}").out)
    assert (counts["rows"], counts["judgments"], counts["reused"]) == (150, 1500, 0)

    hold.touch()
    words = f"{line} {again} --judge slow".split()
    started = process(*words, driver=("-c", DRIVER), env={**os.environ, "HOLD": str(hold)})
    # the first batch: 16 rows, 5 rungs, 2 dimensions
    until(lambda: count_lines(kept) > 16 * 10, started)
    started.send_signal(cut)
    _, err = started.communicate(timeout=HANG)
    assert started.returncode == (130 if cut == signal.SIGINT else -signal.SIGKILL)
    if cut == signal.SIGINT:
        assert err.decode().splitlines()[-1] == (
            "refladder: interrupted; run the same score command again to resume"
        )
    assert not again.exists()
    lines = kept.read_bytes().count(b"\n")
    assert 1 < lines < 1501
    with kept.open("ab") as torn:  # what a kill in the middle of a write leaves
        torn.write(b'{"schema":"judgment/1","context_id":"sto')

    counts = json.loads(command(f"{line} {again}").out)
    assert (counts["judgments"], counts["reused"]) == (1500, lines - 1)
    assert again.read_bytes() == one_go.read_bytes()
    assert kept.read_bytes() == Path(f"{one_go}.judgments.jsonl").read_bytes()
    assert not list(tmp_path.glob(".*"))


# An interrupt at the first import of click.
EARLY = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

class Finder:
    def find_spec(self, name, *_):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
{entry}
main()
"""


@pytest.mark.parametrize(
    ("words", "again"),
    [
        ("--version", "the same command again"),
        ("filter a.jsonl", "the same filter command again"),
        ("evaluate summeval --methods surface", "the same evaluate command again"),
        ("evaluate summeval --work=folder", "the same evaluate command again to resume"),
        ("certify folder", "the same certify command again to resume"),
    ],
)
def test_an_interrupt_while_packages_are_imported_ends_in_one_line(process, request, words, again):
    project = tomllib.loads((request.config.rootpath / "pyproject.toml").read_text("utf-8"))
    entry = "from {} import {}".format(*project["project"]["scripts"]["refladder"].split(":"))
    started = process(*words.split(), driver=("-c", EARLY.format(entry=entry)))
    out, err = started.communicate(timeout=HANG)
    assert (started.returncode, out) == (130, b"")
    assert err.decode().strip() == f"refladder: interrupted; run {again}"


# A script that calls `refladder.score` with a judge that waits at a call; `signal` as in DRIVER.
SCRIPT = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import refladder
from refladder.backends.builtin import Builtin

class Slow(Builtin):
    calls = 0

    def read_labels(self, prompts, labels):
        self.calls += 1
        if self.calls > 3:
            print("waiting", flush=True)
            while True:
                time.sleep(0.01)
        return super().read_labels(prompts, labels)

refladder.score(sys.argv[1], ladders="demo/story", judge=Slow(), out=sys.argv[2])
"""


def test_a_script_that_is_interrupted_ends_in_one_line(process, write_jsonl, rows, tmp_path):
    source, out = write_jsonl(rows(150)), tmp_path / "out.jsonl"
    started = process(source, out, driver=("-c", SCRIPT))
    assert started.stdout.readline() == b"waiting\n"
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=HANG)
    assert started.returncode in {130, -signal.SIGINT}  # as Python ends on an interrupt
    lines = err.decode().splitlines()
    kept = f"its answers so far are kept for out='{out}': make the same call again to continue"
    assert lines[-1] == f"KeyboardInterrupt: refladder.score was interrupted; {kept}"
    assert "During handling" not in err.decode()
    files = {line.split('"')[1].rpartition("/")[2] for line in lines if line.startswith("  File ")}
    assert files == {"<string>", "options.py"}  # the script's line, and no frames of the job
    assert count_lines(Path(f"{out}.judgments.jsonl")) > 1
    assert refladder.score(source, ladders="demo/story", out=out) == out  # continues


@pytest.mark.parametrize(
    ("name", "more"),
    [("evaluate", ", with work=PATH to keep answers and continue from them"), ("filter", "")],
)
def test_an_interrupted_call_says_how_to_go_on(monkeypatch, name, more):
    def interrupt(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(calling.Call, "__init__", interrupt)
    with pytest.raises(KeyboardInterrupt) as raised:
        getattr(refladder, name)([{"context": "a", "output": "b"}])
    again = f"refladder.{name} was interrupted; make the same call again{more}"
    assert str(raised.value) == again
    assert raised.value.__suppress_context__


@pytest.fixture
def scoring(command, write_jsonl, rows, tmp_path):
    """The line that scored three rows, its output and its judgments."""
    out = tmp_path / "out.jsonl"
    line = f"score {write_jsonl(rows(3))} {LADDERS} --out {out}"
    assert command(line).code == 0
    return line, out, Path(f"{out}.judgments.jsonl")


@pytest.mark.parametrize("options", ["--answers 1", "--answers stated"])
def test_an_answer_that_could_not_be_read_is_read_again(
    command, write_jsonl, rows, tmp_path, options
):
    folder, out = tmp_path / "answers", tmp_path / "out.jsonl"
    line = (
        f"score {write_jsonl(rows(2))} {LADDERS} --dimension coherence --judge openai:m {options} --any-judge "
        f"--judge-option base_url=file:{folder} --store {tmp_path}/store.sqlite --out {out} --json"
    )
    text = "A: 10\nB: 20\nC: 50\nD: 70\nE: 90" if "stated" in options else "Better"
    answers = folder / "answers.jsonl"
    done = command(line)
    while done.code == 4:
        known = set()
        if answers.exists():
            known = {row["custom_id"] for row in read_lines(answers)}
        asked, prompts = [], {}
        for path in sorted(folder.glob("requests-*")):
            for row in read_lines(path):
                asked.append(row["custom_id"])
                prompts[row["custom_id"]] = row
        with answers.open("a") as stream:
            for name in asked:
                if name not in known:
                    given = fitting(text, prompts[name])
                    stream.write(json.dumps({"custom_id": name, "text": given}) + "\n")
        last = asked[-1]
        # The last answer of each exchange, and so of the rows, is spoilt.
        answers.write_text(
            "".join(
                json.dumps({**row, "text": "Hm." if row["custom_id"] == last else row["text"]})
                + "\n"
                for row in read_lines(answers)
            )
        )
        done = command(line)
    first = json.loads(done.out)
    assert (done.code, first["unparsed"] > 0) == (3, True)
    kept = Path(f"{out}.judgments.jsonl")
    unread = [row["note"] for row in read_lines(kept) if row.get("logprobs", 0) is None]
    assert len(unread) == first["unparsed"]
    number = 1 + [row["custom_id"] for row in read_lines(answers)].index(last)
    place = f"(custom_id {last!r}, '{answers}:{number}')"
    assert all(note.endswith(place) for note in unread)
    # The same answers give the same counts; then a person corrects the line.
    assert json.loads(command(line).out)["unparsed"] == first["unparsed"]
    answers.write_text(answers.read_text().replace('"Hm."', json.dumps(text)))
    done = command(line)
    assert (done.code, json.loads(done.out)["unparsed"]) == (0, 0)
    assert not Path(f"{kept}.unfinished").exists()
    lines = list(read_lines(kept))
    assert all(row["logprobs"] for row in lines[1:])
    assert (
        len(
            {json.dumps([row[name] for name in ("key", "subject", "against")]) for row in lines[1:]}
        )
        == len(lines) - 1
    )
    again = out.read_bytes()
    assert json.loads(command(line).out)["reused"] == len(lines) - 1
    assert out.read_bytes() == again


def fitting(text, request):
    """The text without the line of the fifth rung, where a rung is compared with the four others."""
    shows_five = "\nE:\n" in request["body"]["messages"][-1]["content"]
    return text if shows_five else text.removesuffix("\nE: 90")


def answer_all(folder, text):
    """Give each request of a folder this answer."""
    lines = []
    for path in sorted(folder.glob("requests-*")):
        for row in read_lines(path):
            answer = {"custom_id": row["custom_id"], "text": fitting(text, row)}
            lines.append(json.dumps(answer) + "\n")
    (folder / "answers.jsonl").write_text("".join(lines))
    return lines


@pytest.mark.parametrize("options", ["--answers 3", "--answers stated:2"])
def test_votes_that_were_read_in_part_are_read_again_once_corrected(
    command, write_jsonl, rows, tmp_path, options
):
    folder, out = tmp_path / "answers", tmp_path / "out.jsonl"
    line = (
        f"score {write_jsonl(rows(1))} {LADDERS} --dimension coherence --judge openai:m {options} --any-judge "
        f"--judge-option base_url=file:{folder} --store {tmp_path}/store.sqlite --out {out} --json"
    )
    text = "A: 10\nB: 20\nC: 50\nD: 70\nE: 90" if "stated" in options else "Better"
    while command(line).code == 4:
        answer_all(folder, text)
    lines = answer_all(folder, text)
    kept = Path(f"{out}.judgments.jsonl")
    whole = kept.read_bytes()
    kept.unlink()
    out.unlink()
    (tmp_path / "store.sqlite").unlink()
    spoilt = json.dumps({**json.loads(lines[-1]), "text": "Hm."}) + "\n"
    (folder / "answers.jsonl").write_text("".join([*lines[:-1], spoilt]))
    done = command(line)
    assert (done.code, json.loads(done.out)["unparsed"]) == (0, 0)
    assert b"answers.jsonl:" in kept.read_bytes()
    answer_all(folder, text)
    assert command(line).code == 0
    assert kept.read_bytes() == whole


def test_cut_at_any_byte(command, scoring):
    line, out, kept = scoring
    whole, judged = out.read_bytes(), kept.read_bytes()
    head, size = judged.index(b"\n"), len(judged)
    for cut in (0, 1, size // 2, head, head + 1, size - 1, size):
        kept.write_bytes(judged[:cut])
        out.unlink()
        done = command(f"{line} --json")
        assert done.code == 0
        # a line that lacks its newline alone stays
        complete = judged[:cut].count(b"\n") + (judged[cut : cut + 1] == b"\n")
        assert json.loads(done.out)["reused"] == max(complete - 1, 0)
        assert (out.read_bytes(), kept.read_bytes()) == (whole, judged)


def test_the_size_of_batches_changes_nothing(command, write_jsonl, rows, tmp_path, monkeypatch):
    line = f"score {write_jsonl(rows(40))} {LADDERS} --both-orders --out {tmp_path}"
    for size in (1, 64):
        monkeypatch.setattr(scorer, "FIRST_BATCH", size)
        monkeypatch.setattr(scorer, "LARGEST_BATCH", size)
        assert command(f"{line}/{size}.jsonl").code == 0
    for ending in ("jsonl", "jsonl.judgments.jsonl"):
        small, large = (tmp_path / f"{size}.{ending}" for size in (1, 64))
        assert small.read_bytes() == large.read_bytes()


def test_batches_grow_while_quick_and_shrink_when_slow(monkeypatch):
    now = 0.0
    monkeypatch.setattr(scorer.time, "monotonic", lambda: now)
    sizes = []
    for batch in scorer.batches(range(3000)):
        sizes.append(len(batch))
        now += 1.0
    assert sizes == [16, 32, 64, 128, 256, 512, 1024, 968]
    # 30 s are too long and 1 s is short; 10 s are just right
    now, sizes = 0.0, []
    for batch in scorer.batches(range(100)):
        sizes.append(len(batch))
        now += 30.0 if len(sizes) < 3 else 10.0 if len(sizes) == 3 else 1.0
    assert sizes == [16, 8, 4, 4, 8, 16, 32, 12]


OTHER = "against 'rung:1' with other texts than this run's next question"


def with_more_text(rows):
    return [rows[0], {**rows[1], "output": "More."}, rows[2]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            with_more_text,
            f"12: this judgment is of 'o2' {OTHER} ('o2' against 'rung:1'); the input has changed",
        ),
        (
            lambda rows: rows[::-1],
            f"2: this judgment is of 'o1' {OTHER} ('o3' against 'rung:1'); the input has changed",
        ),
        (
            lambda rows: rows[:2],
            "22: judgments continue after this run's last question; the input has become shorter",
        ),
    ],
    ids=["a text", "the order", "fewer rows"],
)
def test_a_changed_input_is_told(command, fails, scoring, write_jsonl, rows, change, message):  # noqa: PLR0917
    line, out, kept = scoring
    before = out.read_bytes()
    write_jsonl(change(rows(3)))
    told = fails(2, line).splitlines()[-1]  # after the check of the judge
    remedy = (
        f"name another file or folder (--out, --judgments or --work), or delete {out} and {kept}"
    )
    assert told == f"refladder: {kept}:{message}: {remedy}"
    assert out.read_bytes() == before
    kept.unlink()
    gone = f"{out}: holds scores, and their judgments are not in {kept}; name another file, or delete it"
    assert gone in fails(2, line)
    assert out.read_bytes() == before
    out.unlink()
    done = command(f"{line} --json")
    assert (done.code, json.loads(done.out)["reused"]) == (0, 0)
    assert out.read_bytes() != before


def test_rows_added_at_the_end_are_judged_alone(command, scoring, write_jsonl, rows):
    write_jsonl(rows(5))
    counts = json.loads(command(f"{scoring[0]} --json").out)
    assert (counts["judgments"], counts["reused"]) == (50, 30)


def test_judgments_of_another_run_are_told(fails, scoring):
    line, out, kept = scoring
    before = kept.read_bytes()
    another = f"refladder: {kept}: these judgments are of another run"
    others = "(--out, --judgments or --work)"
    tail = f"; name another file or folder {others}, or delete {out} and {kept}\n"
    text = fails(2, f"{line} --both-orders")
    assert text == f"{another} (asked in 1 order, this run in 2){tail}"
    text = fails(2, f"{line} --dimension coherence")
    assert text == f"{another} (of dimensions coherence, complexity){tail}"
    text = fails(2, f"{line} --yes-no")
    made_by = "made by backend:builtin/1|prompts:story/compare@"
    assert text.startswith(f"{another} ({made_by}")
    assert ", this run is backend:builtin/1|prompts:story/compare-yesno@" in text
    assert text.endswith(tail)
    text = fails(2, f"{line} --ladders demo/summarization")
    assert "no row has a ladder; " in text
    assert kept.read_bytes() == before


def test_a_file_that_holds_no_judgments(fails, stories, tmp_path):
    folder, kept = tmp_path / "folder", tmp_path / "kept.jsonl"
    folder.mkdir()
    for content, message in (
        (b'{"a": 1}\n', ':1: expected a line with "schema": "run/3", found None'),
        (b"\x1f\x8b\x08\x00rest", ": a gzip file cannot be extended; unpack it first"),
    ):
        kept.write_bytes(content)
        text = fails(2, f"score {stories} {LADDERS} --judgments {kept}")
        assert text == f"refladder: {kept}{message}\n"
    text = fails(2, f"score {stories} {LADDERS} --judgments {folder}")
    assert text == f"refladder: {folder}: a folder; name a file in it\n"


def test_a_device_is_written_and_stays_one(command, stories):
    done = command(f"score {stories} {LADDERS} --judgments {os.devnull}")
    assert (done.code, len(done.rows)) == (0, 6)
    line = f"score {stories} {LADDERS} --out {os.devnull} --out-format jsonl"
    assert command(line).code == 0
    assert not Path(os.devnull).is_file()
    assert not list(Path(os.devnull).parent.glob("null.*"))


def test_a_long_batch_that_is_killed_goes_on_where_it_was(write_jsonl, tmp_path, monkeypatch):
    class Sharing(Double):
        shares_contexts = True
        fingerprint = "sharing/1"

        def __init__(self, most):
            self.most, self.contexts = most, []

        def read_labels_each(self, prompts, labels):
            assert len(labels) == 3
            for number, prompt in enumerate(prompts):
                if len(self.contexts) == self.most:
                    # Like a kill, this is no failure of the judge.
                    raise SystemExit
                self.contexts.append(prompt.slots["context"])
                yield number, LabelReading(logprobs=(-1.0, -1.5, -2.0), mass=0.9)

    monkeypatch.setattr(judgment_file, "KEPT_EVERY", -1.0)
    names = ["story-01", "story-02", "story-03"]
    rows = [
        {"context_id": name, "output": f"{system} of {name}"} for system in "ab" for name in names
    ]
    table = write_jsonl(rows)
    early = tmp_path / "cut.jsonl.judgments.jsonl.unfinished"

    def score(most, out):
        judge = Sharing(most)
        with suppress(SystemExit):
            refladder.score(
                table,
                ladders="demo/story",
                dimensions=["coherence"],
                judge=judge,
                any_judge=True,
                out=tmp_path / out,
            )
        return judge.contexts

    # 24 of the check, and 5 rungs for each text. The two texts of a context are asked one after the other.
    whole = score(99, "whole.jsonl")[24:]
    assert [context for context, _ in itertools.groupby(whole)] == sorted(
        set(whole), key=whole.index
    )
    assert len(whole) == 30
    score(24 + 12, "cut.jsonl")
    assert count_lines(early) == 12
    again = score(99, "cut.jsonl")[24:]
    assert len(again) == 30 - 12
    assert not early.exists()
    for end in ("", ".judgments.jsonl"):
        cut = tmp_path / f"cut.jsonl{end}"
        assert cut.read_bytes() == (tmp_path / f"whole.jsonl{end}").read_bytes()
