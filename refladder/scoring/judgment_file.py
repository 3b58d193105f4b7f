"""The judgments file: made line by line while the judge answers, read back so that nothing is asked twice.

The first line is a Run, every other a Judgment, in the canonical order of `judging`. A run that was cut off leaves a
file whose lines are all good but for a torn last one; opened again, it hands out what it has, is cut at the tear, and
goes on.
"""

from __future__ import annotations

import itertools
import os
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Self

from refladder.errors import DataError, UsageError
from refladder.files.jsonl import GZIP, cannot_write, from_line, from_lines, is_device, read_lines, to_line
from refladder.files.locks import locked
from refladder.records import OUTCOMES, TEXT, Comparison, Judgment, Run

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import IO

    from refladder.scoring.judging import Question

_CHUNK = 1024  # lines read at a time
_OF_ONE_TEXT = (*map(str, range(1, 11)), TEXT)  # outcomes of judgments about texts by themselves


def read_judgments(path: Path) -> tuple[Run, Iterator[tuple[str, Judgment]]]:
    """A judgments file: its Run, and its judgments with the path:line of each.

    Raises:
        DataError: the file is empty, damaged, or not a judgments file.
    """
    lines = read_lines(path)
    first = next(lines, None)
    if first is None:
        raise DataError(f"{path}: empty; a judgments file is what `refladder score --judgments` writes")
    run = from_line(Run, first[1], f"{path}:1")
    return run, _located(path, lines)


def check_outcomes(where: str, judgment: Judgment, allowed: Collection[str], *, all_of: bool = True) -> None:
    """Check that a judgment that was kept is a choice between what was asked.

    Args:
        where: path:line, for the error.
        judgment: as it was read.
        allowed: the outcomes that could be chosen.
        all_of: whether all of them must be in the judgment, in any order.

    Raises:
        DataError: its outcomes are others.
    """
    found = set(judgment.outcomes)
    if not found <= set(allowed) or (all_of and len(found) < len(allowed)):
        raise DataError(
            f"{where}: outcomes {', '.join(judgment.outcomes)[:80]!r}, and this file holds judgments between "
            f"{', '.join(allowed)}; mend the line, or throw the judgments away with --restart"
        )


def _located(path: Path, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[str, Judgment]]:
    while chunk := [(f"{path}:{number}", line) for number, line in itertools.islice(lines, _CHUNK)]:
        yield from zip([where for where, _ in chunk], from_lines(Judgment, chunk), strict=True)


class JudgmentLog:
    """An open judgments file; use it in a `with` block.

    Args:
        path: where it is, or None to keep nothing.
        run: what this run is; a file of another run is refused.
        restart: throw away what the file holds.
        read_only: hand out what the file holds and keep nothing new.

    Raises:
        UsageError: the file is of another run, or another process has it open.
        DataError: it cannot be read or written.
    """

    def __init__(self, path: Path | None, run: Run, *, restart: bool = False, read_only: bool = False) -> None:
        self._path = path
        self._read_only = read_only
        self._run = run
        self._good = 0  # bytes known to be whole lines that this run wants
        self._reader: IO[bytes] | None = None
        self._writer: IO[bytes] | None = None
        self._number = 1
        self.reused = 0
        self._lock = ExitStack()
        if path is None:
            return
        if not read_only:
            self._lock.enter_context(locked(path))
        try:
            self._open(path, restart=restart)
        except BaseException:
            self._close()
            self._lock.close()
            raise

    def _open(self, path: Path, *, restart: bool) -> None:
        if restart or not path.exists() or path.stat().st_size == 0:
            self._start(path)
            return
        try:
            self._reader = path.open("rb")
            head = self._reader.readline()
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from error
        self._check(path, head)

    def _check(self, path: Path, head: bytes) -> None:
        if head.startswith(GZIP):
            raise DataError(f"{path}: a gzip file, to which nothing can be added; unpack it first")
        if not head.endswith(b"\n"):  # cut off in its first line: nothing is lost
            self._close()
            self._start(path)
            return
        found = from_line(Run, head.decode("utf-8", "replace").rstrip("\n"), f"{path}:1")
        if found != self._run:
            raise UsageError(
                f"{path}: these judgments are of another run ({_difference(found, self._run)}); "
                "name another file with --judgments, or throw them away with --restart"
            )
        self._good = len(head)

    def _start(self, path: Path) -> None:
        if self._read_only:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = path.open("wb")
            self._writer.write(to_line(self._run))
            self._writer.flush()
        except OSError as error:
            self._close()
            raise cannot_write(path, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        self._lock.close()

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._writer is not None:
            with suppress(OSError):  # a full disk was reported by `append`; closing would only say it again
                self._writer.close()
            self._writer = None

    def stored(self, asked: Sequence[Question]) -> list[Judgment]:
        """Judgments that the file already has for these questions: as many of the first as there are.

        Raises:
            DataError: the file goes on with other questions: the texts, or their order, have changed since.
        """
        found: list[Judgment] = []
        while self._reader is not None and len(found) < len(asked):
            line = self._reader.readline()
            if not line.endswith(b"\n"):  # the end, or a line torn by a kill
                self._append_from_here()
                break
            self._number += 1
            where = f"{self._path}:{self._number}"
            judgment = from_line(Judgment, line.decode("utf-8", "replace").rstrip("\n"), where)
            question = asked[len(found)]
            if judgment.key != question.key or _comparison(judgment) != question.comparison:
                raise DataError(
                    f"{where}: this judgment is of {judgment.subject!r} against {judgment.against!r} with other texts "
                    f"than this run's next question ({question.comparison.subject!r} against "
                    f"{question.comparison.against!r}); the input has changed: name another file with --judgments, or "
                    "throw the judgments away with --restart"
                )
            if self._run.rungs:
                check_outcomes(where, judgment, OUTCOMES)
            else:
                check_outcomes(where, judgment, _OF_ONE_TEXT, all_of=False)
            self._good += len(line)
            found.append(judgment)
        self.reused += len(found)
        return found

    def finish(self) -> None:
        """Check that the file holds nothing that this run did not ask.

        Raises:
            DataError: it goes on with further judgments: the input has fewer rows than it had.
        """
        if self._reader is not None and self._reader.readline():
            raise DataError(
                f"{self._path}:{self._number + 1}: judgments go on after this run's last question; the input has "
                "become shorter: name another file with --judgments, or throw the judgments away with --restart"
            )

    def _append_from_here(self) -> None:
        if self._reader is None or self._path is None:
            return
        self._reader.close()
        self._reader = None
        if self._read_only:
            return
        try:
            self._writer = self._path.open("r+b")
            self._writer.truncate(self._good)
            self._writer.seek(self._good)
        except OSError as error:
            raise cannot_write(self._path, error) from error

    def append(self, judgments: Sequence[Judgment]) -> None:
        """Put new judgments at the end, safely on disk when this returns.

        Raises:
            DataError: the disk is full, or the file cannot be written; what was there before stays.
        """
        if self._writer is None or self._path is None or not judgments:
            return
        try:
            self._writer.write(b"".join(to_line(judgment) for judgment in judgments))
            self._writer.flush()
            if not is_device(self._path):  # /dev/null has no disk
                os.fsync(self._writer.fileno())
        except OSError as error:
            raise cannot_write(self._path, error) from error


def _comparison(judgment: Judgment) -> Comparison:
    return Comparison(
        context_id=judgment.context_id,
        dimension=judgment.dimension,
        subject=judgment.subject,
        against=judgment.against or "",
    )


def _difference(found: Run, wanted: Run) -> str:
    if found.recipe != wanted.recipe:
        return f"made by {found.recipe.signature}, this run is {wanted.recipe.signature}"
    if found.ladders != wanted.ladders:
        return f"against ladders {found.ladders}, this run's are {wanted.ladders}"
    if found.answers != wanted.answers:
        return f"of {found.answers} sampled answers a question, this run of {wanted.answers}"
    if found.orders != wanted.orders:
        return f"asked in {found.orders} order(s), this run in {wanted.orders}"
    return "of dimensions " + ", ".join(dimension.name for dimension in found.dimensions)
