"""The judgments file: written line by line while the judge answers, and read back so that nothing is asked twice.

The first line is a Run, every other a Judgment. A run that was cut off leaves complete lines and at most one torn one;
opened again, the file returns what it holds, is cut at the tear, and is continued. There are two ways to look a
judgment up. `JudgmentLog` reads a ladder's judgments in the canonical order of `question`, so that memory does not
grow with the file. `JudgmentIndex` finds the judgments of pairs, grades and single texts by the key of their question.
"""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections import deque
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from refladder.backends.labels import UNPARSED
from refladder.errors import (
    BackendError,
    ChangedInputError,
    DataError,
    OtherRunError,
    UsageError,
    option,
    plural,
)
from refladder.files.folders import open_folder
from refladder.files.jsonl import (
    append_lines,
    append_records,
    appended_text,
    atomic,
    from_line,
    from_lines,
    is_device,
    is_torn,
    numbered_lines,
    read_appended,
    refuse_pipe,
    throw_away,
    to_line,
    write_record,
)
from refladder.files.locks import locked
from refladder.files.scored_folders import JUDGMENTS, finished_files, judgments_name
from refladder.files.streams import GZIP, LONGEST_LINE, check_line, is_url
from refladder.files.tables import is_many, open_table
from refladder.records import (
    LOSS,
    OUTCOMES,
    TEXT,
    WIN,
    Comparison,
    Judgment,
    NotJudged,
    Run,
    impossible,
    names_of,
    without_none,
)
from refladder.scoring.modes import mode_of
from refladder.scoring.question import level_of
from refladder.scoring.unread import MOST_ROWS, THE_ANSWER
from refladder.signatures import scale_of, with_earlier_sets

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import IO

    from refladder.scoring.modes import Mode
    from refladder.scoring.question import Question

T = TypeVar("T")

_PERCENT = 100
# Lines read at a time.
_CHUNK = 1024
# Part of the prompts of a recipe with yes/no questions.
_YES_NO = "/compare-yesno@"
# Part of the prompts of a recipe that grades one of two texts.
_VERIFIER = "/verifier@"
# Part of the prompt's signature of a reward model.
_REWARD = "/reward@"
# Seconds; the judgments of a long batch are kept about as often.
KEPT_EVERY = 20.0
# Length of the beginning of every line.
_START = len(b'{"schema":"')
# Outcomes of judgments that are no choice between texts.
_GRADES = (*map(str, range(1, 101)), TEXT)


def read_judgments(path: str | Path) -> tuple[Run, Iterator[tuple[str, Judgment]]]:
    """Read a judgments file, or all of a folder of scored files: its Run, and its judgments with the path:line of each."""
    path = str(path)
    if is_many(path):
        return _read_folder(path)
    beside = f"{path}.judgments.jsonl"
    if not is_url(path) and Path(beside).is_file():
        raise DataError(f"{path}: scored rows; their judgments are in {beside}")
    lines = numbered_lines(open_table(path), path)
    first = next(lines, None)
    if first is None:
        raise DataError(
            f"{path}: empty; a judgments file is what `refladder score --judgments` writes"
        )
    if '"schema"' not in first[1] and not path.endswith(".judgments.jsonl"):
        others = [] if is_url(path) else sorted(Path(path).parent.glob("*.judgments.jsonl"))
        such = f", such as {others[0]}" if others else ""
        raise DataError(
            f"{path}: no judgments file; name the file OUT.judgments.jsonl that `refladder score` wrote{such}"
        )
    run = from_line(Run, first[1], f"{path}:1")
    try:
        mode = mode_of(run.answers)
    except UsageError as error:
        raise DataError(f"{path}:1: {error}") from error
    located_lines = ((f"{path}:{number}", line) for number, line in lines)

    def located() -> Iterator[tuple[str, Judgment]]:
        while chunk := list(itertools.islice(located_lines, _CHUNK)):
            for (where, _), judgment in zip(chunk, from_lines(Judgment, chunk), strict=True):
                yield where, _possible(run, mode, where, judgment)

    return run, located()


def _read_folder(path: str) -> tuple[Run, Iterator[tuple[str, Judgment]]]:
    files = []
    if (scored := finished_files(path)) is not None:
        folder = open_folder(path)
        existing = folder.sizes(JUDGMENTS)
        names = {file.name: judgments_name(file.name) for file in scored if file.rows}
        files = [folder.path_of(name) for name in names.values() if name in existing]
        if files and (
            without := next(
                (name for name, judged in names.items() if judged not in existing), None
            )
        ):
            raise DataError(
                f"{folder.path_of(without)}: the judgments of this file are missing; delete this file, and run the "
                "same `refladder score` command again, which asks the judge about its rows again"
            )
    if not files:
        raise DataError(
            f"{path}: holds no judgments; name a judgments file, or a folder of `refladder score --workers`"
        )
    run, first = read_judgments(files[0])

    def judgments() -> Iterator[tuple[str, Judgment]]:
        yield from first
        for file in files[1:]:
            other, located = read_judgments(file)
            if _on_scale(other) != _on_scale(run):
                raise DataError(
                    f"{file}:1: these judgments are of another run ({_difference(other, run)})"
                )
            yield from located

    return run, judgments()


def _rewards(run: Run) -> bool:
    """Return whether the judge is a reward model, which knows no tie."""
    return any(_REWARD in prompt for prompt in run.recipe.prompts)


def _check_outcomes(
    where: str, judgment: Judgment, allowed: Collection[str], *, all_of: bool = True
) -> None:
    """Check that a stored judgment is a choice between all outcomes of its question in order, or some of them."""
    # This is the usual case, and quick.
    if judgment.outcomes == allowed:
        return
    in_order = tuple(outcome for outcome in allowed if outcome in judgment.outcomes)
    if judgment.outcomes != in_order or (all_of and len(in_order) < len(allowed)):
        shown = ", ".join(allowed)
        if allowed is _GRADES:
            shown = ", ".join(("1", "2", "...", *_GRADES[-2:]))
        raise DataError(
            f"{where}: outcomes {', '.join(judgment.outcomes)[:80]!r}, and this file holds judgments between {shown}, "
            "in this order; correct the line, or delete the file"
        )


def _possible(run: Run, mode: Mode, where: str, judgment: Judgment) -> Judgment:
    """Check what every reader of a stored judgment relies on.

    Label probabilities add to 1 at most; yes/no questions are three, each with a sum of its own. A judgment with rungs, or
    a rating, is between the outcomes of its run, and has a stated number for each order.
    """
    apart = any(_YES_NO in prompt for prompt in run.recipe.prompts)
    wrong = impossible(judgment.logprobs or (), judgment.mass, apart=apart)
    stated = judgment.stated
    if (
        (judgment.logprobs is not None or stated)
        and run.recipe.prompts
        and len(stated) != mode.orders
    ):
        wrong = f"{plural(len(stated), 'stated number')}, and mode {mode.name} of this file's first line has {mode.orders}"
    if not all(0 <= number <= _PERCENT for number in without_none(stated)):
        wrong = f"stated numbers that are not all between 0 and {_PERCENT}"
    if wrong:
        raise DataError(f"{where}: {wrong}; correct the line, or delete the file")
    if run.rungs or not mode.compares_rungs:
        _check_outcomes(where, judgment, (WIN, LOSS) if _rewards(run) else mode.outcomes)
    return judgment


def check_indexed(run: Run, mode: Mode, where: str, judgment: Judgment) -> None:
    """Check the outcomes of a judgment between any two texts, or on one; those of a rating are checked already."""
    if not mode.compares_rungs:
        return
    rewarded = _rewards(run)
    graded = any(_VERIFIER in prompt for prompt in run.recipe.prompts)
    if not rewarded and (graded or judgment.against is None):
        _check_outcomes(where, judgment, _GRADES, all_of=False)
    else:
        all_three = not rewarded and len(judgment.outcomes) == len(OUTCOMES)
        _check_outcomes(where, judgment, OUTCOMES if all_three else (WIN, LOSS))


class JudgmentLog:
    """An open judgments file in canonical order; use it in a `with` block. Without a path nothing is stored.

    Judgments that are `known` stand in the place of what the file holds, and their questions are never asked.
    """

    def __init__(
        self,
        path: Path | None,
        run: Run,
        *,
        read_only: bool = False,
        known: Iterable[Judgment] = (),
    ) -> None:
        self.run = run
        self.mode = mode_of(run.answers)
        self._known: dict[tuple[str, Comparison], Judgment] = {}
        for judgment in known:
            if judgment.recipe == run.recipe.digest:
                self._known[judgment.key, judgment.comparison] = judgment
        self.reused = 0
        self._path = path
        self._read_only = read_only
        # Number of the last line that was read.
        self._number = 0
        # Bytes of a file that this object has begun.
        self._begun = 0
        # The judgment that is read and not yet looked up.
        self._ahead: tuple[str, Judgment] | None = None
        # Judgments of a batch that was not finished.
        self._early: dict[tuple[str, Comparison], Judgment] = {}
        # Bytes of the file of unfinished batches before this batch; None where nothing was kept of it.
        self._passing: int | None = None
        # Places of judgments that this run made before, for something else.
        self._made: set[tuple[str, Comparison]] = set()
        # Judgments of answers that were read again, for the places of older ones in the file.
        self._better: dict[tuple[str, Comparison], Judgment] = {}
        # Judgments of the questions that are asked now.
        self._batch: list[Judgment | None] = []
        # Judgments of the batch that are in their place in the file, now and when it began.
        self._placed = self._in_file = 0
        # Positions in the batch whose judgments `append` gets.
        self._waiting: deque[int] = deque()
        self._reader: IO[bytes] | None = None
        self._lock = ExitStack()
        # Whether the file is of a run that ended because nothing could be read.
        self._nothing_read = False
        if path is None:
            return
        refuse_pipe(path)
        if not read_only:
            self._lock.enter_context(locked(path))
        try:
            if self._open(path):
                self._nothing_read = _ended_a_run(path)
                for where, line in read_appended(_early_path(path)):
                    judgment = self._judgment(where, line)
                    if judgment.recipe == run.recipe.digest:
                        self._early[judgment.key, judgment.comparison] = judgment
        except BaseException:
            self.close()
            raise

    def _open(self, path: Path) -> bool:
        """Read the first line, and return whether there is one; without one, write it."""
        head = None
        if path.exists() and path.stat().st_size > 0:
            try:
                self._reader = path.open("rb")
                first = self._reader.readline()
                self._reader.seek(0)
            except OSError as error:
                raise DataError(f"{path}: cannot be read ({error.strerror})") from error
            if first.startswith(GZIP):
                raise DataError(f"{path}: a gzip file cannot be extended; unpack it first")
            if is_torn(first) and not to_line(self.run).startswith(first[:_START]):
                raise DataError(
                    f"{path}:1: not a judgments file; name another file with {option('judgments')}"
                )
            head = self._next_line()
        # The file is new, or its first line is torn: nothing is lost.
        if head is None:
            if not self._read_only:
                # It belongs to a file that was deleted.
                throw_away(_early_path(path))
                write_record(path, self.run)
                self._begun = len(to_line(self.run))
        elif self._check_run(*head) and not self._read_only:
            # Write this run's line, and the judgments as they are.
            with (
                path.open("rb") as source,
                atomic(path) as target,
            ):
                source.readline()
                target.write(to_line(self.run))
                shutil.copyfileobj(source, target)
        return head is not None

    def _check_run(self, where: str, line: str) -> bool:
        """Refuse a file of another run; returns whether the ladders alone have got another certificate since."""
        stored = from_line(Run, line, where)
        if _on_scale(stored) != _on_scale(self.run):
            raise OtherRunError(
                f"{self._path}: these judgments are of another run ({_difference(stored, self.run)}); "
                f"{_next_step(self._path)}"
            )
        return stored != self.run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        if (
            failure
            and self._begun
            and self._path
            and self._path.is_file()
            and self._path.stat().st_size == self._begun
            and not _early_path(self._path).exists()
        ):
            # The file holds nothing, and another judge may be asked next.
            throw_away(self._path)
        self.close()

    def close(self) -> None:
        """Close the file and let other processes have it; everything that was appended is on the disk already."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._lock.close()

    def _judgment(self, where: str, line: str) -> Judgment:
        return _possible(self.run, self.mode, where, from_line(Judgment, line, where))

    def _next_line(self) -> tuple[str, str] | None:
        """Return the next complete line with its path:line; None at the end, where a torn line is cut off."""
        if self._reader is None or self._path is None:
            return None
        line = self._reader.readline(LONGEST_LINE + 1)
        check_line(line, str(self._path), self._number + 1)
        if not line or is_torn(line):
            self._reader.close()
            self._reader = None
            if not self._read_only:
                append_lines(self._path, [])
            return None
        self._number += 1
        where = f"{self._path}:{self._number}"
        return where, appended_text(line, where).rstrip("\n")

    def take(self, judgments: Iterable[Judgment]) -> None:
        """Use judgments that this run made for something else, where the file holds none; they do not count as reused."""
        for judgment in judgments:
            place = judgment.key, judgment.comparison
            if judgment.recipe == self.run.recipe.digest and place not in self._early:
                self._early[place] = judgment
                self._made.add(place)

    def unanswered(self, questions: Sequence[Question], *, free: bool = False) -> list[Question]:
        """Return the questions, of the next ones in the canonical order, that have no stored judgment.

        Answers that could not be read are asked for again, once a run; where this is `free`, also missing ones, and
        those that were read in part. Their judgments go to `append`, in this order and in any number of parts. Then
        `answers` has those of all.
        """
        stored = self._next(questions)
        self._batch = []
        self._waiting = deque()
        made = 0
        for position, (kept, question) in enumerate(itertools.zip_longest(stored, questions)):
            place = question.key, question.comparison
            known = self._known.get(place)
            other = known or self._early.get(place)
            judgment = kept or other
            if kept is not None and other is not None and (known or _is_better(other, kept)):
                judgment = other
                if other != kept:
                    self._better[place] = other
            self._batch.append(judgment)
            again = judgment is None or _is_read_again(judgment, free=free or self._nothing_read)
            if judgment is None or (known is None and again):
                self._waiting.append(position)
            else:
                made += kept is None and known is None and place in self._made
        self._placed = self._in_file = len(stored)
        self.reused += len(questions) - len(self._waiting) - made
        return [questions[position] for position in self._waiting]

    def append(self, judgments: Sequence[Judgment]) -> None:
        """Take the judgments of the next unanswered questions, safely on disk when this returns."""
        read_again = []
        for judgment in judgments:
            position = self._waiting.popleft()
            before = self._batch[position]
            if before is None or _is_better(judgment, before):
                self._batch[position] = judgment
                if position < self._in_file:
                    read_again.append(judgment)
        end = self._waiting[0] if self._waiting else len(self._batch)
        if end > self._placed:
            new = without_none(self._batch[self._placed : end])
            self._store(new)
            self._placed = end
        if not self._waiting:
            self._drop_passing()
        if read_again and not self._read_only:
            self._better |= {(each.key, each.comparison): each for each in read_again}
            self.keep(read_again)
            # These stay until `finish` puts them into the places of older ones.
            self._passing = None

    def answers(self, questions: Sequence[Question]) -> list[Judgment]:
        """Return the judgment of each of the questions that `unanswered` was given."""
        # Place what an unfinished batch left behind the last new judgment.
        self.append([])
        answered = zip(questions, self._batch, strict=True)
        return [judgment for _, judgment in answered if judgment is not None]

    @contextmanager
    def keeping(
        self, judgments: Callable[[], Sequence[Judgment]]
    ) -> Iterator[Callable[[Iterable[T]], Iterator[T]]]:
        """Keep what `judgments` returns while answers come, and if the judge fails; give what passes the answers on."""
        last = time.monotonic()

        def kept(answers: Iterable[T]) -> Iterator[T]:
            nonlocal last
            for answer in answers:
                yield answer
                if time.monotonic() > last + KEPT_EVERY:
                    self.keep(judgments())
                    last = time.monotonic()

        try:
            yield kept
        except (BackendError, KeyboardInterrupt):
            self.keep(judgments())
            raise

    def keep(self, judgments: Sequence[Judgment]) -> None:
        """Keep judgments of a batch that was not finished, in any order; `append` puts them in their places later."""
        if self._path is None or self._read_only or not judgments or is_device(self._path):
            return
        early = _early_path(self._path)
        if self._passing is None:
            self._passing = early.stat().st_size if early.exists() else 0
        append_records(early, judgments)

    def _drop_passing(self) -> None:
        """Remove what was kept of a batch whose judgments are all in their places."""
        if self._path is not None and self._passing is not None:
            early = _early_path(self._path)
            if self._passing:
                os.truncate(early, self._passing)
            else:
                throw_away(early)
        self._passing = None

    def _next(self, questions: Sequence[Question]) -> list[Judgment]:
        """Return the judgments of as many of the first questions as the file still holds."""
        judgments: list[Judgment] = []
        for question in questions:
            if self._ahead is None and (line := self._next_line()) is not None:
                self._ahead = line[0], self._judgment(*line)
            if self._ahead is None:
                break
            judgment = self._ahead[1]
            if judgment.key != question.key or judgment.comparison != question.comparison:
                raise _changed(self._path, self._number, judgment, question)
            judgments.append(judgment)
            self._ahead = None
        return judgments

    def finish(self) -> None:
        """Check that the file holds nothing that this run did not ask. A line torn by a kill is cut off."""
        if self._ahead is not None or self._next_line() is not None:
            raise ChangedInputError(
                f"{self._path}:{self._number}: judgments continue after this run's last question; the input has become "
                f"shorter: {_next_step(self._path)}",
                self._number,
            )
        if self._path is not None and not self._read_only:
            if self._better:
                self._write_better(self._path)
            throw_away(_early_path(self._path))

    def _write_better(self, path: Path) -> None:
        """Put judgments of answers that were read again into the places of the older ones."""
        with path.open("rb") as source, atomic(path) as target:
            target.write(source.readline())
            for line in source:
                judgment = from_line(Judgment, line.decode(), str(path))
                new = self._better.get((judgment.key, judgment.comparison))
                target.write(line if new is None else to_line(new))

    def _store(self, judgments: Sequence[Judgment]) -> None:
        """Put judgments at the end of the file."""
        if self._ahead is not None and judgments:
            raise DataError(
                f"{self._ahead[0]}: judgments of a later row, and an earlier one has fewer than this run needs; "
                f"delete {self._path}"
            )
        # What a dry run did not ask is not stored.
        if self._path is not None and not self._read_only and judgments:
            asked = [judgment for judgment in judgments if not isinstance(judgment, NotJudged)]
            append_records(self._path, asked)


class JudgmentIndex(JudgmentLog):
    """Judgments by the key of their question, in memory and, with a path, in a file, whose folder its user locks.

    Two questions that show the same texts are one.
    """

    def __init__(self, path: Path | None, run: Run, *, read_only: bool = False) -> None:
        self.judgments: dict[str, Judgment] = {}
        # Keys of the questions that were asked in this run.
        self._asked: set[str] = set()
        super().__init__(path, run, read_only=read_only)
        if path is None:
            return
        with self:
            while (line := self._next_line()) is not None:
                judgment = self._judgment(*line)
                check_indexed(run, self.mode, line[0], judgment)
                self.judgments[judgment.key] = judgment

    def take(self, judgments: Iterable[Judgment]) -> None:
        """Use judgments that this run made for something else."""
        recipe = self.run.recipe.digest
        self.judgments |= {each.key: each for each in judgments if each.recipe == recipe}

    def unanswered(self, questions: Sequence[Question], *, free: bool = False) -> list[Question]:
        """Return the questions to ask, each key once, the questions of a context next to each other."""
        wanted = []
        for question in questions:
            judgment = self.judgments.get(question.key)
            if judgment is None or (
                question.key not in self._asked and _is_read_again(judgment, free=free)
            ):
                wanted.append(question)
        self.reused += len(questions) - len(wanted)
        new = {question.key: question for question in wanted}
        return sorted(new.values(), key=lambda question: question.context.id)

    def append(self, judgments: Sequence[Judgment]) -> None:
        """Put new judgments into the index and at the end of the file, safely on disk when this returns."""
        self._asked |= {judgment.key for judgment in judgments}
        new = []
        for judgment in judgments:
            before = self.judgments.get(judgment.key)
            if before is None or _is_better(judgment, before):
                new.append(judgment)
        self._store(new)
        self.judgments.update({judgment.key: judgment for judgment in new})

    def answers(self, questions: Sequence[Question]) -> list[Judgment]:
        """Return the judgment of each question; equal texts have one judgment."""
        return [_about(self.judgments[question.key], question.comparison) for question in questions]

    def keep(self, judgments: Sequence[Judgment]) -> None:
        """Append judgments of a batch that was not finished: the file has no order."""
        self.append(judgments)


def _early_path(path: Path) -> Path:
    """Return the file that holds the judgments of an unfinished batch until the run is resumed."""
    return path.with_name(f"{path.name}.unfinished")


def _changed(
    path: Path | None, line: int, judgment: Judgment, question: Question
) -> ChangedInputError:
    return ChangedInputError(
        f"{path}:{line}: this judgment is of {judgment.subject!r} against {judgment.against!r} with other texts "
        f"than this run's next question ({question.comparison.subject!r} against "
        f"{question.comparison.against!r}); the input has changed: {_next_step(path)}",
        line,
    )


def _next_step(path: Path | None) -> str:
    files = f"{path}"
    out = files.removesuffix(".judgments.jsonl")
    if out != files and Path(out).exists():
        files = f"{out} and {path}"
    others = f"{option('out')}, {option('judgments')} or {option('work')}"
    return f"name another file or folder ({others}), or delete {files}"


def _share_read(judgment: Judgment) -> float:
    """Return the share of the answers to a question that could be read."""
    if judgment.logprobs is None:
        return 0.0
    if judgment.stated:
        return 1 - judgment.stated.count(None) / len(judgment.stated)
    # For sampled answers, the mass is the share of parsed answers.
    if judgment.mass is None or UNPARSED not in (judgment.note or ""):
        return 1.0
    return judgment.mass


def _is_better(judgment: Judgment, before: Judgment) -> bool:
    """Return whether more answers were read than before."""
    return _share_read(judgment) > _share_read(before)


def _is_read_again(judgment: Judgment, *, free: bool) -> bool:
    if free:
        return _share_read(judgment) < 1
    note = judgment.note or ""
    return judgment.logprobs is None and (UNPARSED in note or THE_ANSWER in note)


def _ended_a_run(path: Path) -> bool:
    """Return whether a file holds the judgments after which a run ends: of many texts, and none of them read."""
    texts = set()
    with path.open("rb") as lines, suppress(DataError, UnicodeDecodeError):
        for line in itertools.islice(lines, 1, None):
            judgment = from_line(Judgment, line.decode(), str(path))
            if level_of(judgment.subject) is None:
                texts.add((judgment.context_id, judgment.subject))
                if judgment.logprobs is not None:
                    return False
    return len(texts) >= MOST_ROWS


def _about(judgment: Judgment, comparison: Comparison) -> Judgment:
    """Give a judgment the ids of another question that shows the same texts."""
    if judgment.comparison == comparison:
        return judgment
    return replace(judgment, **asdict(comparison) | {"against": comparison.against or None})


def _on_scale(run: Run) -> Run:
    """Return a run without the certificate of its ladders, see `scale_of`."""
    return replace(run, ladders=scale_of(run.ladders) or "")


def _difference(stored: Run, wanted: Run) -> str:
    if stored.recipe.backend != wanted.recipe.backend:
        return f"another judge: {stored.recipe.backend}, this run has {wanted.recipe.backend}"
    if stored.recipe != wanted.recipe:
        return f"made by {stored.recipe.signature}, this run is {wanted.recipe.signature}"
    if scale_of(stored.ladders) != scale_of(wanted.ladders):
        return (
            f"against ladders {with_earlier_sets(stored.ladders)}, this run's are {wanted.ladders}"
        )
    if stored.answers != wanted.answers:
        return f"asked with {option('answers')} {stored.answers}, this run with {wanted.answers}"
    if stored.orders != wanted.orders:
        return f"asked in {plural(stored.orders, 'order')}, this run in {wanted.orders}"
    return "of dimensions " + ", ".join(names_of(stored.dimensions))
