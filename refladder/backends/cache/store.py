"""The response store: answers of backends in one SQLite file, shared by any number of processes.

An answer is stored under a digest of everything that can change it (`cached` computes the digests). The file also
holds claims: which process is asking what, so that two processes do not pay for one answer twice. A claim ends with
its answer, with its holder, or when its holder has not been seen for STALE seconds.

The file is in WAL mode: a kill loses nothing that was stored, and a power cut at most the last moments, never the file.
WAL needs a local disk; a network file system will not do.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import socket
import sqlite3
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from refladder.errors import DataError, UnknownNameError, option
from refladder.files.locks import has_ended

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

SCHEMA = 1  # PRAGMA user_version of the files that this code reads and writes
APPLICATION = 0x7265666C  # PRAGMA application_id, "refl": another program's database is never touched
WAIT = 60.0  # seconds to wait for another process's transaction, which takes milliseconds
SEEN_EVERY = 10.0  # seconds between two signs of life of a process that holds claims
STALE = 60.0  # seconds without a sign of life, after which other processes may take its claims
DAMAGED = "damaged, or not a response store; move it away, and the next run makes a new one"
LEAST = 512  # bytes of the smallest SQLite file
_UNWRITABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
CHUNK = 900  # keys in one statement (old builds of SQLite take 999), answers in one transaction

_ROWS = "SELECT key, CAST(answer AS BLOB), digest FROM answers"

T = TypeVar("T")

_TABLES = """
CREATE TABLE sources (
    id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL, kind TEXT NOT NULL, UNIQUE (fingerprint, kind)
);
CREATE TABLE answers (
    key BLOB PRIMARY KEY, source INTEGER NOT NULL, time INTEGER NOT NULL, answer TEXT NOT NULL, digest BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE holders (id INTEGER PRIMARY KEY, host TEXT NOT NULL, process INTEGER NOT NULL, seen REAL NOT NULL);
CREATE TABLE claims (key BLOB PRIMARY KEY, holder INTEGER NOT NULL) WITHOUT ROWID;
"""


class Answer(NamedTuple):
    """One row: digest of the question, who answered, `write` or `labels`, seconds since 1970, the answer as JSON."""

    key: bytes
    fingerprint: str
    kind: str
    time: int
    answer: bytes


class Holding(NamedTuple):
    """What the store holds of one backend and kind; times in seconds since 1970."""

    fingerprint: str
    kind: str
    answers: int
    first: int
    last: int


def _check(key: bytes, answer: bytes) -> bytes:
    return hashlib.blake2b(answer, digest_size=4, key=key).digest()


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=WAIT, isolation_level=None)


def _is_writable(path: Path) -> bool:
    """Whether this process may write a file and others beside it, as SQLite does."""
    effective = os.access in os.supports_effective_ids
    return all(os.access(file, os.W_OK, effective_ids=effective) for file in (path, path.parent))


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a file that cannot be written, or whose folder cannot."""
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=WAIT, isolation_level=None)
        try:
            database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            database.close()
            if error.sqlite_errorcode & 0xFF not in _UNWRITABLE:
                raise
            raise DataError(
                f"{path}: its log {log.name} cannot be read in a folder that cannot be written; copy both files "
                "together to another folder, and name the copy"
            ) from error
        return database
    # Without a log no process is writing: SQLite need not make the files by which processes see each other.
    return sqlite3.connect(f"{path.resolve().as_uri()}?immutable=1", uri=True, isolation_level=None)


def _keep_alive(path: Path, holder: int, stop: threading.Event) -> None:
    """Show every few seconds that a holder of claims is alive, until `stop` is set."""
    with (
        suppress(sqlite3.Error),
        closing(_connect(path)) as database,
    ):  # without these signs other processes may take the claims
        while not stop.wait(SEEN_EVERY):
            database.execute("UPDATE holders SET seen = ? WHERE id = ?", (time.time(), holder))


def _chunks(values: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(values)
    while chunk := list(itertools.islice(rest, CHUNK)):
        yield chunk


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn the errors of SQLite into one sentence with a next step."""
    try:
        yield
    except UnicodeDecodeError as error:  # a text in a damaged file, or in a message about it
        raise DataError(f"{path}: {DAMAGED} ({error})") from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            advice = DAMAGED
        elif code == sqlite3.SQLITE_FULL:
            advice = "cannot be written, the disk is full; free space and run the same command again: it goes on"
        elif code in _UNWRITABLE:
            advice = "cannot be opened for writing, and a store writes beside its file too; choose another place"
        elif code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            advice = f"another process has held the response store for {WAIT:.0f} s; end it, then run again"
        else:
            advice = "the response store failed; check the disk and run the same command again: it goes on"
        raise DataError(f"{path}: {advice} ({error})") from error


class ResponseStore:
    """An open response store, made if `create`; use it in a `with`. Whatever is wrong with the file is a DataError."""

    def __init__(self, path: Path, *, create: bool = True, read_only: bool = False) -> None:
        self.path = path
        if not create and not path.is_file():
            raise DataError(f"{path}: no such response store; `refladder score --store FILE` makes one")
        if path.is_file() and 0 < path.stat().st_size < LEAST:  # SQLite would take it for an empty file of its own
            raise DataError(f"{path}: {DAMAGED}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"{path}: its folder cannot be made ({error.strerror}); choose another place") from error
        self._holder: int | None = None
        self._stop = threading.Event()
        self._signs: threading.Thread | None = None
        with _explained(path):
            reads = read_only and not _is_writable(path)
            self._database = _connect_to_read(path) if reads else _connect(path)
            try:
                if not reads:
                    self._prepare()
                elif self._refuse_others():
                    raise DataError(f"{path}: an empty response store that cannot be written; name another")  # noqa: TRY301
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
                    with self._transaction("DEFERRED"):  # no other process creates it between the two checks
                        self._refuse_others()
                    self._database.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                passing = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL}  # the latter: too many open it at once
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
        """Whether the file is still empty; a file that is not ours is refused before anything is written."""
        version = self._database.execute("PRAGMA user_version").fetchone()[0]
        application = self._database.execute("PRAGMA application_id").fetchone()[0]
        if application == APPLICATION and version == SCHEMA:
            return False
        if application == APPLICATION:
            raise DataError(
                f"{self.path}: a response store of schema {version}, and this refladder reads schema {SCHEMA}; "
                f"name another file with {option('store')}, or use the refladder that wrote it"
            )
        if version or application or self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            name = option("store")
            raise DataError(f"{self.path}: an SQLite database of another program; name another file with {name}")
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up all claims and close the file."""
        self._stop.set()
        if self._signs is not None:
            self._signs.join()  # SQLite removes its log with the last connection
            with suppress(sqlite3.Error), self._transaction():  # a claim left behind ends with this process anyway
                self._database.execute("DELETE FROM claims WHERE holder = ?", (self._holder,))
                self._database.execute("DELETE FROM holders WHERE id = ?", (self._holder,))
        self._database.close()

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[None]:
        """A short transaction, of which all or nothing is written; DEFERRED for one that only reads."""
        self._database.execute(f"BEGIN {kind}")
        try:
            yield
        except BaseException:
            with suppress(sqlite3.Error):  # a full disk has rolled back already
                self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def find(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The answers that are stored for these keys, as JSON texts."""
        answers: dict[bytes, bytes] = {}
        with _explained(self.path):
            for chunk in _chunks(sorted(set(keys))):  # as the table is, so that neighbours come from one page
                answers.update(self._find(chunk))
        return answers

    def _find(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        for key, answer, digest in self._database.execute(f"{_ROWS} WHERE key IN ({_marks(keys)})", keys):
            if _check(key, answer) != digest:
                raise self._damaged(key)
            yield key, answer

    def claim(self, keys: Sequence[bytes]) -> tuple[dict[bytes, bytes], list[bytes]]:
        """Claim answers to ask for: those that have come meanwhile, and the keys that are this process's to ask."""
        answers: dict[bytes, bytes] = {}
        mine: list[bytes] = []
        with _explained(self.path):
            for chunk in _chunks(keys):
                with self._transaction():
                    answers.update(self._find(chunk))
                    holder = self._hold()
                    query = f"SELECT key, holder FROM claims WHERE key IN ({_marks(chunk)})"  # noqa: S608
                    taken: dict[bytes, int] = dict(self._database.execute(query, chunk).fetchall())
                    free = {holder, *self._gone(set(taken.values()) - {holder})}
                    free_keys = [key for key in chunk if key not in answers and taken.get(key, holder) in free]
                    rows = [(key, holder) for key in free_keys]
                    self._database.executemany("INSERT OR REPLACE INTO claims VALUES (?, ?)", rows)
                mine += free_keys
        return answers, mine

    def _hold(self) -> int:
        """This process's number among the holders of claims; the first call starts its signs of life."""
        if self._holder is None:
            row = (socket.gethostname(), os.getpid(), time.time())
            self._database.execute("DELETE FROM holders WHERE seen < ?", (time.time() - STALE,))
            self._database.execute("DELETE FROM claims WHERE holder NOT IN (SELECT id FROM holders)")
            self._database.execute("INSERT INTO holders (host, process, seen) VALUES (?, ?, ?)", row)
            self._holder = int(self._database.execute("SELECT last_insert_rowid()").fetchone()[0])
            arguments = (self.path, self._holder, self._stop)
            self._signs = threading.Thread(target=_keep_alive, args=arguments, daemon=True)
            self._signs.start()
        return self._holder

    def _gone(self, others: set[int]) -> set[int]:
        """Those of other holders that have ended or fallen silent."""
        host = socket.gethostname()
        alive = {
            number
            for number, where, process, seen in self._database.execute("SELECT id, host, process, seen FROM holders")
            if seen > time.time() - STALE and not (where == host and has_ended(process))
        }
        return others - alive

    def add(self, fingerprint: str, kind: str, answers: Iterable[tuple[bytes, str]]) -> None:
        """Store answers and end their claims; an answer that is there already stays as it is."""
        now = int(time.time())
        self.insert(Answer(key, fingerprint, kind, now, answer.encode()) for key, answer in answers)

    def insert(self, answers: Iterable[Answer]) -> int:
        """Store answers with their times, as `add`; returns how many were new."""
        new = 0
        with _explained(self.path):
            for chunk in _chunks(answers):
                sources = {(answer.fingerprint, answer.kind) for answer in chunk}
                rows = [
                    (key, stored_at, text.decode(), _check(key, text), fingerprint, kind)
                    for key, fingerprint, kind, stored_at, text in chunk
                ]
                with self._transaction():
                    self._database.executemany(
                        "INSERT OR IGNORE INTO sources (fingerprint, kind) VALUES (?, ?)", sources
                    )
                    new += self._database.executemany(
                        "INSERT OR IGNORE INTO answers SELECT ?, id, ?, ?, ? FROM sources "
                        "WHERE fingerprint = ? AND kind = ?",
                        rows,
                    ).rowcount
                    self._end_claims(answer.key for answer in chunk)
        return new

    def release(self, keys: Sequence[bytes]) -> None:
        """End this process's claims on answers that did not come."""
        with _explained(self.path), self._transaction():
            self._end_claims(keys)

    def _end_claims(self, keys: Iterable[bytes]) -> None:
        if self._holder is not None:
            rows = [(key, self._holder) for key in keys]
            self._database.executemany("DELETE FROM claims WHERE key = ? AND holder = ?", rows)

    def holdings(self) -> list[Holding]:
        """What is stored, by backend and kind."""
        with _explained(self.path):
            rows = self._database.execute(
                "SELECT fingerprint, kind, count(*), min(time), max(time) FROM answers "
                "JOIN sources ON sources.id = source GROUP BY source ORDER BY fingerprint, kind"
            ).fetchall()
        return [Holding(*row) for row in rows]

    def size(self) -> int:
        """Bytes on disk, with what SQLite keeps beside the file until it is closed."""
        files = [self.path, *(self.path.with_name(self.path.name + ending) for ending in ("-wal", "-shm"))]
        return sum(file.stat().st_size for file in files if file.exists())

    def each(self) -> Iterator[Answer]:
        """Every answer, in the order of the keys."""
        with _explained(self.path):
            for *fields, digest in self._database.execute(
                "SELECT key, fingerprint, kind, time, CAST(answer AS BLOB), digest FROM answers "
                "JOIN sources ON sources.id = source ORDER BY key"
            ):
                answer = Answer(*fields)
                if _check(answer.key, answer.answer) != digest:
                    raise self._damaged(answer.key)
                yield answer

    def verify(self, *, remove: bool = False) -> tuple[int, list[bytes]]:
        """The number of answers and the keys of damaged ones, which `remove` deletes, so that they are asked again."""
        with _explained(self.path):
            problems = [row[0] for row in self._database.execute("PRAGMA integrity_check(3)")]
            if problems != ["ok"]:
                raise DataError(f"{self.path}: {DAMAGED} ({'; '.join(problems)})")
            count = 0
            damaged = []
            for key, answer, digest in self._database.execute(_ROWS):
                count += 1
                if _check(key, answer) != digest:
                    damaged.append(key)
            if remove and damaged:
                with self._transaction():
                    self._database.executemany("DELETE FROM answers WHERE key = ?", [(key,) for key in damaged])
        return count, damaged

    def prune(self, *, fingerprints: Sequence[str] = (), before: int | None = None) -> int:
        """Delete answers (of these backends, `before` in seconds since 1970) and free their space; returns how many."""
        fingerprints_stored = {holding.fingerprint for holding in self.holdings()}
        for name in fingerprints:
            if name not in fingerprints_stored:
                raise UnknownNameError(f"backend in {self.path}", name, fingerprints_stored)
        chosen = list(fingerprints) or list(fingerprints_stored)
        with _explained(self.path):
            with self._transaction():
                deleted = self._database.execute(
                    f"DELETE FROM answers WHERE time < ? AND source IN "  # noqa: S608
                    f"(SELECT id FROM sources WHERE fingerprint IN ({_marks(chosen)}))",
                    (2**62 if before is None else before, *chosen),
                ).rowcount
            self._database.execute("VACUUM")
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return deleted

    def _damaged(self, key: bytes) -> DataError:
        return DataError(
            f"{self.path}: the answer {key.hex()} is damaged; `refladder store verify --remove` removes such answers, "
            "so that they are asked again"
        )


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))
