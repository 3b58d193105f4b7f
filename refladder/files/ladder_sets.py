"""Ladder sets: folders with ladders, contexts and dimensions, shipped with refladder or built by a user.

SET/
  dimensions.jsonl   what the ladders are about
  contexts.jsonl     their contexts (absent from a set whose texts may not be redistributed)
  context_digests.jsonl  a digest of each context's text
  ladders.jsonl      one Ladder a line
  failures.jsonl     ladders that failed, if any
  set.json           whether the set is shared, its anchors, the seed that drew them, further tasks that the set serves,
                     its licence, version and language (may be absent from a set that is not shared)
  revisions.jsonl    earlier revisions, to which `refladder build --add` added ladders, if it did
  run.json           the resolved configuration of `refladder build`
  certificate.json   what `refladder certify` found, if it was run
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from refladder.errors import DataError, UnknownNameError, UsageError, plural
from refladder.files import hub
from refladder.files.certificate import CERTIFICATE, Certificate, read_certificate
from refladder.files.jsonl import (
    LOG,
    atomic,
    check_name,
    read_bytes,
    read_record,
    read_records,
    throw_away,
    to_line,
    write_records,
)
from refladder.files.release import (
    MANIFEST,
    OF_A_SET,
    Parts,
    ladders_of_rows,
    read_release,
    record_of,
)
from refladder.files.tables import Row, read_rows
from refladder.records import (
    Context,
    ContextDigest,
    Dimension,
    Ladder,
    LadderFailure,
    Revision,
    Shared,
    by_id,
    by_name,
    names_of,
)
from refladder.signatures import RENAMED
from refladder.typed import checked

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, KeysView, Mapping, Sequence

T = TypeVar("T")
Cell = TypeVar("Cell", Ladder, LadderFailure)

SET = "set.json"
REVISIONS = "revisions.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderSet:
    """Ladders by (context id, dimension name), with their contexts and dimensions.

    `contexts` is empty where the texts may not be redistributed. `digests` has the `text_id` of each context by id, so
    that texts from elsewhere can be checked; it is empty only where the set has neither texts nor digests.
    `certificate` is what `refladder certify` wrote for exactly these ladders; None for a set without one. `anchors`
    are the contexts of a shared set, whose ladders every text is compared with, whatever its context; empty for other
    sets. The first `scoring` anchors score texts, None for all. A shared set may serve further tasks (`serves`) than that
    of its ladders, `replaced_by` names a newer set, and `language` is that of its texts (ISO 639-1). `earlier` are the
    revisions of the set before ladders for more contexts were added, oldest first. A set of criteria has a task and
    dimensions, and no ladders.
    """

    name: str
    digest: str
    rungs: int
    dimensions: tuple[Dimension, ...]
    contexts: Mapping[str, Context]
    ladders: Mapping[tuple[str, str], Ladder]
    failures: Mapping[tuple[str, str], LadderFailure]
    digests: Mapping[str, str] = field(default_factory=dict)
    certificate: Certificate | None = None
    anchors: tuple[str, ...] = ()
    serves: tuple[str, ...] = ()
    earlier: tuple[Revision, ...] = ()
    scoring: int | None = None
    replaced_by: str | None = None
    language: str | None = None
    task_without_ladders: str = ""

    def __repr__(self) -> str:
        """Return one line: what the set is, and how much it holds."""
        names = ", ".join(names_of(self.dimensions))
        noun = "shared anchor" if self.anchors else "context"
        parts = [
            f"{plural(len(self.ladders), 'ladder')} of {self.rungs} rungs",
            plural(len(self.context_ids), noun),
            f"{self.task}: {names}",
        ]
        if self.failures:
            parts.append(plural(len(self.failures), "failed ladder"))
        return f"<LadderSet {self.signature} ({'; '.join(parts)})>"

    def _repr_html_(self) -> str:
        """Return the line for a notebook."""
        return f"<p>{escape(repr(self))}</p>"

    @property
    def signature(self) -> str:
        """Return the set as signatures name it: name, digest, digests of earlier revisions and of the certificate."""
        text = f"{self.name}@{self.digest}"
        if self.earlier:
            text += f"|earlier:{','.join(each.digest for each in self.earlier)}"
        if self.certificate is not None:
            text += f"|certificate:{self.certificate.digest}"
        return text

    @property
    def context_ids(self) -> KeysView[str]:
        """Return the ids of the contexts with ladders, in order."""
        return dict.fromkeys(context_id for context_id, _ in self.ladders).keys()

    @property
    def scoring_anchors(self) -> tuple[str, ...]:
        """Return the anchors that score texts."""
        return self.anchors[: self.scoring]

    @property
    def serves_any_context(self) -> bool:
        """Return whether rows need no context of the set."""
        return bool(self.anchors) or not self.ladders

    @property
    def scale(self) -> str:
        """Return the set as signatures of scores name it: the `signature`, and the anchors if some do not score."""
        if self.scoring_anchors == self.anchors:
            return self.signature
        return f"{self.signature}|anchors:{','.join(self.scoring_anchors)}"

    @property
    def role(self) -> str:
        """Return the role of the prompt that compares a text with a rung."""
        return "compare-shared" if self.anchors else "compare"

    @property
    def task(self) -> str:
        """Return the task of every ladder in the set, or the task of a set of criteria."""
        return next((ladder.task for ladder in self.ladders.values()), self.task_without_ladders)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Return the tasks whose texts the set is for."""
        return tuple(dict.fromkeys((self.task, *self.serves)))


def _root() -> Path:
    package = Path(__file__).parents[1]
    # A wheel has the sets inside the package, a checkout beside it.
    installed = package / "published_data"
    return installed if installed.is_dir() else package.parent / "published_data"


@cache
def published_names() -> tuple[str, ...]:
    """Return the names of the shipped ladder sets, such as `demo/story`."""
    root = _root()
    paths = root.glob("**/ladders.jsonl")
    return tuple(sorted(path.parent.relative_to(root).as_posix() for path in paths))


def rated_names() -> list[str]:
    """Return the names of the shipped sets that are benchmarks too, with outputs and ratings."""
    return [name for name in published_names() if (_root() / name / "ratings.jsonl").is_file()]


def _name_of_today(name: str) -> str:
    """Return the name of a shipped set that had another one, and the same name for other sets."""
    return name if Path(name).is_dir() else RENAMED.get(name, name)


@cache
def _tell(name: str, today: str) -> None:
    LOG.warning("%s is called %s now, and is the same set", name, today)


def find_folder(name: str) -> Path:
    """Return the folder of a ladder set: a shipped name, or a path."""
    name = _name_of_today(name)
    if name in published_names():
        return _root() / name
    path = Path(name)
    if path.is_file():
        folder = f", {path.parent}" if _is_of_a_set(path) else ""
        raise UsageError(f"{name}: a file, and a ladder set is a folder; name the folder{folder}")
    if not path.is_dir():
        raise UnknownNameError("ladder set or folder", name, published_names())
    return path


def _is_of_a_set(path: Path) -> bool:
    return path.name == "ladders.jsonl" and (path.parent / "dimensions.jsonl").is_file()


def new_digest() -> hashlib.blake2b:
    """Return an empty digest of ladders, to which the line of each is added."""
    return hashlib.blake2b(digest_size=6)


def ladder_set(
    name: str,
    dimensions: Sequence[Dimension],
    contexts: Iterable[Context],
    ladders: Iterable[Ladder],
    failures: Iterable[LadderFailure] = (),
    *,
    digests: Iterable[tuple[str, str]] = (),
    anchors: Sequence[str] = (),
    earlier: Sequence[Revision] = (),
) -> LadderSet:
    """Combine ladders into a set and check that they form one scale; a set with `anchors` is shared."""
    by_context: dict[str, Context] = {}
    for context in contexts:
        if by_context.setdefault(context.id, context) is not context:
            raise UsageError(f"{name}: context {context.id!r} appears twice; remove one")
    by_id = {context.id: context.digest for context in by_context.values()}
    for context_id, digest in digests:
        if by_id.setdefault(context_id, digest) != digest:
            raise UsageError(
                f"{name}: the text or background of context {context_id!r} is not the one that the ladders were "
                "written for (context_digests.jsonl); restore contexts.jsonl, or build the ladders again"
            )
    checks = Checks(name, dimensions, {context.id: context.task for context in by_context.values()})
    by_key = _by_cell(checks.passed(ladders, earlier))
    if anchors:
        _check_anchors(name, anchors, by_key, by_context)
    return LadderSet(
        name=name,
        digest=checks.digest,
        rungs=checks.rungs,
        dimensions=tuple(dimensions),
        contexts=by_context,
        ladders=by_key,
        failures=_by_cell(failures),
        digests=by_id,
        anchors=tuple(anchors),
        earlier=tuple(each for each in earlier if each.ladders < checks.count),
    )


def criteria_set(
    name: str, task: str, dimensions: Sequence[Dimension], contexts: Iterable[Context] = ()
) -> LadderSet:
    """Return a set of criteria without ladders, for modes that rate texts."""
    check_name(name, "signatures")
    state = new_digest()
    for each in dimensions:
        state.update(to_line(each))
    return LadderSet(
        name=f"criteria:{name}",
        digest=state.hexdigest(),
        rungs=0,
        dimensions=tuple(dimensions),
        contexts=by_id(contexts),
        ladders={},
        failures={},
        task_without_ladders=task,
    )


def _by_cell(records: Iterable[Cell]) -> dict[tuple[str, str], Cell]:
    """Return ladders or failures by context and dimension."""
    return {(each.context_id, each.dimension): each for each in records}


def _check_anchors(
    name: str,
    anchors: Sequence[str],
    ladders: Mapping[tuple[str, str], Ladder],
    contexts: Mapping[str, Context],
) -> None:
    """Check that a shared set has every ladder of every anchor, the anchors' contexts, and nothing else."""
    dimensions = dict.fromkeys(dimension for _, dimension in ladders)
    cells = set(itertools.product(anchors, dimensions))
    for anchor, dimension in sorted(cells ^ ladders.keys()):
        what = "has no" if anchor in anchors else "is not an anchor, and has a"
        raise UsageError(
            f"{name}: {anchor!r} {what} {dimension} ladder; a shared set has the ladders of its anchors ({SET}) on "
            "every dimension, so build it again"
        )
    for anchor in anchors:
        if anchor not in contexts:
            raise UsageError(
                f"{name}: no text of anchor {anchor!r}, which the judge has to see beside its rungs; add the contexts "
                "of the set"
            )


def of_whole_anchors(ladders: Iterable[Ladder], dimensions: Sequence[Dimension]) -> list[Ladder]:
    """Return the ladders of contexts that have one on every dimension, as anchors of a shared set need."""
    ladders = list(ladders)
    counts = Counter(ladder.context_id for ladder in ladders)
    return [ladder for ladder in ladders if counts[ladder.context_id] == len(dimensions)]


class Checks:
    """Check that ladders, given one after another, form one scale; only their ids and digest are kept."""

    def __init__(
        self, name: str, dimensions: Sequence[Dimension], tasks: Mapping[str, str]
    ) -> None:
        for number, dimension in enumerate(dimensions):
            if dimension.name in names_of(dimensions[:number]):
                raise UsageError(f"{name}: dimension {dimension.name!r} appears twice; remove one")
            if dimension.low >= dimension.high:
                raise UsageError(
                    f"{name}: the scale of {dimension.name!r} goes from {dimension.low:g} to {dimension.high:g}; "
                    "low must be less than high"
                )
        self.task = ""
        self.rungs = 0
        # The number of ladders that were checked so far.
        self.count = 0
        self._name, self._tasks = name, tasks
        self._dimensions = set(names_of(dimensions))
        self._seen: set[tuple[str, str]] = set()
        self._state = new_digest()

    @property
    def digest(self) -> str:
        """Return twelve hexadecimal digits of the exact texts of the ladders so far, in their order."""
        return self._state.hexdigest()

    def passed(
        self, ladders: Iterable[Ladder], earlier: Sequence[Revision] = ()
    ) -> Iterator[Ladder]:
        """Yield the ladders, each checked; there must be at least one, and they must begin with the ladders of `earlier`."""
        expected = {each.ladders: each.digest for each in earlier}
        for ladder in ladders:
            self._check(ladder)
            yield ladder
            if self.count in expected and expected.pop(self.count) != self.digest:
                raise self._other_revision(self.count)
        for count in expected:
            raise self._other_revision(count)
        if not self._seen:
            raise UsageError(f"{self._name}: no ladders in it; build some with `refladder build`")

    def _other_revision(self, count: int) -> UsageError:
        return UsageError(
            f"{self._name}: the first {plural(count, 'ladder')} are not those of the earlier revision in {REVISIONS}; "
            f"restore the set, or delete {REVISIONS}: thresholds and links of earlier revisions then no longer hold"
        )

    def _check(self, ladder: Ladder) -> None:
        label = f"{self._name}: the {ladder.dimension} ladder of context {ladder.context_id!r}"
        key = ladder.context_id, ladder.dimension
        if key in self._seen:
            raise UsageError(f"{label} appears twice; remove one")
        if ladder.dimension not in self._dimensions:
            raise UsageError(
                f"{label} has a dimension that is not in dimensions.jsonl; add it, or remove the ladder"
            )
        if self._tasks and (task := self._tasks.get(ladder.context_id)) != ladder.task:
            if task is None:
                raise UsageError(
                    f"{label} has a context that is not in contexts.jsonl; add it, or remove the ladder"
                )
            raise UsageError(
                f"{label} has task {ladder.task!r}, its context {task!r}; correct one of them"
            )
        levels = [rung.level for rung in ladder.rungs]
        if not levels or levels != list(range(1, len(levels) + 1)):
            raise UsageError(f"{label} has levels {levels}; they must be 1, 2, ..., N")
        if not self._seen:
            self.task, self.rungs = ladder.task, len(levels)
        if ladder.task != self.task:
            raise UsageError(
                f"{label} has task {ladder.task!r}, the first ladder {self.task!r}; a set must have one task"
            )
        if len(levels) != self.rungs:
            raise UsageError(
                f"{label} has {len(levels)} rungs, the first ladder {self.rungs}; a set must have one number of rungs"
            )
        self._seen.add(key)
        self.count += 1
        self._state.update(to_line(ladder))


def as_ladder_set(named: str | Path | T) -> LadderSet | T:
    """Return the ladder set of a name, an address or a path; anything else is returned as it is."""
    return load_ladders(named) if isinstance(named, str | Path) else named


@checked
def load_ladders(name: str | Path, *, certified: bool = True) -> LadderSet:
    """Open a ladder set: a shipped one by name, a published one by its address, or one in a folder or a file.

    Args:
        name: one of `published_names`; `hub:ORG/NAME@REVISION`; the path of a folder that `write_ladder_set` or
            `refladder publish` wrote; or a table (JSON lines, Parquet) of the rows of a published set.
        certified: read the set's certificate too; False ignores it, for the command that replaces it.

    Raises:
        UnknownNameError: no such set and no such folder.
        DataError: with path:line, a file is missing, a line does not follow its schema, or the certificate is of other
            ladders; or a published set cannot be downloaded, see `refladder.files.hub.fetch`.
        UsageError: the ladders do not form one scale.
    """
    name = str(name)
    if not name.startswith(hub.PREFIX) and name not in published_names() and Path(name).is_file():
        if _is_of_a_set(Path(name)):
            # This raises the error that names the folder of the file.
            find_folder(name)
        rows = read_rows(name)
        if "rungs" not in (rows.columns() or ["rungs"]):
            raise DataError(
                f"{name}: a table without ladders; name a shipped set, such as general/reply, or the folder of "
                "`refladder build`"
            )
        check_name(Path(name).name, "signatures")
        return ladder_set_of_rows(rows, name=Path(name).name)
    parts = open_parts(name)
    opened = ladder_set(
        name,
        parts.dimensions,
        parts.contexts,
        # Reading the ladders fills the digests.
        list(parts.ladders),
        parts.failures,
        digests=parts.context_digests.items(),
        anchors=() if parts.shared is None else parts.shared.anchors,
        earlier=parts.earlier,
    )
    certificate = certificate_of(name, parts, opened.digest) if certified else None
    opened = replace(opened, name=parts.name, certificate=certificate)
    if parts.shared is None:
        return opened
    shared = parts.shared
    return replace(
        opened,
        serves=shared.serves,
        scoring=shared.scoring,
        replaced_by=shared.replaced_by,
        language=shared.language,
    )


def certificate_of(name: str, parts: Parts, ladders: str) -> Certificate | None:
    """Read the certificate of the ladders with a digest, from the folder of the set or from its release."""
    if not name.startswith(hub.PREFIX):
        path = find_folder(name) / CERTIFICATE
        if path.is_file():
            return read_certificate(read_bytes(path), str(path), ladders)
    if parts.certificate is None:
        return None
    return read_certificate(parts.certificate, f"{name}: {CERTIFICATE}", ladders)


def open_parts(name: str) -> Parts:
    """Open the records of a ladder set; they are read as they are iterated, so memory does not grow with the set."""
    if name.startswith(hub.PREFIX):
        snapshot = hub.fetch(name, tuple(OF_A_SET))
        return read_release(snapshot.folder, str(snapshot.address), snapshot.manifest)
    folder = find_folder(name)
    if (today := _name_of_today(name)) != name:
        _tell(name, today)
        name = today
    # The name of the folder is enough, as the digest is part of signatures; it does not depend on the parent folder.
    label = name if name in published_names() else folder.resolve().name
    check_name(label, "signatures")
    if (folder / MANIFEST).is_file():
        return replace(read_release(folder, name), name=label)
    if not (folder / "ladders.jsonl").is_file():
        raise DataError(
            f"{folder / 'ladders.jsonl'}: no such file; build a ladder set with `refladder build`"
        )
    digests = _read_if_any(ContextDigest, folder / "context_digests.jsonl")
    return Parts(
        name=label,
        dimensions=tuple(read_records(Dimension, folder / "dimensions.jsonl")),
        contexts=_read_if_any(Context, folder / "contexts.jsonl"),
        ladders=read_records(Ladder, folder / "ladders.jsonl"),
        failures=_read_if_any(LadderFailure, folder / "failures.jsonl"),
        context_digests={each.context_id: each.digest for each in digests},
        shared=read_record(Shared, folder / SET) if (folder / SET).is_file() else None,
        earlier=tuple(_read_if_any(Revision, folder / REVISIONS)),
    )


def _read_if_any(kind: type[T], path: Path) -> Iterator[T]:
    return read_records(kind, path) if path.is_file() else iter(())


@checked
def ladder_set_of_rows(
    rows: Iterable[Row | Mapping[str, Any]],
    contexts: Iterable[Mapping[str, Any]] = (),
    *,
    name: str = "rows",
) -> LadderSet:
    """Make a ladder set from the rows of a published one, as `datasets.load_dataset("ORG/NAME", "ladders")` gives them.

    Args:
        rows: of the config `ladders`; other columns are ignored.
        contexts: of the config `contexts`; without them the texts come from the table that is scored.
        name: name of the set in signatures.

    Raises:
        DataError: a row does not follow its schema.
        UsageError: the ladders do not form one scale.
    """
    dimensions: dict[str, Dimension] = {}
    digests: dict[str, str] = {}
    anchors: list[str] = []
    ladders = list(ladders_of_rows(_located(rows, name), dimensions, digests, anchors))
    texts = (record_of(Context, row) for row in _located(contexts, f"{name} contexts"))
    return ladder_set(
        name,
        list(dimensions.values()),
        texts,
        ladders,
        digests=digests.items(),
        anchors=list(dict.fromkeys(anchors)),
    )


def _located(rows: Iterable[Row | Mapping[str, Any]], name: str) -> Iterable[Row]:
    for number, row in enumerate(rows, start=1):
        yield row if isinstance(row, Row) else Row(f"{name}:{number}", dict(row))


@checked
def write_ladder_set(
    folder: Path,
    dimensions: Sequence[Dimension],
    contexts: Sequence[Context],
    ladders: Sequence[Ladder],
    failures: Sequence[LadderFailure],
    *,
    shared: Shared | None = None,
) -> None:
    """Write a ladder set; each file appears complete or not at all. A certificate of other ladders is removed.

    Args:
        folder: output folder, created if necessary.
        dimensions: dimensions of the ladders.
        contexts: contexts of the ladders.
        ladders: from `refladder.synth.build_ladders`.
        failures: from `refladder.synth.build_ladders`.
        shared: for a shared set, its anchors.

    Raises:
        DataError: the folder cannot be written.
    """
    before = folder / "ladders.jsonl"
    if not before.is_file() or before.read_bytes() != b"".join(map(to_line, ladders)):
        throw_away(folder / CERTIFICATE)
    write_records(folder / "dimensions.jsonl", dimensions)
    _write_contexts(folder, contexts, {each.id: each.digest for each in contexts})
    write_records(folder / "ladders.jsonl", ladders)
    _write_if_any(folder / "failures.jsonl", failures)
    if shared is None:
        throw_away(folder / SET)
        return
    keys = {name: value for name, value in json.loads(to_line(shared)).items() if value is not None}
    with atomic(folder / SET) as stream:
        stream.write(json.dumps(keys, separators=(",", ":")).encode() + b"\n")


def _write_if_any(path: Path, records: Collection[object]) -> None:
    if records:
        write_records(path, records)
    else:
        throw_away(path)


def _write_contexts(folder: Path, contexts: Iterable[Context], digests: Mapping[str, str]) -> None:
    write_records(folder / "contexts.jsonl", contexts)
    write_records(
        folder / "context_digests.jsonl",
        [ContextDigest(context_id=key, digest=digest) for key, digest in digests.items()],
    )


def append_ladders(
    folder: Path,
    before: LadderSet,
    contexts: Sequence[Context],
    ladders: Sequence[Ladder],
    failures: Sequence[LadderFailure],
) -> None:
    """Add ladders to the set in a folder, after the existing lines; remove its certificate, which is of fewer ladders.

    `ladders.jsonl` is written last, so that the set can be read at every moment.
    """
    throw_away(folder / CERTIFICATE)
    everything = {**before.contexts, **by_id(contexts)}
    failed = {**before.failures, **_by_cell(failures)}
    for ladder in ladders:
        failed.pop((ladder.context_id, ladder.dimension), None)
    if ladders:
        now = Revision(ladders=len(before.ladders), digest=before.digest)
        write_records(folder / REVISIONS, [*before.earlier, now])
    digests = {**before.digests, **{each.id: each.digest for each in contexts}}
    _write_contexts(folder, everything.values(), digests)
    _write_if_any(folder / "failures.jsonl", failed.values())
    path = folder / "ladders.jsonl"
    old = read_bytes(path)
    with atomic(path) as stream:
        stream.write(old.removesuffix(b"\n") + b"\n")
        stream.write(b"".join(map(to_line, ladders)))


def choose_dimensions(
    dimensions: Sequence[Dimension], names: Sequence[str]
) -> tuple[Dimension, ...]:
    """Select dimensions by name, each once, in the order of the names; all without names."""
    known = by_name(dimensions)
    for name in names:
        if name not in known:
            raise UnknownNameError("dimension", name, known)
    return tuple(known[name] for name in dict.fromkeys(names or known))
