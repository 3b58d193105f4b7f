"""A run of `score` that was cut off, anywhere and in any way, goes on to the same bytes as one go."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from waiting import HANG, count_lines, until

import refladder
from refladder.commands import calling
from refladder.scoring import scorer

LADDERS = ("--ladders", "demo/story")

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


def score(process, source, out, *options, judge="builtin", **how):
    return process("score", source, *LADDERS, "--out", out, "--judge", judge, *options, **how)


def finished(started):
    out, err = started.communicate(timeout=HANG)
    assert started.returncode == 0, err.decode()
    return json.loads(out)


@pytest.mark.parametrize("cut", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_cut_off_and_run_again(process, write_jsonl, rows, tmp_path, cut):
    source = write_jsonl(rows(300))
    one_go, again = tmp_path / "one.jsonl", tmp_path / "again.jsonl"
    kept = Path(f"{again}.judgments.jsonl")
    hold = tmp_path / "hold"
    hold.touch()
    slow = {"driver": ("-c", DRIVER), "judge": "slow", "env": {**os.environ, "HOLD": str(hold)}}
    counts = finished(score(process, source, one_go, "--json"))
    assert (counts["rows"], counts["judgments"], counts["reused"]) == (300, 3000, 0)

    started = score(process, source, again, **slow)
    until(
        lambda: count_lines(kept) > 16 * 10, started
    )  # the first batch: 16 rows, 5 rungs, 2 dimensions
    started.send_signal(cut)
    _, err = started.communicate(timeout=HANG)
    hold.unlink()
    assert started.returncode == (130 if cut == signal.SIGINT else -signal.SIGKILL)
    if cut == signal.SIGINT:
        assert err.decode().splitlines()[-1] == (
            "refladder: interrupted; run the same command again: build, score, compete and evaluate --work resume"
        )
    assert not again.exists()
    lines = kept.read_bytes().count(b"\n")
    assert 1 < lines < 3001
    with kept.open("ab") as torn:  # what a kill in the middle of a write leaves
        torn.write(b'{"schema":"judgment/1","context_id":"sto')

    counts = finished(score(process, source, again, "--json", **slow))
    assert (counts["judgments"], counts["reused"]) == (3000, lines - 1)
    assert again.read_bytes() == one_go.read_bytes()
    assert kept.read_bytes() == Path(f"{one_go}.judgments.jsonl").read_bytes()
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


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
    source, out = write_jsonl(rows(300)), tmp_path / "out.jsonl"
    started = process(source, out, driver=("-c", SCRIPT))
    assert started.stdout.readline() == b"waiting\n"
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=HANG)
    assert started.returncode in {130, -signal.SIGINT}  # as Python ends on an interrupt
    lines = err.decode().splitlines()
    again = "make the same call again to continue"
    assert lines[-1] == (
        f"KeyboardInterrupt: refladder.score was interrupted; its answers so far are kept for out='{out}': {again}"
    )
    assert "During handling" not in err.decode()
    files = {line.split('"')[1].rpartition("/")[2] for line in lines if line.startswith("  File ")}
    assert files == {"<string>", "calling.py"}  # the script's line, and no frames of the job
    assert count_lines(Path(f"{out}.judgments.jsonl")) > 1
    called = refladder.score(source, ladders="demo/story", out=out)  # continues
    assert called == out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "evaluate",
            "make the same call again, with work=PATH to keep answers and continue from them",
        ),
        ("filter", "make the same call again"),
    ],
)
def test_an_interrupted_call_says_how_to_go_on(monkeypatch, name, message):
    def interrupt(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(calling.Call, "__init__", interrupt)
    with pytest.raises(KeyboardInterrupt) as raised:
        getattr(refladder, name)([{"context": "a", "output": "b"}])
    assert str(raised.value) == f"refladder.{name} was interrupted; {message}"
    assert raised.value.__suppress_context__


def test_cut_at_any_byte(command, write_jsonl, rows, tmp_path):
    source, out = write_jsonl(rows(4)), tmp_path / "out.jsonl"
    kept = Path(f"{out}.judgments.jsonl")
    assert command("score", source, *LADDERS, "--out", out).code == 0
    whole, judged = out.read_bytes(), kept.read_bytes()
    for cut in [
        0,
        1,
        len(judged) // 2,
        judged.index(b"\n"),
        judged.index(b"\n") + 1,
        len(judged) - 1,
        len(judged),
    ]:
        kept.write_bytes(judged[:cut])
        out.unlink()
        done = command("score", source, *LADDERS, "--out", out, "--json")
        assert done.code == 0
        complete = judged[:cut].count(b"\n") + (
            judged[cut : cut + 1] == b"\n"
        )  # a line that lacks its newline alone stays
        assert json.loads(done.out)["reused"] == max(complete - 1, 0)
        assert (out.read_bytes(), kept.read_bytes()) == (whole, judged)


def test_the_size_of_batches_changes_nothing(command, write_jsonl, rows, tmp_path, monkeypatch):
    source = write_jsonl(rows(40))
    for name, first in (("small", 1), ("large", 64)):
        monkeypatch.setattr(scorer, "FIRST_BATCH", first)
        monkeypatch.setattr(scorer, "LARGEST_BATCH", first)
        assert (
            command(
                "score", source, *LADDERS, "--both-orders", "--out", tmp_path / f"{name}.jsonl"
            ).code
            == 0
        )
    for ending in ("", ".judgments.jsonl"):
        assert (tmp_path / f"small.jsonl{ending}").read_bytes() == (
            tmp_path / f"large.jsonl{ending}"
        ).read_bytes()


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


def changed(rows):
    rows[1]["output"] += " And more."
    return rows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            changed,
            (
                "{kept}:12: this judgment is of 'o2' against 'rung:1' with other texts than this run's next question "
                "('o2' against 'rung:1'); the input has changed: name another file or folder "
                "(--out, --judgments or --work), or delete {kept}"
            ),
        ),
        (
            lambda rows: rows[::-1],
            (
                "{kept}:2: this judgment is of 'o1' against 'rung:1' with other texts than this run's next question "
                "('o3' against 'rung:1'); the input has changed: name another file or folder "
                "(--out, --judgments or --work), or delete {kept}"
            ),
        ),
        (
            lambda rows: rows[:2],
            (
                "{kept}:22: judgments continue after this run's last question; the input has become shorter: name "
                "another file or folder (--out, --judgments or --work), or delete {kept}"
            ),
        ),
    ],
    ids=["a text", "the order", "fewer rows"],
)
def test_a_changed_input_is_told(command, fails, write_jsonl, rows, change, message):  # noqa: PLR0917  fixtures
    source = write_jsonl(rows(3))
    out = source.with_name("out.jsonl")
    kept = Path(f"{out}.judgments.jsonl")
    command("score", source, *LADDERS, "--out", out)
    before = out.read_bytes()
    write_jsonl(change(rows(3)))
    told = fails(2, "score", source, *LADDERS, "--out", out).splitlines()[
        -1
    ]  # after the check of the judge
    assert told == f"refladder: {message.format(kept=kept)}"
    assert out.read_bytes() == before
    kept.unlink()
    done = command("score", source, *LADDERS, "--out", out, "--json")
    assert (done.code, json.loads(done.out)["reused"]) == (0, 0)
    assert out.read_bytes() != before


def test_rows_added_at_the_end_are_judged_alone(command, write_jsonl, rows, tmp_path):
    source, out = write_jsonl(rows(3)), tmp_path / "out.jsonl"
    command("score", source, *LADDERS, "--out", out)
    write_jsonl(rows(5))
    counts = json.loads(command("score", source, *LADDERS, "--out", out, "--json").out)
    assert (counts["judgments"], counts["reused"]) == (50, 30)


def test_judgments_of_another_run_are_told(command, fails, stories, tmp_path):
    kept = tmp_path / "kept.jsonl"
    keep = ("--judgments", kept)
    command("score", stories, *LADDERS, *keep)
    before = kept.read_bytes()
    tail = f"; name another file or folder (--out, --judgments or --work), or delete {kept}\n"
    assert fails(2, "score", stories, *LADDERS, *keep, "--both-orders") == (
        f"refladder: {kept}: these judgments are of another run (asked in 1 order, this run in 2){tail}"
    )
    assert fails(2, "score", stories, *LADDERS, *keep, "--dimension", "coherence") == (
        f"refladder: {kept}: these judgments are of another run (of dimensions coherence, complexity){tail}"
    )
    message = fails(2, "score", stories, *LADDERS, *keep, "--yes-no")
    assert message.startswith(
        f"refladder: {kept}: these judgments are of another run (made by backend:builtin/1|prompts:story/compare@"
    )
    assert ", this run is backend:builtin/1|prompts:story/compare-yesno@" in message
    assert message.endswith(tail)
    assert "no row has a ladder; " in fails(
        2, "score", stories, "--ladders", "demo/summarization", *keep
    )
    assert kept.read_bytes() == before


def test_a_file_that_holds_no_judgments(fails, stories, tmp_path):
    kept = tmp_path / "kept.jsonl"
    kept.write_text('{"a": 1}\n')
    assert fails(2, "score", stories, *LADDERS, "--judgments", kept) == (
        f'refladder: {kept}:1: expected a line with "schema": "run/2", found None\n'
    )
    kept.write_bytes(b"\x1f\x8b\x08\x00rest")
    assert fails(2, "score", stories, *LADDERS, "--judgments", kept) == (
        f"refladder: {kept}: a gzip file cannot be extended; unpack it first\n"
    )
    (folder := tmp_path / "folder").mkdir()
    assert fails(2, "score", stories, *LADDERS, "--judgments", folder) == (
        f"refladder: {folder}: a folder; name a file in it\n"
    )


def test_a_changed_line_in_the_middle_is_told(command, fails, stories, tmp_path):
    kept = tmp_path / "kept.jsonl"
    command("score", stories, *LADDERS, "--judgments", kept)
    lines = kept.read_text().splitlines(keepends=True)
    lines[4] = lines[4][:50] + "\n"
    kept.write_text("".join(lines))
    message = fails(2, "score", stories, *LADDERS, "--judgments", kept).splitlines()[-1]
    assert message.startswith(
        f"refladder: {kept}:5: not JSON (EOF while parsing a string at line 1 column "
    )


def test_a_device_is_written_and_stays_one(command, stories):
    done = command("score", stories, *LADDERS, "--judgments", os.devnull)
    assert (done.code, len(done.rows)) == (0, 6)
    assert (
        command("score", stories, *LADDERS, "--out", os.devnull, "--out-format", "jsonl").code == 0
    )
    assert not Path(os.devnull).is_file()
    assert not list(Path(os.devnull).parent.glob("null.*"))
