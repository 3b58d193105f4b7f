"""A ladder set as a release in a folder: Parquet shards and their manifest, without anything of this machine."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError, UsageError, option
from refladder.files.jsonl import read_bytes, to_json, to_line
from refladder.files.ladder_sets import (
    CERTIFICATE,
    Checks,
    certificate_digest,
    checked_certificate,
    find_folder,
    new_digest,
    open_parts,
)
from refladder.files.release import WHOLE_CERTIFICATE, Manifest, ladder_row, write_shards
from refladder.files.tables import number_in, read_rows
from refladder.parsing import each_leaf, parse_json
from refladder.records import Judgment, scale_of
from refladder.report.dataset_card import Facts
from refladder.scoring.columns import added_columns
from refladder.scoring.judgment_file import read_judgments
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from refladder.files.release import Parts
    from refladder.records import Progress, Recipe, Run

BUILTIN = "builtin"  # begins the fingerprint of the writer whose ladders are a baseline
EXTRAS = ("judgments", "scores", "certificate")
_LOCAL_MODEL = re.compile(r"(?<=hf:)(?:[/~]|\.{1,2}[/\\]|[A-Za-z]:[/\\])[^@|]*?([^@|/\\]+)[/\\]?(?=@|$)")
_CONTEXT_COLUMNS = ("context", "background", "references")

_NOT_DETAILS = ("schema", "verdict", "dimension", "context_id", "level")


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A release in a folder, what its card says of it, and what the publisher should know."""

    folder: Path
    facts: Facts
    notices: tuple[str, ...]


def extras_in(
    ladders: str, include: Sequence[str], scores: str | Path | None, judgments: str | Path | None
) -> dict[str, Path]:
    """The files to publish beside a ladder set, by the names of EXTRAS; the arguments are those of `publish`."""
    folder = find_folder(ladders)
    for name, given in (("scores", scores), ("judgments", judgments)):
        if given is not None and name not in include:
            raise UsageError(f"{option(name)} {given}: add {option('with')} {name} to publish it")
    if scores is None and ("scores" in include or ("judgments" in include and judgments is None)):
        scores = _scored_table(folder)
    paths = {"scores": scores, "judgments": judgments or f"{scores}.judgments.jsonl"}
    wanted = {name: Path(path) for name, path in paths.items() if name in include and path is not None}
    if "certificate" in include or (folder / CERTIFICATE).is_file():
        wanted["certificate"] = folder / CERTIFICATE
    for name, path in wanted.items():
        if path.is_dir():
            raise DataError(f"{path}: a folder; score into one file, such as --out scored.jsonl, to publish it")
        if not path.is_file():
            raise DataError(f"{path}: no such file; make it first, or leave out {option('with')} {name}")
    return wanted


def _scored_table(folder: Path) -> Path:
    ends = ".judgments.jsonl"
    tables = [path.with_name(path.name.removesuffix(ends)) for path in sorted(folder.glob(f"*{ends}"))]
    if len(tables) != 1:
        names = ", ".join(path.name for path in tables[:5])
        which = f"{len(tables)} scored tables ({names})" if tables else "no scored table"
        raise UsageError(
            f"{folder} holds {which} with judgments; name the output of `refladder score` with {option('scores')} FILE"
        )
    return tables[0]


def without_model_path(text: str) -> str:
    """A fingerprint or a signature in which a local model has its last name only."""
    return _LOCAL_MODEL.sub(r"\1", text)


def without_paths(text: str) -> str:
    """A note without paths of this machine: the current folder becomes `.`, the home folder `~`."""
    text = without_model_path(text)
    for folder, sign in ((str(Path.cwd()), "."), (str(Path.home()), "~")):
        text = text.replace(f"{folder.rstrip('/')}/", f"{sign}/") if len(folder) > 1 else text
    return text


def _public(recipe: Recipe) -> Recipe:
    return replace(recipe, backend=without_model_path(recipe.backend))


class _Tally:
    """Prepares the ladders one after another, checks them, and counts what the card says of them."""

    def __init__(self, parts: Parts, contexts: Mapping[str, tuple[str, str]]) -> None:
        self.recipes: Counter[Recipe] = Counter()
        self.checks = Checks(
            parts.name, parts.dimensions, {context_id: task for context_id, (task, _) in contexts.items()}
        )
        self.lengths: dict[int, array[int]] = {}
        self.public = new_digest()  # of the ladders as they are published; that of the checks is of those here
        self._dimensions = {dimension.name: dimension for dimension in parts.dimensions}
        self._parts = parts
        self._contexts = contexts

    def rows(self, progress: Progress | None) -> Iterator[dict[str, Any]]:
        """The rows of the config `ladders`."""
        for ladder in self.checks.passed(self._parts.ladders):
            public = replace(ladder, recipe=_public(ladder.recipe))
            self.public.update(to_line(public))
            self.recipes[public.recipe] += 1
            for rung in ladder.rungs:
                self.lengths.setdefault(rung.level, array("q")).append(len(rung.text))
            earlier = self._parts.context_digests.get(ladder.context_id)  # of a set without texts
            _, digest = self._contexts.get(ladder.context_id, ("", earlier))
            if progress is not None and self.checks.count % 1000 == 0:
                progress(self.checks.count, None)
            shared = self._parts.shared is not None
            yield ladder_row(public, self._dimensions[ladder.dimension], digest, shared=shared)

    @property
    def spans(self) -> list[tuple[int, float, int]]:
        """Shortest, median and longest text of each level, in characters."""
        return [(min(values), median(values), max(values)) for _, values in sorted(self.lengths.items())]


def stage(
    folder: Path,
    ladders: str,
    *,
    extras: Mapping[str, Path],
    without_contexts: bool,
    baseline: bool,
    progress: Progress | None,
) -> Staged:
    """Write the release into a folder."""
    parts = open_parts(ladders)
    if parts.shared is not None and without_contexts:
        raise UsageError(
            f"{ladders}: the set is shared, and a judge has to see the context of each rung; leave out "
            f"{option('without-contexts')}, or share ladders of contexts that may be distributed"
        )
    contexts: dict[str, tuple[str, str]] = {}

    def context_rows() -> Iterator[dict[str, Any]]:
        for context in parts.contexts:
            if context.id in contexts:
                raise UsageError(f"{parts.name}: context {context.id!r} appears twice")
            contexts[context.id] = (context.task, context.digest)
            yield asdict(context)

    texts = write_shards(folder, "contexts", () if without_contexts else context_rows())
    if without_contexts:
        for _ in context_rows():  # their digests are published
            pass
    tally = _Tally(parts, contexts)
    rows = write_shards(folder, "ladders", tally.rows(progress))
    _check_writer(ladders, tally.recipes, baseline=baseline)
    failed = (
        replace(each, reasons=tuple(map(without_paths, each.reasons)), recipe=_public(each.recipe))
        for each in parts.failures
    )
    failures = write_shards(folder, "failures", map(asdict, failed))
    shards, run, digest = [*rows, *texts, *failures], None, tally.checks.digest
    if "judgments" in extras:
        run, judged = _judgments(extras["judgments"], digest)
        shards += write_shards(folder, "judgments", judged)
    if (scores := extras.get("scores")) is not None:
        scored = added_columns(parts.dimensions, shared=parts.shared is not None)
        numbers = {name: "double" for name, kind in scored.items() if kind is float}
        hidden = _context_columns(scores) if without_contexts else frozenset()
        shards += write_shards(folder, "scores", _scored_rows(scores, digest, scored, hidden), numbers)
    checks = []
    if (path := extras.get("certificate")) is not None:
        certificate = checked_certificate(_object(path), str(path), digest)
        checks = certificate_rows(public_certificate(certificate, tally.public.hexdigest()))
    shards += write_shards(folder, "certificate", checks)
    manifest = Manifest(
        refladder=__version__,
        name=parts.name,
        digest=tally.public.hexdigest(),
        task=tally.checks.task,
        rungs=tally.checks.rungs,
        ladders=tally.checks.count,
        contexts=len(contexts) if texts else None,
        failures=sum(shard.rows for shard in failures),
        dimensions=parts.dimensions,
        files=tuple(shards),
        run=run,
        shared=parts.shared,
    )
    changed = "paths of this machine are left out of the recipes, which changes the digest of the ladders"
    facts = Facts(
        manifest=manifest,
        recipes=tally.recipes,
        lengths=tally.spans,
        baseline=baseline,
        certificate=[row for row in checks if not row["context_id"]],  # not those of single ladders
    )
    return Staged(folder=folder, facts=facts, notices=() if digest == manifest.digest else (changed,))


def _check_writer(ladders: str, recipes: Iterable[Recipe], *, baseline: bool) -> None:
    built_in = any(recipe.backend.startswith(BUILTIN) for recipe in recipes)
    if built_in and not baseline:
        raise UsageError(
            f"{ladders}: its ladders are of the built-in writer, which uses fixed rules and no model; build them with "
            f"--writer, or add {option('baseline')} if they are meant as a baseline"
        )
    if baseline and not built_in:
        raise UsageError(f"{ladders}: its ladders are not of the built-in writer; leave out {option('baseline')}")


def _judgments(path: Path, digest: str) -> tuple[Run, Iterator[dict[str, Any]]]:
    run, located = read_judgments(path)
    if not (scale_of(run.ladders) or "").endswith(f"@{digest}"):
        raise UsageError(
            f"{path}: judgments with other ladders ({run.ladders}; this set has the digest {digest}); score with this "
            f"set again, or name other judgments with {option('judgments')}"
        )
    names = [each.name for each in fields(Judgment)]
    rows = ({name: getattr(judgment, name) for name in names} for _, judgment in located)
    public = ({**row, "note": row["note"] and without_paths(row["note"])} for row in rows)
    return replace(run, recipe=_public(run.recipe)), public


def _scored_rows(
    path: Path, digest: str, scored: Mapping[str, type], hidden: frozenset[str]
) -> Iterator[dict[str, Any]]:
    for row in read_rows(str(path)):
        signature = row.fields.get("signature")
        if not isinstance(signature, str) or f"@{digest}|" not in signature:
            raise UsageError(
                f"{row.where}: scored with other ladders than this set, whose digest is {digest} (signature "
                f"{str(signature)[:80]!r}); score with this set again, or name other scores with {option('scores')}"
            )
        fields: dict[str, Any] = {}
        for name, value in row.fields.items():
            if name in hidden:
                continue
            if scored.get(name) is float:
                fields[name] = number_in(row, name)  # text in CSV
            elif name in scored and isinstance(value, str):
                fields[name] = without_model_path(value) if name == "signature" else without_paths(value)
            else:
                fields[name] = value
        yield fields


def _context_columns(scores: Path) -> frozenset[str]:
    """The columns of scored rows that hold texts of contexts: the usual names, and those that the run mapped."""
    hidden = set(_CONTEXT_COLUMNS)
    config = Path(f"{scores}.run.json")
    if config.is_file():
        options = _object(config).get("options", {})
        mapped = dict(str(column).split("=", 1) for column in options.get("column") or ())  # of the command
        mapped |= options.get("columns") or {}  # of the call
        for field, name in mapped.items():
            if field in _CONTEXT_COLUMNS:  # COLUMN.FIELD is in the objects of COLUMN
                hidden |= {name, name.partition(".")[0]}
    return frozenset(hidden)


def _object(path: Path) -> dict[str, Any]:
    value = parse_json(read_bytes(path), str(path), whole_file=True)
    if not isinstance(value, dict):
        raise DataError(f"{path}: must be one JSON object, found {type(value).__name__}")
    return value


def public_certificate(certificate: Mapping[str, Any], ladders: str) -> dict[str, Any]:
    """A certificate without paths of this machine."""
    shown = each_leaf(dict(certificate), lambda leaf: without_paths(leaf) if isinstance(leaf, str) else leaf)
    shown["ladders"] = ladders
    return {**shown, "digest": certificate_digest(shown)}


def certificate_rows(certificate: Mapping[str, Any]) -> list[dict[str, str]]:
    """The rows of the config `certificate`: the whole, each dimension and its levels, and each ladder."""

    def row(name: str, part: Mapping[str, Any], context_id: str = "") -> dict[str, str]:
        judge = [f"judge {part['judge']['fingerprint']}"] if "judge" in part else []
        details = judge + [
            f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in part.items()
            if key not in _NOT_DETAILS and isinstance(value, str | int | float)
        ]
        text = to_json(part).decode("utf-8", "backslashreplace")
        verdict = str(part["verdict"])
        return {"context_id": context_id, "name": name, "verdict": verdict, "details": ", ".join(details), "json": text}

    rows = [row(WHOLE_CERTIFICATE, certificate)]
    rows += [row("sharing", certificate["sharing"])] if "sharing" in certificate else []
    for dimension in certificate["dimensions"]:
        rows.append(row(dimension["dimension"], dimension))
        rows += [row(f"{dimension['dimension']} level {level['level']}", level) for level in dimension["levels"]]
    return rows + [row(ladder["dimension"], ladder, ladder["context_id"]) for ladder in certificate["of_ladders"]]
