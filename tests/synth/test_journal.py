import json
import os
import re
import signal
import subprocess
import sys
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
def build(templates, contexts, dimensions, rules):
    """Build with one rung that needs a second attempt and one ladder that fails; any argument can be changed."""
    usual = [
        Rule(role="worst", contains={"context": "article 1"}, texts=("", "Rain.")),
        Rule(
            role="best",
            contains={"context": "article 3", "dimension": "relevance"},
            error="HTTP 503",
        ),
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


def test_the_journal_holds_every_text_and_why_it_was_not_taken(build, tmp_path):
    build(tmp_path / "new" / "folder" / "journal.jsonl")
    lines = (tmp_path / "new" / "folder" / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    header, *entries = map(json.loads, lines)
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
    assert ("c3", "relevance", 1, "Rain.") in [
        (entry["context_id"], entry["dimension"], entry["level"], entry["text"])
        for entry in entries
    ]


def test_a_finished_journal_answers_without_the_backend(build, tmp_path, recording):
    first = build(tmp_path / "journal.jsonl")
    kept = (tmp_path / "journal.jsonl").read_bytes()
    backend = recording(build.rules)
    assert build(tmp_path / "journal.jsonl", backend=backend) == first
    assert backend.batches == []
    assert (tmp_path / "journal.jsonl").read_bytes() == kept


def test_a_journal_cut_anywhere_goes_on_to_the_same_bytes(build, tmp_path, monkeypatch):
    monkeypatch.setattr(synth, "CHUNK", 4)
    journal = tmp_path / "journal.jsonl"
    whole, kept = build(journal), journal.read_bytes()
    assert whole == build(None)
    header_end = kept.index(b"\n")
    cuts = {
        0,
        1,
        header_end - 1,
        header_end,
        header_end + 1,
        header_end + 2,
        len(kept) - 1,
        *range(0, len(kept), 97),
    }
    for cut in sorted(cuts):
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


def start(folder, templates, lines):
    command = [
        sys.executable,
        "-c",
        SLOW_BUILD,
        templates,
        folder / "journal.jsonl",
        folder / "ladders.jsonl",
        lines,
    ]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.Popen(list(map(str, command)), env=environment)


def test_a_build_killed_three_times_ends_with_the_bytes_of_one_go(templates, tmp_path):
    one, killed = tmp_path / "one", tmp_path / "killed"
    assert start(one, templates, "inf").wait(HANG) == 0
    for lines in (4, 20, 40):  # in waves 0, 0 again (second attempts) and 2
        process = start(killed, templates, lines)
        until(lambda lines=lines: count_lines(killed / "journal.jsonl") >= lines, process)
        process.send_signal(signal.SIGKILL)
        assert process.wait(HANG) == -signal.SIGKILL
        assert not (killed / "ladders.jsonl").exists()
        assert lines <= count_lines(killed / "journal.jsonl") < count_lines(one / "journal.jsonl")
    assert start(killed, templates, "inf").wait(HANG) == 0
    for name in ("ladders.jsonl", "journal.jsonl"):
        assert (killed / name).read_bytes() == (one / name).read_bytes()
    assert count_lines(one / "ladders.jsonl") == 8  # 7 ladders and 1 failure


FULL_DISK = """
import resource, sys
from pathlib import Path
from refladder.synth import ladders as synth
from refladder.backends.scripted import Rule, Scripted
from refladder.errors import DataError
from refladder.records import Context, Dimension

if sys.argv[3] == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
try:
    synth.build_ladders(
        Scripted([Rule(role="worst", text="bad " * 20), Rule(role="best", text="good " * 20)]),
        [Context(id=f"c{number}", task="news", text="article") for number in range(9)],
        [Dimension(name="coherence", description="It hangs together.")],
        rungs=2,
        prompts=Path(sys.argv[1]),
        journal=Path(sys.argv[2]),
    )
except DataError as error:
    sys.exit(str(error))
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="a limit on file size stands for the full disk"
)
def test_a_full_disk_is_said_and_what_was_written_before_it_is_kept(templates, tmp_path):
    journal = tmp_path / "journal.jsonl"

    def go(disk, path):
        command = [sys.executable, "-c", FULL_DISK, str(templates), str(path), disk]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=HANG
        )

    full = go("full", journal)
    assert full.returncode == 1
    message = f"{journal}: cannot be written (File too large); free space or choose another path\n"
    assert full.stderr == message
    assert journal.stat().st_size == 1500
    lines = journal.read_bytes().count(b"\n")
    assert go("free", journal).stderr == (
        f"{journal}:{lines + 1}: an incomplete line, which an interrupted write left, is skipped; the next write "
        "removes it\n"
    )
    assert go("free", tmp_path / "one.jsonl").stderr == ""
    assert journal.read_bytes() == (tmp_path / "one.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"rungs": 3}, "rungs"),
        ({"attempts": 3}, "attempts"),
        ({"sampling": Sampling(seed=1)}, "sampling"),
        ({"backend": Scripted([Rule(text="another script")])}, "backend"),
        ({"human": {("c1", "coherence"): {1: "Words of a fisher."}}}, "human-written rungs"),
    ],
)
def test_a_journal_of_another_build_is_refused_and_left_alone(changes, named, build, tmp_path):
    journal = tmp_path / "journal.jsonl"
    build(journal)
    kept = journal.read_bytes()
    message = (
        f"{journal}:1: this journal was begun by another build (other {named}); "
        f"choose another folder, or delete {journal}"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        build(journal, **changes)
    assert journal.read_bytes() == kept


def test_other_contexts_and_dimensions_are_another_build(
    build, tmp_path, contexts, dimensions, templates
):
    journal = tmp_path / "journal.jsonl"
    build(journal)
    with pytest.raises(DataError, match=r"\(other contexts, human-written rungs\)"):
        build(journal, contexts=contexts[:2])
    with pytest.raises(DataError, match=r"\(other contexts\)"):
        build(journal, contexts=contexts[::-1])
    with pytest.raises(DataError, match=r"\(other dimensions\)"):
        build(journal, dimensions=dimensions[::-1])
    template = templates / "news" / "best.md"
    template.write_text(template.read_text(encoding="utf-8") + "More.\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"\(other prompts\)"):
        build(journal)


@pytest.mark.parametrize("first", ["", "not JSON", "[1]", '{"schema": "ladder/1"}'])
def test_a_file_that_is_no_journal_is_refused_and_left_alone(first, build, tmp_path):
    journal = tmp_path / "journal.jsonl"
    journal.write_text(f"{first}\nmore\n", encoding="utf-8")
    message = (
        f'{journal}:1: not a journal of ladders: expected a line with "schema": "ladder-journal/1"'
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        build(journal)
    assert journal.read_text(encoding="utf-8") == f"{first}\nmore\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"level":1,', '"level":"1",', "level: Input should be a valid integer"),
        ('"level":1,', '"level":1,"more":1,', "more: Unexpected keyword argument"),
        ('"level":1,', "", "level: Field required"),
        ('"level":1,', "level", "line: Invalid JSON: "),
    ],
)
def test_a_damaged_entry_is_refused_with_its_line(old, new, message, build, tmp_path):
    journal = tmp_path / "journal.jsonl"
    build(journal)
    lines = journal.read_text(encoding="utf-8").split("\n")
    lines[1] = lines[1].replace(old, new)
    journal.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(
        DataError,
        match=rf"journal\.jsonl:2: not an entry of a journal: {message}.*delete .*journal\.jsonl$",
    ):
        build(journal)


def test_an_entry_that_answers_another_question_is_refused_with_its_line(build, tmp_path):
    journal = tmp_path / "journal.jsonl"
    build(journal)
    lines = journal.read_text(encoding="utf-8").split("\n")
    del lines[2]
    journal.write_text("\n".join(lines), encoding="utf-8")
    message = (
        ":3: expected context 'c1', dimension 'coherence', level 5, attempt 0, "
        f"found ('c1', 'relevance', 1, 0): the journal was changed; delete {journal}"
    )
    with pytest.raises(DataError, match=re.escape(message)):
        build(journal)


def test_text_that_is_not_unicode_is_journaled_legibly_and_written_again(build, tmp_path, rules):
    backend = Scripted([Rule(role="worst", texts=("half \ud83d", "Rain.")), *rules[1:]])
    journal = tmp_path / "journal.jsonl"
    first = build(journal, backend=backend)
    entry = json.loads(journal.read_text(encoding="utf-8").splitlines()[1])
    assert (entry["text"], entry["unusable"][:6]) == ("half ?", "failed")
    assert build(journal, backend=backend) == first
