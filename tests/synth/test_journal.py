from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from waiting import HANG, count_lines, until

import refladder
from refladder.backends.scripted import Rule, Scripted
from refladder.errors import DataError
from refladder.files.jsonl import to_line
from refladder.records import Sampling
from refladder.synth import build_ladders
from refladder.synth import ladders as synth

REPOSITORY = Path(refladder.__file__).parents[1]


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "new" / "folder" / "journal.jsonl"


@pytest.fixture
def build(templates, contexts, dimensions, rules):
    """Build with one rung that needs a second attempt and one ladder that fails; any argument can be changed."""
    failing = {"context": "article 3", "dimension": "relevance"}
    usual = [
        Rule(role="worst", contains={"context": "article 1"}, texts=("", "Rain.")),
        Rule(role="best", contains=failing, error="HTTP 503"),
        *rules,
    ]

    def go(journal, **changes):
        arguments = {"prompts": templates, "attempts": 2, **changes}
        backend = arguments.pop("backend", None) or Scripted(usual)
        what = (arguments.pop("contexts", contexts), arguments.pop("dimensions", dimensions))
        ladders, failures = build_ladders(backend, *what, journal=journal, **arguments)
        return b"".join(to_line(record) for record in [*ladders, *failures])

    go.rules = usual
    return go


@pytest.fixture
def refused(build, journal):
    """Check that a build refuses the journal with a message, and leaves it alone."""

    def go(message, **changes):
        kept = journal.read_bytes()
        with pytest.raises(DataError, match=message):
            build(journal, **changes)
        assert journal.read_bytes() == kept

    return go


def test_the_journal_holds_every_text_and_why_it_was_not_taken(build, journal):
    build(journal)
    header, *entries = map(json.loads, journal.read_text(encoding="utf-8").splitlines())
    assert header["schema"] == "ladder-journal/1"
    assert entries[0] == {
        "context_id": "c1",
        "dimension": "coherence",
        "level": 1,
        "attempt": 0,
        "text": "",
        "finish": "stop",
        "note": None,
        "unusable": "empty: nothing but white space",
    }
    # wave 0: 12 texts, then 3 again (c1 twice, c3 once); wave 1: 5 ladders; wave 2: 2 for each of them
    assert len(entries) == 12 + 3 + 5 + 10
    # the text of the failed ladder's other end was paid for, and is kept
    paid = [
        (each["context_id"], each["dimension"], each["level"], each["text"]) for each in entries
    ]
    assert ("c3", "relevance", 1, "Rain.") in paid


def test_a_finished_journal_answers_without_the_backend(build, journal, recording):
    first, kept = build(journal), journal.read_bytes()
    backend = recording(build.rules)
    assert build(journal, backend=backend) == first
    assert backend.batches == []
    assert journal.read_bytes() == kept


def test_a_journal_cut_anywhere_goes_on_to_the_same_bytes(build, journal, monkeypatch):
    monkeypatch.setattr(synth, "CHUNK", 4)
    whole, kept = build(journal), journal.read_bytes()
    assert whole == build(None)
    header = kept.index(b"\n")
    for cut in {0, 1, *range(header - 1, header + 3), *range(0, len(kept), 197), len(kept) - 1}:
        journal.write_bytes(kept[:cut])
        assert build(journal) == whole
        assert journal.read_bytes() == kept


SLOW_BUILD = """
import sys, time
from pathlib import Path
from refladder.synth import ladders as synth
from refladder.files.jsonl import write_records
from refladder.backends.scripted import Rule, Scripted
from refladder.records import Context, Dimension

class Slow(Scripted):
    def write(self, prompts, sampling):  # waits for good once the journal has so many lines
        while Path(sys.argv[2]).read_bytes().count(b"\\n") >= float(sys.argv[4]):
            time.sleep(0.01)
        return super().write(prompts, sampling)

def text(words):
    return f"{words} is all that is said here"

backend = Slow([
    Rule(role="worst", texts=("", text("worst"))),
    Rule(role="best", contains="article 3", error="HTTP 503"),
    Rule(role="best", text=text("best")),
    Rule(role="between", contains={"lower": text("worst"), "higher": text("best")}, text=text("middle")),
    Rule(role="between", contains={"lower": text("worst")}, texts=(text("worst"), text("low"))),
    Rule(role="between", text=text("high")),
])
synth.CHUNK = 3
ladders, failures = synth.build_ladders(
    backend,
    [Context(id=f"c{number}", task="news", text=f"article {number}") for number in range(8)],
    [Dimension(name="coherence", description="It hangs together.")],
    prompts=Path(sys.argv[1]),
    journal=Path(sys.argv[2]),
)
write_records(Path(sys.argv[3]), [*ladders, *failures])
"""


def test_a_build_killed_twice_ends_with_the_bytes_of_one_go(templates, tmp_path, monkeypatch):
    one, killed = tmp_path / "one", tmp_path / "killed"

    def arguments(folder, lines):
        files = (templates, folder / "journal.jsonl", folder / "ladders.jsonl", lines)
        return list(map(str, files))

    def build_here(folder):
        monkeypatch.setattr(sys, "argv", ["-c", *arguments(folder, "inf")])
        monkeypatch.setattr(synth, "CHUNK", 3)
        exec(SLOW_BUILD, {})  # noqa: S102

    build_here(one)
    for lines in (20, 40):  # in waves 0 (second attempts) and 2
        command = [sys.executable, "-c", SLOW_BUILD, *arguments(killed, lines)]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        process = subprocess.Popen(command, env=environment)
        until(lambda lines=lines: count_lines(killed / "journal.jsonl") >= lines, process)
        process.send_signal(signal.SIGKILL)
        assert process.wait(HANG) == -signal.SIGKILL
        assert not (killed / "ladders.jsonl").exists()
        assert lines <= count_lines(killed / "journal.jsonl") < count_lines(one / "journal.jsonl")
    build_here(killed)
    for name in ("ladders.jsonl", "journal.jsonl"):
        assert (killed / name).read_bytes() == (one / name).read_bytes()
    assert count_lines(one / "ladders.jsonl") == 8  # 7 ladders and 1 failure


@pytest.fixture
def full_disk():
    """Let no file grow beyond 1,500 bytes, which stands for a full disk."""
    resource = pytest.importorskip("resource", reason="this system has no such limit")

    @contextmanager
    def limited():
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1500, limits[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    return limited


def test_a_full_disk_is_said_and_what_was_written_before_it_is_kept(
    build, journal, full_disk, caplog
):
    one = journal.with_name("one.jsonl")
    build(one)
    with full_disk(), pytest.raises(DataError) as error:
        build(journal)
    reason = "cannot be written (File too large); free space or choose another path"
    assert str(error.value) == f"{journal}: {reason}"
    assert journal.stat().st_size == 1500
    lines = count_lines(journal)
    build(journal)
    said = (
        "an incomplete line, which an interrupted write left, is skipped; the next write removes it"
    )
    assert caplog.messages == [f"{journal}:{lines + 1}: {said}"]
    assert journal.read_bytes() == one.read_bytes()


def test_a_journal_of_another_build_is_refused_and_left_alone(  # noqa: PLR0917
    build, journal, refused, contexts, dimensions, templates
):
    build(journal)
    for named, changes in {
        "rungs": {"rungs": 3},
        "attempts": {"attempts": 3},
        "sampling": {"sampling": Sampling(seed=1)},
        "backend": {"backend": Scripted([Rule(text="another script")])},
        "human-written rungs": {"human": {("c1", "coherence"): {1: "Words of a fisher."}}},
        "contexts, human-written rungs": {"contexts": contexts[:2]},
        "contexts": {"contexts": contexts[::-1]},
        "dimensions": {"dimensions": dimensions[::-1]},
    }.items():
        begun = (
            f"{journal}:1: this journal was begun by another build (other {named}); choose anoth"
        )
        refused(f"^{re.escape(begun)}er folder, or delete {journal}$", **changes)
    with (templates / "news" / "best.md").open("a", encoding="utf-8") as file:
        file.write("More.\n")
    refused(r"\(other prompts\)")


@pytest.mark.parametrize("first", ["", "not JSON", "[1]", '{"schema": "ladder/1"}'])
def test_a_file_that_is_no_journal_is_refused_and_left_alone(first, journal, refused):
    journal.parent.mkdir(parents=True)
    journal.write_text(f"{first}\nmore\n", encoding="utf-8")
    refused(':1: not a journal of ladders: expected a line with "schema": "ladder-journal/1"$')


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"level":1,', '"level":"1",', "level: Input should be a valid integer"),
        ('"level":1,', '"level":1,"more":1,', "more: Unexpected keyword argument"),
        ('"level":1,', "", "level: Field required"),
        ('"level":1,', "level", "line: Invalid JSON: "),
    ],
)
def test_a_damaged_entry_is_refused_with_its_line(old, new, message, build, journal, refused):  # noqa: PLR0917
    build(journal)
    lines = journal.read_text(encoding="utf-8").split("\n")
    lines[1] = lines[1].replace(old, new)
    journal.write_text("\n".join(lines), encoding="utf-8")
    refused(rf"\.jsonl:2: not an entry of a journal: {message}.*delete .*journal\.jsonl$")


def test_an_entry_that_answers_another_question_is_refused_with_its_line(build, journal, refused):
    build(journal)
    lines = journal.read_text(encoding="utf-8").split("\n")
    del lines[2]
    journal.write_text("\n".join(lines), encoding="utf-8")
    message = (
        "expected context 'c1', dimension 'coherence', level 5, attempt 0, found ('c1', 'relev"
    )
    refused(f":3: {re.escape(message)}.*: the journal was changed; delete {journal}$")


def test_text_that_is_not_unicode_is_journaled_legibly_and_written_again(build, journal, rules):
    backend = Scripted([Rule(role="worst", texts=("half \ud83d", "Rain.")), *rules[1:]])
    first = build(journal, backend=backend)
    entry = json.loads(journal.read_text(encoding="utf-8").splitlines()[1])
    assert (entry["text"], entry["unusable"][:6]) == ("half ?", "failed")
    assert build(journal, backend=backend) == first
