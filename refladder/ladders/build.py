"""build: contexts x dimensions -> a ladder set in a folder; resumable."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from refladder.errors import DataError, UsageError, agreeing, either, option, plural
from refladder.files.certificate import CERTIFICATE, json_of, write_certificate
from refladder.files.jsonl import read_bytes, write_json
from refladder.files.ladder_sets import (
    REVISIONS,
    append_ladders,
    ladder_set,
    load_ladders,
    of_whole_anchors,
    write_ladder_set,
)
from refladder.files.locks import locked_folder
from refladder.files.tables import read_rows
from refladder.ladders.certify import JUDGMENTS, open_asker, set_questions
from refladder.ladders.repair import Repair
from refladder.loaders.data import Data
from refladder.loaders.fields import row_id
from refladder.loaders.letters import letters_of
from refladder.parsing import parse_json
from refladder.prompts import check_folder, load_template
from refladder.records import DOCUMENT, Sampling, Shared, digest_of, ids_of
from refladder.session import copied
from refladder.settings import Asking, BuildSpec, chosen
from refladder.statistics.certificate import REFUSE
from refladder.synth import build_ladders, name_subjects
from refladder.synth.journal import JOURNAL, SUBJECTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.events import Events
    from refladder.files.certificate import Certificate
    from refladder.files.ladder_sets import LadderSet
    from refladder.options import NamedOptions
    from refladder.records import Context, Ladder, LadderFailure, Progress
    from refladder.session import Session
    from refladder.settings import Given

log = logging.getLogger(__name__)
STOCK = "writer builtin: its sentences are stock and know nothing of your table; its ladders only try commands out"
_HUMAN_FIELDS = {"context_id": str, "dimension": str, "level": int, "text": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    """The ladders written, the rungs that could not be, the certificate if any, and a shared set's `anchors`.

    `known` contexts had ladders in the set already. `uncertified` says that a certificate was removed, because it is of
    fewer ladders than the set has now.
    """

    ladders: int
    failures: tuple[LadderFailure, ...]
    certificate: Certificate | None = None
    anchors: tuple[str, ...] = ()
    known: int = 0
    uncertified: bool = False

    @property
    def complete(self) -> bool:
        """Return whether every rung was written, and the certificate is not refused."""
        refused = self.certificate is not None and self.certificate.verdict == REFUSE
        return not self.failures and not refused

    def summary(self, spec: BuildSpec) -> dict[str, object]:
        """Return the counts as JSON values."""
        folder, failed = str(spec.folder), len(self.failures)
        if spec.adds is not None:
            return {
                "folder": folder,
                "added": self.ladders,
                "known": self.known,
                "failed": failed,
                "uncertified": self.uncertified,
            }
        counts: dict[str, object] = {"folder": folder, "ladders": self.ladders, "failed": failed}
        if self.anchors:
            counts["anchors"] = list(self.anchors)
        if self.certificate is not None:
            shown = json_of(self.certificate)
            counts |= {key: shown[key] for key in ("verdict", "digest", "built")}
        return counts

    def lines(self, spec: BuildSpec) -> list[str]:
        """Return sentences on what was written."""
        failed = plural(len(self.failures), "rung")
        ladders = plural(self.ladders, "ladder")
        if spec.adds is None:
            rungs = spec.rungs if self.certificate is None else self.certificate.counts.rungs
            anchors = plural(len(self.anchors), "shared anchor")
            of = f" ({anchors})" if self.anchors else ""
            return [f"{ladders} of {rungs} rungs{of} in {spec.folder}, {failed} failed"]
        lines = []
        if self.known:
            has = agreeing(self.known, "has", "have")
            lines.append(f"{plural(self.known, 'context')} of the table {has} ladders already")
        lines.append(
            f"{ladders} of {spec.rungs} rungs added to {spec.folder}, which has "
            f"{len(spec.adds.ladders) + self.ladders:,} now, {failed} failed"
        )
        if self.uncertified:
            lines.append(
                f"The certificate of {spec.folder} was of the earlier ladders and is removed; `refladder certify "
                f"{spec.folder}` makes a new one"
            )
        return lines

    def places(self) -> list[str]:
        """Return the first failed rungs, with their reasons."""
        places = []
        for each in self.failures[:10]:
            rung = f"{each.context_id} {each.dimension} rung {each.level}"
            places.append(f"{rung}: {each.reasons[-1]}")
        return places


def spec_of(
    given: Given, named: NamedOptions, data: Data | None, folder: Path, events: Events
) -> BuildSpec:
    """Return the settings for the ladders of data in a folder, or of the new contexts of the table `add`.

    With `add`, writer, rungs and sampling are those of the set in the folder, so none of them may be `named`.
    """
    for name, each in named if given["add"] is not None else ():
        if each is None or each.of_new_set:
            raise UsageError(
                f"{option('add')} takes task, criteria, rungs and sampling from the set; leave out {name}"
            )
    if given["add"] is not None and given["out"] is None:
        raise UsageError("add is a table whose ladders go into a set; name the set with out")
    check_folder(given["prompts"])
    of_set: dict[str, object] = {}
    if given["add"] is not None:
        ladders = open_to_add(folder)
        columns = given["columns"]
        data = Data(given["add"], ladders.task, dimensions=ladders.dimensions, columns=columns)
        drawn = (each.recipe.sampling for each in ladders.ladders.values())
        sampling = next(filter(None, drawn), Sampling())
        of_set = {"adds": ladders, "rungs": ladders.rungs, "sampling": sampling}
        if given["writer"] is None:
            writer, options = _writer_of(folder)
            of_set |= {"writer": writer, "writer_options": given["writer_options"] or options}
    if data is None:
        raise UsageError(
            either(
                "name a benchmark or your table (BENCHMARK), or a table with --add",
                "data is missing; give a table or a benchmark, or a table with add",
            )
        )
    shared, human = given["shared"], given["human"]
    contexts, dimensions = data.contexts(shared=shared is not None)
    described = {
        "folder": folder,
        "contexts": contexts,
        "dimensions": dimensions,
        "human": None if human is None else read_human_rungs(str(human)),
        "shared": shared is not None,
    }
    asked = {**given, **described, **of_set}
    spec = chosen(BuildSpec, asked)
    if shared is not None:
        spec = replace(spec, contexts=draw_anchors(contexts, shared, spec.sampling))
    if data.is_table():
        _check_writer(spec, asked["writer"], events)
    return spec


def _writer_of(folder: Path) -> tuple[str | None, Mapping[str, object]]:
    """Return the name and the options of the writer of a set, as its run.json has them."""
    path = folder / "run.json"
    config = parse_json(read_bytes(path), str(path), whole_file=True) if path.is_file() else None
    options = config.get("options") if isinstance(config, dict) else None
    if not isinstance(options, dict) or not isinstance(options.get("writer"), str):
        return None, {}
    given = options.get("writer_option") or options.get("writer_options") or {}
    if not isinstance(given, dict):
        parts = [each.partition("=") for each in given]
        given = {key: value for key, _, value in parts}
    return options["writer"], given


def _check_writer(spec: BuildSpec, named: str | Backend | None, events: Events) -> None:
    """Check that the writer of a user's own table is named, and say what the built-in one is."""
    new = new_contexts(spec)
    unnamed = spec.shared and any(each.task == DOCUMENT and not each.text for each in new)
    by_people = sum(map(len, (spec.human or {}).values()))
    needed = unnamed or by_people < len(new) * len(spec.dimensions) * spec.rungs
    if needed and named is None:
        raise UsageError(
            f"no writer is named for the ladders of your table. Name a model with {option('writer')} MODEL; give "
            f"every rung as a text with {option('human')} TABLE; or build nothing, and score with a general set, "
            "such as `refladder score TABLE --ladders general/reply`"
        )
    if needed and named == "builtin":
        events.notice(STOCK, once=True)


def new_contexts(spec: BuildSpec) -> Sequence[Context]:
    """Return the contexts that get ladders: all, or those without a ladder in the set to which ladders are added."""
    ladders = spec.adds
    if ladders is None:
        return spec.contexts
    for context in spec.contexts:
        if ladders.digests.get(context.id, context.digest) != context.digest:
            raise DataError(
                f"context {context.id!r} has another text or background in the table than in {ladders.name}; give it "
                "another id"
            )
    known = ladders.context_ids
    return [context for context in spec.contexts if context.id not in known]


def rehearse(spec: BuildSpec, session: Session) -> None:
    """Request the same texts and judgments from backends that give no answers."""
    with copied(spec.folder) as copy:
        contexts, ladders, _ = _written(spec, _writer(spec, session), copy, None)
    if spec.certify and ladders:
        anchors = ids_of(contexts) if spec.shared else []
        name = str(spec.folder)
        opened = ladder_set(name, spec.dimensions, contexts, ladders, anchors=anchors)
        asking = Asking(judgments=spec.folder / JUDGMENTS, prompts=spec.prompts)
        judge = session.open(spec.judge, spec.judge_options)
        open_asker(opened, judge, asking).ask(set_questions(opened))


def run(spec: BuildSpec, session: Session, events: Events) -> BuildReport:
    """Write a ladder set, or add ladders to one.

    Every text is stored in a journal in the folder at once, so an interrupted build can be resumed.
    """
    if not new_contexts(spec):
        return BuildReport(ladders=0, failures=(), known=len(spec.contexts))
    # The folder is locked before a model is loaded or a server is asked.
    with locked_folder(spec.folder):
        writer = _writer(spec, session)
        judge = session.open(spec.judge, spec.judge_options) if spec.certify else None
        what = "building" if spec.certify else "writing"
        with events.progress(what, session.under_way) as progress:
            contexts, ladders, failures = _written(spec, writer, spec.folder, progress)
            if spec.adds is not None:
                return _add(spec, spec.adds, contexts, ladders, failures)
            certificate = None
            if spec.shared:
                ladders = of_whole_anchors(ladders, spec.dimensions)
                _warn_of_other_letters(spec.contexts, ladders)
            if judge is not None:
                repair = Repair(
                    spec=spec, contexts=contexts, writer=writer, judge=judge, progress=progress
                )
                ladders, failures, certificate = repair(ladders, failures)
        anchors: tuple[str, ...] = ()
        shared = None
        if spec.shared:
            anchors = tuple(dict.fromkeys(each.context_id for each in ladders))
            shared = Shared(anchors=anchors, seed=spec.sampling.seed)
        write_ladder_set(spec.folder, spec.dimensions, contexts, ladders, failures, shared=shared)
        if certificate is not None:
            write_certificate(spec.folder, certificate)
        if spec.config is not None:
            write_json(spec.folder / "run.json", asdict(spec.config))
    return BuildReport(
        ladders=len(ladders), failures=tuple(failures), certificate=certificate, anchors=anchors
    )


def _writer(spec: BuildSpec, session: Session) -> Backend:
    return session.open(spec.writer, spec.writer_options, "--writer-option")


def _written(
    spec: BuildSpec, writer: Backend, folder: Path | None, progress: Progress | None
) -> tuple[Sequence[Context], list[Ladder], list[LadderFailure]]:
    """Return the contexts, with subjects if they are anchors, their ladders, and the rungs that failed.

    The journals are in `folder`.
    """
    journal, contexts = JOURNAL, new_contexts(spec)
    unnamed: list[LadderFailure] = []
    if spec.adds is not None:
        _check_recipe(spec, spec.adds, writer)
        # The journal is named by the set as it is now: later additions have their own.
        journal = f"add-{spec.adds.digest}.journal.jsonl"
    elif (spec.folder / REVISIONS).is_file():
        raise UsageError(
            f"{spec.folder}: ladders were added to this set, and this build would drop them; choose another "
            f"{option('out')}"
        )
    if spec.shared:
        subjects = None if folder is None else folder / SUBJECTS
        contexts, unnamed = name_subjects(writer, contexts, journal=subjects, **spec.how)
    ladders, failures = build_ladders(
        writer,
        contexts,
        spec.dimensions,
        rungs=spec.rungs,
        journal=None if folder is None else folder / journal,
        human=spec.human,
        progress=progress,
        **spec.how,
    )
    return contexts, ladders, [*unnamed, *failures]


def _add(
    spec: BuildSpec,
    ladders: LadderSet,
    contexts: Sequence[Context],
    new: Sequence[Ladder],
    failures: Sequence[LadderFailure],
) -> BuildReport:
    """Add ladders to a set; the ladders that it has, and their scores, stay."""
    certified = (spec.folder / CERTIFICATE).is_file() and bool(new)
    append_ladders(spec.folder, ladders, contexts, new, failures)
    return BuildReport(
        ladders=len(new),
        failures=tuple(failures),
        known=len(spec.contexts) - len(contexts),
        uncertified=certified,
    )


def open_to_add(folder: Path) -> LadderSet:
    """Open the set in a folder, to which ladders for more contexts are to be added."""
    if not (folder / "ladders.jsonl").is_file():
        raise UsageError(
            f"{folder}: no ladder set to add to; name a folder of `refladder build` with {option('out')}"
        )
    ladders = load_ladders(folder.resolve(), certified=False)
    if ladders.anchors:
        raise UsageError(
            f"{folder}: the set is shared, so it scores rows of any context already, and more ladders would change "
            "every score; there is nothing to add"
        )
    if not ladders.contexts:
        raise UsageError(
            f"{folder}: the set has no contexts.jsonl, beside which new contexts go; add that file"
        )
    written = [each.recipe for each in ladders.ladders.values()]
    recipes = {(each.backend, each.prompts, each.sampling) for each in written}
    if len(recipes) > 1:
        raise UsageError(
            f"{folder}: its ladders have {len(recipes)} recipes, so none can be followed; build a new set"
        )
    return ladders


def _check_recipe(spec: BuildSpec, ladders: LadderSet, writer: Backend) -> None:
    """Check that new ladders get the recipe of those of a set, before the writer is asked."""
    recipe = next(iter(ladders.ladders.values())).recipe
    if writer.fingerprint != recipe.backend:
        raise UsageError(
            f"{ladders.name}: its ladders are written by {recipe.backend}, and this writer is {writer.fingerprint}; "
            f"name the same one with {option('writer')}, or build a new set"
        )
    for signature in recipe.prompts:
        role = signature.partition("@")[0].rpartition("/")[2]
        if load_template(ladders.task, role, spec.prompts).signature != signature:
            raise UsageError(
                f"{ladders.name}: its ladders are written with other prompts than these; give the same "
                f"{option('prompts')}, or build a new set"
            )


def draw_anchors(seeds: Sequence[Context], count: int, sampling: Sampling) -> list[Context]:
    """Draw the anchors of a shared set: `count` seeds, by `sampling.seed` from their ids, whatever their order."""
    if len(seeds) < count:
        raise UsageError(
            f"{option('shared')} {count} needs {count} seeds, and the table has {len(seeds)}; add rows, or ask for "
            "fewer anchors"
        )
    chosen = sorted(seeds, key=lambda seed: digest_of(str(sampling.seed), seed.id, size=64))[:count]
    drawn = []
    for seed in chosen:
        if seed.task == DOCUMENT:
            words = min(len(seed.references[0].split()), sampling.max_tokens // 2)
            drawn.append(replace(seed, background=f"{words} words"))
        else:
            drawn.append(seed)
    return drawn


def _warn_of_other_letters(seeds: Sequence[Context], ladders: Iterable[Ladder]) -> None:
    """Say which anchors have rungs in other letters than their seed: the writer has not answered in its language."""
    of_seeds = {seed.id: letters_of(" ".join((seed.text, *seed.references))) for seed in seeds}
    for ladder in ladders:
        seed = of_seeds[ladder.context_id]
        written = letters_of(" ".join(rung.text for rung in ladder.rungs))
        if seed and written and written != seed:
            log.warning(
                "anchor %s, %s: its seed is in %s letters and its rungs in %s; name the language in the description of "
                "the dimension, or use another writer",
                ladder.context_id,
                ladder.dimension,
                seed,
                written,
            )


def read_human_rungs(path: str) -> dict[tuple[str, str], dict[int, str]]:
    """Read rungs written by people, from a table with columns context_id, dimension, level and text."""
    rungs: dict[tuple[str, str], dict[int, str]] = {}
    for row in read_rows(path):
        for name, kind in _HUMAN_FIELDS.items():
            if name not in row.fields:
                needed, there = ", ".join(_HUMAN_FIELDS), ", ".join(map(str, row.fields))
                raise DataError(
                    f"{row.where}: no column {name!r}; rungs need {needed}. Columns there: {there}"
                )
            value = row.fields[name]
            if name == "context_id":
                value = row_id(row.where, name, value)
            # Cells of CSV files are texts.
            if kind is int and isinstance(value, str) and value.isascii() and value.isdecimal():
                value = int(value)
            if type(value) is not kind:
                raise DataError(
                    f"{row.where}: column {name!r} must be {kind.__name__}, found {value!r:.60}"
                )
            row.fields[name] = value
        levels = rungs.setdefault((row.fields["context_id"], row.fields["dimension"]), {})
        if row.fields["level"] in levels:
            raise DataError(
                f"{row.where}: level {row.fields['level']} of {row.fields['dimension']!r} for context "
                f"{row.fields['context_id']!r} appears twice; keep one"
            )
        levels[row.fields["level"]] = row.fields["text"]
    if not rungs:
        raise DataError(
            f"{path}: no rows; human-written rungs need the columns {', '.join(_HUMAN_FIELDS)}"
        )
    return rungs
