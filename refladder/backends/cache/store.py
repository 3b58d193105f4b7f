"""The response store, and its file: answers of backends in one SQLite file, shared by any number of processes.

An answer is stored under a digest of everything that can change it (`cached` computes the digests). Two processes that
ask the same at the same moment both pay for it; the first answer stays.

The file is in WAL mode: a kill loses nothing that was stored, and a power cut at most the last moments, never the file.
WAL needs a local disk; a network file system will not do.
"""

from __future__ import annotations

import hashlib
import itertools
import sqlite3
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from refladder.errors import DataError, option
from refladder.files.locks import make_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

# PRAGMA user_version of the files that this code reads and writes.
SCHEMA = 2
# PRAGMA application_id, "refl": another program's database is never touched.
APPLICATION = 0x7265666C
# Seconds to wait for another process's transaction, which takes milliseconds.
WAIT = 60.0
DAMAGED = "damaged, or not a response store; move it away, and the next run makes a new one"
# Bytes of the smallest SQLite file.
LEAST = 512
# The pace of a backend: different seconds that are looked at, seconds without an answer that are a pause between runs,
# and the fewest answers and seconds that say something.
LATEST, PAUSE, FEWEST, LEAST_SECONDS = 600, 300, 20, 5
_UNWRITABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
# Keys in one statement (old builds of SQLite take 999), answers in one transaction.
CHUNK = 900

_ROWS = "SELECT key, CAST(answer AS BLOB), digest FROM answers"

T = TypeVar("T")

_TABLES = """
CREATE TABLE sources (
    id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL, kind TEXT NOT NULL, UNIQUE (fingerprint, kind)
);
CREATE TABLE answers (
    key BLOB PRIMARY KEY, source INTEGER NOT NULL, time INTEGER NOT NULL, answer TEXT NOT NULL, digest BLOB NOT NULL
) WITHOUT ROWID;
"""


def _check(key: bytes, answer: bytes) -> bytes:
    return hashlib.blake2b(answer, digest_size=4, key=key).digest()


def _chunks(values: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(values)
    while chunk := list(itertools.islice(rest, CHUNK)):
        yield chunk


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn the errors of SQLite into one sentence with a next step."""
    try:
        yield
    except UnicodeDecodeError as error:
        # A text in a damaged file, or in a message about it.
        raise DataError(f"{path}: {DAMAGED} ({error})") from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            advice = DAMAGED
        elif code == sqlite3.SQLITE_FULL:
            advice = "cannot be written, the disk is full; free space and run the same command again to resume"
        elif code in _UNWRITABLE:
            advice = "cannot be opened for writing, and a store writes beside its file too; choose another place"
        elif code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            advice = f"another process has held the response store for {WAIT:.0f} s; end it, then run again"
        else:
            advice = (
                "the response store failed; check the disk and run the same command again to resume"
            )
        raise DataError(f"{path}: {advice} ({error})") from error


class ResponseStore(Protocol):
    """An open response store. Keys are digests; an answer is the JSON text that `cached.dump` made."""

    def find(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the stored answers for these keys."""

    def add(self, fingerprint: str, kind: str, answers: Iterable[tuple[bytes, str]]) -> None:
        """Store answers of a backend; an answer that is already stored is kept."""

    def remove(self, keys: Sequence[bytes]) -> None:
        """Delete the answers for these keys."""

    def answer_seconds(self, fingerprint: str, kind: str) -> float | None:
        """Return the seconds that one of the latest answers of a backend took; None if they are not known."""

    def close(self) -> None:
        """End the use of the store."""


class SqliteStore:
    """A response store in a file, made if `create`; use it in a `with` block. Any fault of the file is a DataError."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        if not create and not path.is_file():
            raise DataError(
                f"{path}: no such response store; `refladder score --store FILE` makes one"
            )
        # SQLite would take it for an empty file of its own.
        if path.is_file() and 0 < path.stat().st_size < LEAST:
            raise DataError(f"{path}: {DAMAGED}")
        try:
            make_folder(path.parent)
        except OSError as error:
            raise DataError(
                f"{path}: its folder cannot be made ({error.strerror}); choose another place"
            ) from error
        with _explained(path):
            self._database = sqlite3.connect(path, timeout=WAIT, isolation_level=None)
            try:
                self._prepare()
            except BaseException:
                self._database.close()
                raise

    def _prepare(self) -> None:
        # Changing to WAL does not wait for other processes as everything else does, so two that make one file at the
        # same time take turns here.
        deadline = time.monotonic() + WAIT
        while True:
            try:
                if self._database.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                    # No other process creates it between the two checks.
                    with self._transaction("DEFERRED"):
                        self._refuse_others()
                    self._database.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                # SQLITE_PROTOCOL: too many processes open the file at once.
                passing = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL}
                if error.sqlite_errorcode & 0xFF not in passing or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        self._database.execute("PRAGMA synchronous = NORMAL")
        with self._transaction():
            if self._refuse_others():
                for statement in _TABLES.split(";")[:-1]:
                    self._database.execute(statement)
                self._database.execute(f"PRAGMA application_id = {APPLICATION}")
                self._database.execute(f"PRAGMA user_version = {SCHEMA}")

    def _refuse_others(self) -> bool:
        """Return whether the file is still empty; refuse a file of another program before anything is written."""
        version = self._database.execute("PRAGMA user_version").fetchone()[0]
        application = self._database.execute("PRAGMA application_id").fetchone()[0]
        if application == APPLICATION and version == SCHEMA:
            return False
        if application == APPLICATION:
            raise DataError(
                f"{self.path}: a response store of schema {version}, and this refladder reads schema {SCHEMA}; "
                f"delete the file, or name another with {option('store')}"
            )
        if (
            version
            or application
            or self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        ):
            name = option("store")
            raise DataError(
                f"{self.path}: an SQLite database of another program; name another file with {name}"
            )
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[None]:
        """Run a short transaction, which is written wholly or not at all; DEFERRED for one that only reads."""
        self._database.execute(f"BEGIN {kind}")
        try:
            yield
        except BaseException:
            # A full disk has rolled back already.
            with suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def find(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the stored answers for these keys, as JSON texts."""
        answers: dict[bytes, bytes] = {}
        with _explained(self.path):
            # Sorted as the table is, neighbours come from one page.
            for chunk in _chunks(sorted(set(keys))):
                answers.update(self._find(chunk))
        return answers

    def _find(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        marks = ",".join("?" * len(keys))
        for key, answer, digest in self._database.execute(f"{_ROWS} WHERE key IN ({marks})", keys):
            if _check(key, answer) != digest:
                raise self._damaged(key)
            yield key, answer

    def add(self, fingerprint: str, kind: str, answers: Iterable[tuple[bytes, str]]) -> None:
        """Store answers; an answer that is already stored is kept."""
        now = int(time.time())
        with _explained(self.path):
            for chunk in _chunks(answers):
                rows = []
                for key, text in chunk:
                    check = _check(key, text.encode())
                    rows.append((key, now, text, check, fingerprint, kind))
                with self._transaction():
                    self._database.execute(
                        "INSERT OR IGNORE INTO sources (fingerprint, kind) VALUES (?, ?)",
                        (fingerprint, kind),
                    )
                    self._database.executemany(
                        "INSERT OR IGNORE INTO answers SELECT ?, id, ?, ?, ? FROM sources "
                        "WHERE fingerprint = ? AND kind = ?",
                        rows,
                    )

    def remove(self, keys: Sequence[bytes]) -> None:
        """Delete the answers for these keys."""
        with _explained(self.path), self._transaction():
            self._database.executemany(
                "DELETE FROM answers WHERE key = ?", [(key,) for key in keys]
            )

    def answer_seconds(self, fingerprint: str, kind: str) -> float | None:
        """Return the seconds that one of the latest answers took, without pauses; None if too few are stored."""
        with _explained(self.path):
            times = self._database.execute(
                "SELECT time, count(*) FROM answers WHERE source = (SELECT id FROM sources WHERE "
                "fingerprint = ? AND kind = ?) GROUP BY time ORDER BY time DESC LIMIT ?",
                (fingerprint, kind, LATEST),
            ).fetchall()
        seconds = answers = 0
        for (later, count), (earlier, _) in itertools.pairwise(times):
            if later - earlier < PAUSE:
                seconds += later - earlier
                answers += count
        return seconds / answers if answers >= FEWEST and seconds >= LEAST_SECONDS else None

    def count(self) -> int:
        """Return the number of answers."""
        with _explained(self.path):
            return int(self._database.execute("SELECT count(*) FROM answers").fetchone()[0])

    def size(self) -> int:
        """Return the bytes on disk, with the files that SQLite keeps until the store is closed."""
        files = [
            self.path,
            *(self.path.with_name(self.path.name + ending) for ending in ("-wal", "-shm")),
        ]
        return sum(file.stat().st_size for file in files if file.exists())

    def clear(self) -> int:
        """Delete all answers and free their space; returns how many there were."""
        with _explained(self.path):
            with self._transaction():
                deleted = self._database.execute("DELETE FROM answers").rowcount
                self._database.execute("DELETE FROM sources")
            self._database.execute("VACUUM")
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return deleted

    def _damaged(self, key: bytes) -> DataError:
        return DataError(
            f"{self.path}: the answer {key.hex()} is damaged; empty the store with `refladder store clear`, or "
            "move the file away: the answers are then asked again"
        )
