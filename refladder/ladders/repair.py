"""build --certify: rewrite rungs that the judge ranks out of order; then drop their level, or fail the ladder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from refladder.errors import UsageError, plural
from refladder.files.certificate import Built, sealed
from refladder.files.ladder_sets import ladder_set, of_whole_anchors
from refladder.ladders.certify import JUDGMENTS, certify, open_asker
from refladder.records import LadderFailure, digest_of
from refladder.settings import Asking
from refladder.statistics.certificate import DROP, REWRITE, UNTESTED
from refladder.synth import build_ladders

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.backends import Backend
    from refladder.files.certificate import Certificate
    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Context, Ladder, Progress
    from refladder.scoring.asker import Asker
    from refladder.settings import BuildSpec

    # A ladder is known by its context id and dimension.
    Key = tuple[str, str]

# Rungs are written again in at most this number of rounds.
ROUNDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A build whose ladders are certified, with its contexts, writer and judge; call it with the ladders that were built.

    Rungs that people wrote are never written anew.
    """

    spec: BuildSpec
    contexts: Sequence[Context]
    writer: Backend
    judge: Backend
    progress: Progress | None = None

    def __call__(
        self, ladders: Sequence[Ladder], failures: Sequence[LadderFailure]
    ) -> tuple[list[Ladder], list[LadderFailure], Certificate]:
        """Return the ladders that pass, all failures, and the certificate.

        A set is one scale, so all ladders keep the same levels: a level is dropped only if it is to be dropped on every
        dimension. Otherwise the ladders with a rung out of order fail. Ladders whose judgments are unparsed are kept, and
        nothing is repaired if they leave a level untested.
        """
        current = {(ladder.context_id, ladder.dimension): ladder for ladder in ladders}
        if not current:
            raise UsageError(
                "no ladder could be written, so none can be certified; try another --writer"
            )
        opened = self._set(current)
        asking = Asking(judgments=self.spec.folder / JUDGMENTS, prompts=self.spec.prompts)
        asker = open_asker(opened, self.judge, asking)
        certificate = certify(opened, asker, self.progress)
        counts = certificate.counts
        built = Built(rounds=0, rewritten=0, dropped=0, failed=0)
        if counts.unparsed and _untested(certificate):
            note = (
                f"{counts.unparsed:,} of {plural(counts.judgments, 'judgment')} are unparsed, so no rung was "
                "written anew and no level dropped; ask the judge again, or another one."
            )
            return list(current.values()), list(failures), _noted(certificate, built, note)
        rewritten: set[tuple[Key, int]] = set()
        rounds = 0
        wanted = _out_of_order(certificate, self.spec.human or {})
        while wanted and rounds < ROUNDS:
            rounds += 1
            rewritten |= self._rewrite(current, wanted, rounds)
            certificate = certify(self._set(current), asker, self.progress)
            wanted = _out_of_order(certificate, self.spec.human or {})
        dropped = _levels_to_drop(certificate)
        if dropped:
            current = {key: _without(ladder, dropped) for key, ladder in current.items()}
            certificate = certify(self._set(current), asker, self.progress)
        wrong = _out_of_order(certificate, {})
        failed = [_failure(current[key], levels, asker) for key, levels in wrong.items()]
        current = self._without(current, failed)
        if not current:
            raise UsageError(
                f"none of the {len(ladders)} ladders rises for {self.judge.fingerprint} after {rounds} rounds of "
                "rewriting; try another --writer or --judge, or build without --certify"
            )
        if failed:
            certificate = certify(self._set(current), asker, self.progress)
        if not (rewritten or dropped or failed):
            return list(current.values()), list(failures), _noted(certificate, built)
        built = Built(
            rounds=rounds,
            rewritten=len(rewritten),
            dropped=len(dropped),
            failed=len(failed),
            before={"judgments": counts.judgments, "unparsed": counts.unparsed},
        )
        figures = "verdicts describe a selection"
        if certificate.tests:
            figures = "p-values describe a selection and are too small"
        note = f"The same judge chose the rungs of this set, so its {figures}; certify the set with another judge for a test."
        certificate = _noted(certificate, built, note)
        return list(current.values()), [*failures, *failed], certificate

    def _without(
        self, current: Mapping[Key, Ladder], failed: Sequence[LadderFailure]
    ) -> dict[Key, Ladder]:
        """Return the ladders that did not fail; of a shared set, those of anchors none of whose ladders failed."""
        left = dict(current)
        for failure in failed:
            del left[failure.context_id, failure.dimension]
        if not self.spec.shared:
            return left
        whole = of_whole_anchors(list(left.values()), self.spec.dimensions)
        return {(ladder.context_id, ladder.dimension): ladder for ladder in whole}

    def _set(self, ladders: Mapping[Key, Ladder]) -> LadderSet:
        spec, written = self.spec, ladders.values()
        anchors = [*dict.fromkeys(context_id for context_id, _ in ladders)] if spec.shared else []
        name = spec.folder.name
        return ladder_set(name, spec.dimensions, self.contexts, written, anchors=anchors)

    def _rewrite(
        self, current: dict[Key, Ladder], wanted: Mapping[Key, Sequence[int]], number: int
    ) -> set[tuple[Key, int]]:
        """Write rungs anew with further seeds, between the rungs that are kept; return those that were written."""
        done: set[tuple[Key, int]] = set()
        sampling = replace(
            self.spec.sampling, seed=self.spec.sampling.seed + number * self.spec.attempts
        )
        for dimension in self.spec.dimensions:
            fixed: dict[Key, dict[int, str]] = {}
            for key, levels in wanted.items():
                if key[1] == dimension.name:
                    texts = {each.level: each.text for each in current[key].rungs}
                    fixed[key] = {level: texts[level] for level in texts if level not in levels}
            if not fixed:
                continue
            name = f"rewrite-{number}-{digest_of(dimension.name, size=4)}.journal.jsonl"
            again, _ = build_ladders(
                self.writer,
                [each for each in self.contexts if (each.id, dimension.name) in fixed],
                [dimension],
                rungs=len(next(iter(current.values())).rungs),
                **{**self.spec.how, "sampling": sampling},
                journal=self.spec.folder / name,
                human=fixed,
                progress=self.progress,
            )
            for ladder in again:
                key = ladder.context_id, ladder.dimension
                repaired = list(current[key].rungs)
                for level in wanted[key]:
                    repaired[level - 1] = ladder.rungs[level - 1]
                    done.add((key, level))
                current[key] = replace(current[key], rungs=tuple(repaired))
        return done


def _noted(certificate: Certificate, built: Built, *notes: str) -> Certificate:
    """Return the certificate with what was repaired, and further notes."""
    return sealed(replace(certificate, built=built, notes=(*certificate.notes, *notes)))


def _out_of_order(
    certificate: Certificate, human: Mapping[Key, Mapping[int, str]]
) -> dict[Key, list[int]]:
    """Return the levels out of order, by ladder, without people's rungs."""
    levels: dict[Key, list[int]] = {}
    for row in certificate.of_ladders:
        key = row.context_id, row.dimension
        for level, verdict in enumerate(row.rungs, start=1):
            if verdict in {REWRITE, DROP} and level not in human.get(key, {}):
                levels.setdefault(key, []).append(level)
    return levels


def _untested(certificate: Certificate) -> bool:
    """Return whether nothing can be said of some level."""
    verdicts = [level.verdict for each in certificate.dimensions for level in each.levels]
    return UNTESTED in verdicts


def _failure(ladder: Ladder, levels: Sequence[int], asker: Asker) -> LadderFailure:
    reason = f"not certified: {asker.backend.fingerprint} does not find level {', '.join(map(str, levels))} in order"
    return LadderFailure(
        context_id=ladder.context_id,
        task=ladder.task,
        dimension=ladder.dimension,
        level=levels[0],
        reasons=(reason,),
        recipe=ladder.recipe,
    )


def _levels_to_drop(certificate: Certificate) -> list[int]:
    """Return the levels that every dimension drops; none if fewer than two would be left."""
    levels = set(range(1, certificate.counts.rungs + 1))
    for dimension in certificate.dimensions:
        levels &= {each.level for each in dimension.levels if each.verdict == DROP}
    return sorted(levels) if certificate.counts.rungs - len(levels) > 1 else []


def _without(ladder: Ladder, dropped: Sequence[int]) -> Ladder:
    """Return the ladder without some levels, numbered from 1 again."""
    left = [rung for rung in ladder.rungs if rung.level not in dropped]
    level_of = {rung.level: number for number, rung in enumerate(left, start=1)}
    rungs = []
    for rung in left:
        between = None
        if rung.between is not None and level_of.keys() >= {*rung.between}:
            low, high = rung.between
            between = level_of[low], level_of[high]
        rungs.append(replace(rung, level=level_of[rung.level], between=between))
    return replace(ladder, rungs=tuple(rungs))
