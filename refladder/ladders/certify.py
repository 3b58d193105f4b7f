"""certify: a ladder set and a judge -> every pair of rungs judged in both orders -> a certificate."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from refladder.arrays import known, known_mean
from refladder.backends import Backend, connect
from refladder.backends.dry_run import DryRunBackend
from refladder.backends.rewards import NO_DIMENSION
from refladder.errors import DataError, NotConvergedError, UsageError, option, plural
from refladder.files.certificate import (
    Certificate,
    Counts,
    JudgedBy,
    Level,
    OfAnchor,
    OfDimension,
    OfLadder,
    Sharing,
    Step,
    sealed,
    write_certificate,
)
from refladder.files.ladder_sets import LadderSet, load_ladders, published_names
from refladder.files.locks import locked, locked_folder
from refladder.prompts import check_folder
from refladder.records import OUTCOMES, by_name, without_none
from refladder.scoring.asker import Asker, mode_template, run_of
from refladder.scoring.columns import has_low_mass
from refladder.scoring.judge_check import judge_checks
from refladder.scoring.judgment_file import JudgmentIndex, check_indexed, read_judgments
from refladder.scoring.modes import mode_of
from refladder.scoring.question import (
    anchors_compared,
    comparison_of,
    rung_questions,
    rung_side,
)
from refladder.scoring.recorded_files import recorded_files
from refladder.scoring.verdicts import outcome_probabilities
from refladder.scoring.written import ask_groups, try_out
from refladder.settings import Asking, Given, chosen
from refladder.statistics import certificate as trust
from refladder.statistics.bias import intransitive_triples
from refladder.statistics.correction import holm
from refladder.statistics.correlation import correlate
from refladder.statistics.davidson import davidson
from refladder.statistics.graph import components
from refladder.statistics.shares import share_intervals
from refladder.statistics.surface import length_deviation, surface_accuracy, surface_counts
from refladder.synth.checks import same_text
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from refladder.arrays import FloatArray
    from refladder.backends.plain_function import Judge
    from refladder.events import Events
    from refladder.options import NamedOptions
    from refladder.records import (
        Completion,
        Judgment,
        LabelReading,
        Ladder,
        Progress,
        Prompt,
        Sampling,
    )
    from refladder.scoring.question import Question
    from refladder.session import Session

T = TypeVar("T")
# The folder of a set keeps its judgments in this file.
JUDGMENTS = "certificate.judgments.jsonl"
# Judgments are asked and stored in batches of this number; a kill can lose one.
BATCH = 256
_SURFACE = "builtin"
_TESTS = "exact one-sided sign test over contexts, Holm within a dimension"


class _Recorded(Backend):
    """The judge of a file of judgments, which is asked nothing more."""

    def __init__(self, path: str | Path) -> None:
        self.run, located = read_judgments(path)
        self.judgments = []
        for where, judgment in located:
            check_indexed(self.run, mode_of(self.run.answers), where, judgment)
            self.judgments.append(judgment)
        self._path = path

    @property
    def fingerprint(self) -> str:
        return self.run.recipe.backend

    @property
    def answering(self) -> Sampling | None:
        return self.run.recipe.sampling

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        raise self._lacks(prompts)

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        raise self._lacks(prompts)

    def _lacks(self, prompts: Sequence[Prompt]) -> DataError:
        return DataError(
            f"{self._path}: no judgments of some rungs ({plural(len(prompts), 'prompt')}); name the judgments of exactly "
            f"these ladders and prompts, or a judge with {option('judge')}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RungsSpec:
    """The rungs of a set that a judge compares for `certify` and `audit`; `folder` gets the certificate, if any."""

    ladders: LadderSet
    asking: Asking
    judge: str | Backend | Judge = "builtin"
    judge_options: Mapping[str, object] | None = None
    folder: Path | None = None

    def asker(self, session: Session) -> Asker:
        """Open the judge; that of a dry run gives no answers."""
        writes = mode_of(self.asking.answers).writes
        judge = session.open(self.judge, self.judge_options, writes=writes)
        asker = open_asker(self.ladders, judge, self.asking)
        if isinstance(self.judge, _Recorded):
            asker.log.take(self.judge.judgments)
        return asker

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the files for this process; to be entered before a model is loaded or a server is asked."""
        with ExitStack() as stack:
            if self.folder is not None:
                stack.enter_context(locked_folder(self.folder))
            if self.asking.judgments is not None:
                stack.enter_context(locked(self.asking.judgments))
            yield


def spec_of(given: Given, named: NamedOptions) -> RungsSpec:
    """Return the settings for a set without its certificate; a folder gets a new one, and a file of judgments.

    `named` is what the user named, which recorded judgments may not go with.
    """
    asking = asking_of(given)
    ladders, folder, recorded = given["ladders"], None, given["judgments_from"]
    if recorded is not None:
        recorded_files(given, named, None)
        given = {**given, "judge": _Recorded(recorded)}
        asking = replace(asking, answers=given["judge"].run.answers)
    if isinstance(ladders, LadderSet):
        opened = replace(ladders, certificate=None)
    else:
        opened = load_ladders(ladders, certified=False)
        if str(ladders) not in published_names() and Path(ladders).is_dir():
            folder = Path(ladders)
            if recorded is None:
                asking = replace(asking, judgments=asking.judgments or folder / JUDGMENTS)
    return chosen(RungsSpec, {**given, "ladders": opened, "asking": asking, "folder": folder})


def asking_of(given: Given) -> Asking:
    """Return how a judge of rungs is asked; every template of the user's folder is checked."""
    asking = chosen(Asking, given)
    mode_of(asking.answers)
    check_folder(asking.prompts)
    return asking


def rehearse(spec: RungsSpec, session: Session) -> int:
    """Request the same judgments from a backend that gives no answers; return how many exist already."""
    asker = spec.asker(session)
    certify(spec.ladders, asker)
    return asker.log.reused


def run(spec: RungsSpec, session: Session, events: Events) -> Certificate:
    """Judge a ladder set, store the certificate in its folder, and report the check of the judge by its judgments."""
    with spec.locked():
        asker = spec.asker(session)
        with events.progress("judging rungs", session.under_way) as progress:
            certificate = certify(spec.ladders, asker, progress)
        if spec.folder is not None:
            write_certificate(spec.folder, certificate)
        events.checked(judge_checks(spec.ladders, asker))
    return certificate


def open_asker(ladders: LadderSet, judge: Backend, asking: Asking | None = None) -> Asker:
    """Return a judge of rungs with the prompt that scores are made with; a dry run only reads its judgments."""
    if not ladders.contexts:
        raise UsageError(
            f"{ladders.name}: the set has no contexts.jsonl, which a judge needs; add that file"
        )
    asking = asking or Asking()
    mode = mode_of(asking.answers).of_rungs(ladders)
    mode.check_rungs(ladders.rungs - 1)
    template = mode_template(judge, mode, ladders, asking.prompts)
    try_out(judge, mode, template, ladders, ladders.dimensions)
    run = run_of(judge, template, answers=mode.name, sampling=mode.sampling(judge, None))
    log = JudgmentIndex(asking.judgments, run, read_only=isinstance(judge, DryRunBackend))
    return Asker(judge, template, log, asking.least_mass, batch=BATCH)


def set_questions(ladders: LadderSet) -> list[Question]:
    """Return every comparison of two rungs of every ladder, in both orders, ladder by ladder."""
    dimensions = by_name(ladders.dimensions)
    shared = bool(ladders.anchors)
    questions: list[Question] = []
    for (context_id, name), ladder in ladders.ladders.items():
        context = ladders.contexts[context_id]
        questions += rung_questions(context, dimensions[name], ladder, shared=shared)
    return questions


def questions_across(ladders: LadderSet) -> list[Question]:
    """Ask whether each level of an anchor is better than the one below of the anchors compared with it, in both orders."""
    questions = []
    for dimension in ladders.dimensions:
        sides = {}
        for anchor in ladders.anchors:
            rungs = ladders.ladders[anchor, dimension.name].rungs
            sides[anchor] = [rung_side(rung, ladders.contexts[anchor]) for rung in rungs]
        for upper, lower in _directions(ladders.anchors):
            for high, low in zip(sides[upper][1:], sides[lower], strict=False):
                questions.append(comparison_of(ladders.contexts[upper], dimension, high, low))
                questions.append(comparison_of(ladders.contexts[upper], dimension, low, high))
    return questions


def _directions(anchors: Sequence[str]) -> list[tuple[str, str]]:
    """Return the anchors of the higher and of the lower rung: both directions of each pair that is compared."""
    pairs = set(anchors_compared(anchors))
    pairs |= {(other, one) for one, other in pairs}
    return [each for each in itertools.permutations(anchors, 2) if each in pairs]


def verdict_arrays(judgments: Sequence[Judgment], rungs: int) -> FloatArray:
    """Return the judgments of `set_questions` for `refladder.statistics.certificate.preferences`: (ladders, pairs, 2, 3)."""
    return outcome_probabilities(judgments).reshape(-1, rungs * (rungs - 1) // 2, 2, len(OUTCOMES))


def certify(ladders: LadderSet, asker: Asker, progress: Progress | None = None) -> Certificate:
    """Judge every pair of rungs in both orders, and say which rungs rise."""
    questions, across = set_questions(ladders), questions_across(ladders)
    asked = [*questions, *across]
    mode = asker.log.mode
    judged = ask_groups(asker, mode.pair_groups(ladders, asked), progress)
    both = mode.pairs(ladders, asked, judged)
    judgments, of_anchors = both[: len(questions)], both[len(questions) :]
    surface = judgments
    baseline = connect(_SURFACE)
    if asker.backend.fingerprint != baseline.fingerprint:
        # Any prompt will do: the built-in judge reads its slots, never its words.
        labels = {outcome: outcome for outcome in OUTCOMES}
        template = replace(
            asker.template, role=ladders.role, labels=labels, literals=("",), names=()
        )
        log = JudgmentIndex(None, run_of(baseline, template))
        surface = Asker(baseline, template, log).ask(questions)
    return sealed(_certificate(ladders, asker, judgments, surface, of_anchors), _six_digits)


def _six_digits(leaf: object) -> object:
    """Round a number to six digits, so that every machine writes the same certificate."""
    return float(f"{leaf:.6g}") if isinstance(leaf, float) else leaf


def _certificate(
    ladders: LadderSet,
    asker: Asker,
    judgments: Sequence[Judgment],
    surface: Sequence[Judgment],
    across: Sequence[Judgment],
) -> Certificate:
    verdicts = verdict_arrays(judgments, ladders.rungs)
    w = trust.preferences(verdicts, ladders.rungs)
    of_surface = trust.preferences(verdict_arrays(surface, ladders.rungs), ladders.rungs)
    members = _members(ladders)
    of_dimensions = [trust.steps_in_order(w[numbers]) for numbers in members.values()]
    in_order, decided = np.stack(of_dimensions, axis=1)
    needed = trust.contexts_needed(ladders.rungs - 1)
    few = 0 < len(ladders.anchors) < needed
    p_values = trust.sign_test(in_order, decided)
    adjusted = np.array([holm(of_dimension) for of_dimension in p_values.tolist()])
    if few:
        p_values, adjusted = np.full((2, *in_order.shape), np.nan)
    levels = {}
    for place, (name, numbers) in enumerate(members.items()):
        own = w[numbers]
        steps = trust.shown_and_untested(own, None if few else adjusted[place], needed)
        levels[name] = trust.level_verdicts(trust.mean_preferences(own), *steps)
    rows = _ladder_rows(
        ladders, judgments, verdicts=verdicts, w=w, of_surface=of_surface, levels=levels
    )
    tests = np.stack([in_order, decided, p_values, adjusted], axis=1)
    dimensions = []
    for (name, numbers), tests_of in zip(members.items(), tests, strict=True):
        strengths, ties = _strengths(verdicts[numbers], ladders.rungs)
        dimension = _summed(
            OfDimension,
            [rows[number] for number in numbers],
            dimension=name,
            verdict=trust.worst(levels[name]),
            ladders=len(numbers),
            **_surface_of(ladders, name),
            ties=ties,
            levels=tuple(_levels(levels[name], strengths)),
            steps=tuple(_steps(tests_of, w[numbers], of_surface[numbers])),
        )
        dimensions.append(dimension)
    verdicts_on = [each.verdict for each in dimensions]
    sharing = _sharing(ladders, across, few=few)
    if sharing is not None:
        verdicts_on.append(sharing.verdict)
    asked = [*judgments, *across]
    anchors = len(ladders.anchors) if few else 0
    return Certificate(
        ladders=ladders.digest,
        verdict=trust.worst(verdicts_on),
        judge=JudgedBy(fingerprint=asker.backend.fingerprint, signature=asker.signature),
        refladder=__version__,
        counts=_summed(
            Counts,
            rows,
            contexts=len(ladders.context_ids),
            ladders=len(rows),
            rungs=ladders.rungs,
            judgments=len(asked),
            unparsed=sum(judgment.logprobs is None for judgment in asked),
            low_mass=sum(map(has_low_mass, asked)),
        ),
        tests=None if few else {"kind": _TESTS, "tests": adjusted.size, "alpha": trust.ALPHA},
        built=None,
        notes=tuple(_notes(asker, dimensions, ladders.rungs - 1, anchors)),
        dimensions=tuple(dimensions),
        of_ladders=tuple(rows),
        sharing=sharing,
    )


def _members(ladders: LadderSet) -> dict[str, list[int]]:
    """Return the numbers of the ladders of each dimension that has some, in the order of the dimensions."""
    members: dict[str, list[int]] = {dimension.name: [] for dimension in ladders.dimensions}
    for number, (_, name) in enumerate(ladders.ladders):
        members[name].append(number)
    return {name: numbers for name, numbers in members.items() if numbers}


def _levels(verdicts: Sequence[str], strengths: Sequence[float | None]) -> Iterator[Level]:
    for level, verdict in enumerate(verdicts, start=1):
        yield Level(level=level, verdict=verdict, strength=strengths[level - 1])


def _steps(tests: FloatArray, w: FloatArray, of_surface: FloatArray) -> Iterator[Step]:
    """Yield the steps of a dimension.

    `tests` has shape (4, steps): ladders in order, ladders that decide, p-values and corrected ones, NaN without a test.
    """
    columns = zip(*tests, _means(w), _means(of_surface), strict=True)
    for step, (in_order, decided, p_value, adjusted, mean, surface_mean) in enumerate(columns, 1):
        yield Step(
            from_=step,
            to=step + 1,
            in_order=int(in_order),
            decided=int(decided),
            p=known(p_value),
            p_holm=known(adjusted),
            w=mean,
            surface_w=surface_mean,
        )


def _sharing(ladders: LadderSet, judgments: Sequence[Judgment], *, few: bool) -> Sharing | None:
    """Return how often a level of one anchor beats the level below of another, from judgments of `questions_across`.

    A few anchors need a share of all comparisons; of more, those that decide nothing are left out. A set without anchors
    has no sharing.
    """
    number = len(ladders.anchors)
    if not number:
        return None
    ordered, compared = [*itertools.permutations(ladders.anchors, 2)], _directions(ladders.anchors)
    shape = (len(ladders.dimensions), len(ordered), ladders.rungs - 1, 2, len(OUTCOMES))
    verdicts = np.full(shape, np.nan)
    of_pairs = outcome_probabilities(judgments).reshape(shape[0], len(compared), *shape[2:])
    verdicts[:, [ordered.index(each) for each in compared]] = of_pairs
    in_order, decided = trust.across_anchors(verdicts, number)
    if few:
        all_comparisons = 2.0 * len(ladders.dimensions) * (ladders.rungs - 1)
        decided = np.where(np.eye(number) > 0, 0.0, all_comparisons)
    rises, of = in_order[np.triu_indices(number, 1)], decided[np.triu_indices(number, 1)]
    low, high = share_intervals(rises, of).tolist()
    share = float(rises.sum() / of.sum()) if of.any() else math.nan
    limit, passes = trust.LEAST_ACROSS, high >= trust.LEAST_ACROSS
    if few:
        limit, passes = trust.LEAST_OF_FEW, not share < trust.LEAST_OF_FEW
    verdict = trust.PASS if passes else trust.REFUSE
    if number == 1:
        verdict = trust.UNTESTED
    anchors = []
    for name, rising, deciding in zip(ladders.anchors, in_order, decided, strict=True):
        counts = {"in_order": int(rising.sum()), "of": int(deciding.sum())}
        anchors.append(OfAnchor(anchor=name, **counts))
    return Sharing(
        verdict=verdict,
        share=known(share),
        low=known(low),
        high=known(high),
        in_order=int(rises.sum()),
        of=int(of.sum()),
        limit=limit,
        anchors=tuple(anchors),
    )


def _ladder_rows(
    ladders: LadderSet,
    judgments: Sequence[Judgment],
    *,
    verdicts: FloatArray,
    w: FloatArray,
    of_surface: FloatArray,
    levels: Mapping[str, Sequence[str]],
) -> list[OfLadder]:
    """Return what the certificate says of each ladder."""
    disagreements, parsed = trust.order_disagreements(verdicts)
    pairs = np.array(trust.rung_pairs(ladders.rungs))
    asked = 2 * len(pairs)
    rows = []
    for number, ((context_id, name), ladder) in enumerate(ladders.ladders.items()):
        own = _without_copies(trust.rung_verdicts(w[number], levels[name]), ladder)
        in_order, of = _adjacent(w[number])
        surface_in_order, _ = _adjacent(of_surface[number])
        wrong, triples = intransitive_triples(
            ladders.rungs, pairs, w[number][pairs[:, 0], pairs[:, 1]]
        )
        lengths = lengths_of(ladder)
        spearman = correlate(np.arange(1.0, ladders.rungs + 1), lengths)
        row = OfLadder(
            context_id=context_id,
            dimension=name,
            verdict=trust.worst(own),
            rungs=tuple(own),
            adjacent={"in_order": in_order, "of": of},
            intransitive={"count": wrong, "of": triples},
            inconsistent={"count": int(disagreements[number]), "of": int(parsed[number])},
            mass=_mean(each.mass for each in judgments[number * asked : (number + 1) * asked]),
            spearman_length=known(spearman),
            length_climbs=trust.length_climbs(lengths),
            surface_climbs=surface_in_order == ladders.rungs - 1,
        )
        rows.append(row)
    return rows


def _without_copies(verdicts: Sequence[str], ladder: Ladder) -> list[str]:
    """Return the verdicts, with `rewrite` for the copy of a lower rung, whatever the judge prefers."""
    settled: dict[int, str] = {}
    checked = list(verdicts)
    for place, (verdict, rung) in enumerate(zip(verdicts, ladder.rungs, strict=True)):
        if verdict in {trust.REWRITE, trust.DROP}:
            continue
        if same_text(rung.text, settled) is None:
            settled[rung.level] = rung.text
        else:
            checked[place] = trust.REWRITE
    return checked


def _surface_of(ladders: LadderSet, dimension: str) -> dict[str, float]:
    """Return how well length and surface predict the levels of a shared set; one anchor is too little for a rule."""
    if not ladders.anchors:
        return {}
    of_dimension = [each for (_, name), each in ladders.ladders.items() if name == dimension]
    measures = {"length_deviation": length_deviation(np.stack([*map(lengths_of, of_dimension)]))}
    if len(of_dimension) > 1:
        rungs = itertools.chain.from_iterable(ladder.rungs for ladder in of_dimension)
        counts = np.array([surface_counts(rung.text) for rung in rungs], dtype=np.float64)
        by_ladder = counts.reshape(len(of_dimension), ladders.rungs, -1)
        measures["surface_accuracy"] = surface_accuracy(by_ladder)
    return measures


def lengths_of(ladder: Ladder) -> FloatArray:
    """Count the words of each rung, from the worst."""
    return np.array([len(rung.text.split()) for rung in ladder.rungs], dtype=np.float64)


def _adjacent(w: FloatArray) -> tuple[int, int]:
    """Count the steps of a ladder that rise, and the steps that were judged."""
    steps = np.diagonal(w, offset=1)
    return int((np.nan_to_num(steps) > 0.5 + trust.EVEN).sum()), int((~np.isnan(steps)).sum())


def _summed(kind: Callable[..., T], rows: Sequence[OfLadder], **others: object) -> T:
    """Make a record of what `rows` say together, as sums and means, and of the fields that only its kind has."""
    verdicts: Counter[str] = Counter()
    for row in rows:
        verdicts.update(row.rungs)
    of_rungs = {verdict: verdicts[verdict] for verdict in trust.SEVERITY}
    if not of_rungs[trust.UNTESTED]:
        del of_rungs[trust.UNTESTED]
    return kind(
        of_rungs=of_rungs,
        adjacent=_totals(row.adjacent for row in rows),
        intransitive=_totals(row.intransitive for row in rows),
        inconsistent=_totals(row.inconsistent for row in rows),
        mass=_mean(row.mass for row in rows),
        spearman_length=_mean(row.spearman_length for row in rows),
        length_climbs=sum(row.length_climbs for row in rows),
        surface_climbs=sum(row.surface_climbs for row in rows),
        **others,
    )


def _totals(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of each count; none is left out where it is 0."""
    totals: defaultdict[str, int] = defaultdict(int)
    for each in counts:
        for name, count in each.items():
            totals[name] += count
    return dict(totals)


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the known values; None without one."""
    known = without_none(values)
    return sum(known) / len(known) if known else None


def _means(w: FloatArray) -> list[float | None]:
    """Return the mean preference of each step over what was judged; None where nothing was."""
    return list(map(known_mean, np.diagonal(w, offset=1, axis1=1, axis2=2).T))


def _strengths(verdicts: FloatArray, rungs: int) -> tuple[list[float | None], float | None]:
    """Fit Davidson strengths of the levels over all ladders, and the weight of a tie.

    The lowest level is at 0. Only the largest group of levels that comparisons connect has strengths.
    """
    wins, ties = np.zeros((rungs, rungs)), np.zeros((rungs, rungs))
    for number, (low, high) in enumerate(trust.rung_pairs(rungs)):
        first, second = verdicts[:, number, 0], verdicts[:, number, 1]
        wins[high, low] = np.nansum(first[:, 0]) + np.nansum(second[:, 1])
        wins[low, high] = np.nansum(first[:, 1]) + np.nansum(second[:, 0])
        ties[low, high] = ties[high, low] = np.nansum(first[:, 2]) + np.nansum(second[:, 2])
    strengths: list[float | None] = [None] * rungs
    labels = components(rungs, np.argwhere(wins + wins.T + ties > 0))
    (levels,) = np.nonzero(labels == np.bincount(labels).argmax())
    if len(levels) == 1:
        return strengths, None
    group = np.ix_(levels, levels)
    try:
        fit = davidson(wins[group], ties[group])
    except NotConvergedError:
        return strengths, None
    for level, strength in zip(levels, fit.strengths - fit.strengths[0], strict=True):
        strengths[level] = float(strength)
    return strengths, fit.ties


def _notes(asker: Asker, dimensions: Sequence[OfDimension], tests: int, anchors: int) -> list[str]:
    """Return what a reader of the certificate must know; `anchors` is their number where it is too small to test.

    `tests` are those of a dimension.
    """
    notes = []
    if asker.backend.fingerprint == connect(_SURFACE).fingerprint:
        notes.append(
            "The judge is builtin, which measures the surface of texts and reads no meaning: a pass says that surface "
            "features rise, not that quality does. Certify with the judge that scores."
        )
    if asker.backend.rewards:
        notes.append(f"{NO_DIMENSION.capitalize()}. Compare w with surface w.")
    needed = trust.contexts_needed(tests)
    if anchors:
        notes.append(
            f"{plural(anchors, 'anchor')}: a sign test of {plural(tests, 'step')} needs {needed} to have any power, so "
            "there are no p-values. The set passes if every step of every anchor is in order, and a level of one "
            f"anchor beats the level below of another in at least {trust.LEAST_OF_FEW:g} of the comparisons."
        )
    few = [each for each in dimensions if each.ladders < needed]
    if few and not anchors:
        have = ", ".join(f"{each.dimension} {each.ladders} of {needed}" for each in few)
        notes.append(
            f"Too few ladders for a verdict: {have}. No sign test of {plural(tests, 'step')} can pass with them even if all "
            "ladders rise; build ladders for more contexts."
        )
    unfitted = []
    for each in dimensions:
        judged = any(step.w is not None for step in each.steps)
        if judged and each.ties is None:
            unfitted.append(each.dimension)
    if unfitted:
        notes.append(
            f"{', '.join(unfitted)}: no strengths and no spacing, because the fit of Davidson's model did not converge."
        )
    return notes
