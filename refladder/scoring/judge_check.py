"""A judge proves itself: before it scores, it compares the best rung of ladders with the worst."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import bdtr

from refladder.backends.dry_run import DryRunBackend
from refladder.errors import JudgeRefusedError, option, plural
from refladder.files.jsonl import read_record, write_record
from refladder.records import SCHEMAS, JudgeCheck, by_name, digest_of
from refladder.scoring.asker import Asker, run_of
from refladder.scoring.judgment_file import JudgmentIndex
from refladder.scoring.modes.mode import Scope
from refladder.scoring.question import drawn_ladders
from refladder.scoring.unread import unread_error
from refladder.scoring.verdicts import trusted
from refladder.scoring.written import ask_groups
from refladder.statistics.certificate import sign_test
from refladder.statistics.rate import wilson
from refladder.statistics.surface import length_rise, right_by_length

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Dimension, Judgment, Progress, Run
    from refladder.scoring.modes import Mode
    from refladder.scoring.modes.mode import Group
    from refladder.scoring.scorer import LadderScorer

# From how many ladders a pass means something, and the sign test of all ladders of a run refuses.
FEWEST = 12
# With fewer ladders, even a judge that is right on all of them is not significantly better than chance.
LEAST = 5
# A good judge is right on this share of the ladders, and hardly ever refused.
GOOD = 0.9
# The error of the sign tests, and of all refusals of a good judge by single dimensions together.
ALPHA = 0.05
_ROUNDING = 1e-9
# Share of the ladders that a conclusive check shows: 12 of 12 has an interval from .76, and 11.5 of 12 one from .699.
NEEDED = 0.7
_UNSHOWN = "not significantly better than chance at telling the best rung from the worst"


def prove(
    scorer: LadderScorer,
    folder: Path | None,
    *,
    ask: bool = True,
    progress: Progress | None = None,
) -> list[JudgeCheck]:
    """Check a scorer's judge on each dimension; checks are remembered in `folder`. Recorded judgments have none.

    Without `ask`, a dimension that is not remembered has no check. `progress` is that of the rows that follow.
    """
    if scorer.judge.recorded is not None or not scorer.ladders.ladders:
        return []
    mode = scorer.mode.of_check(scorer.ladders)
    template = scorer.template_of(mode)
    sampling = mode.sampling(scorer.judge, scorer.run.recipe.sampling)
    run = run_of(scorer.judge, template, answers=mode.name, sampling=sampling)
    drawn, files, known, new = {}, {}, {}, {}
    for dimension in scorer.dimensions:
        name = dimension.name
        groups = drawn_questions(scorer.ladders, dimension, mode, scorer.dimensions)
        path = _file(folder, run, groups, scorer.scale.least_mass)
        if path and path.exists():
            # A check of an earlier version was stored without this count.
            by_length = _by_length(scorer.ladders, dimension)
            known[name] = replace(read_record(JudgeCheck, path), by_length=by_length)
        # Answers that could not be read are read again.
        if name not in known or known[name].unparsed:
            new[name] = groups
        drawn[name], files[name] = groups, path
    if ask and new:
        groups = list(itertools.chain(*new.values()))
        prompts = mode.prompts(template, groups)
        (progress or _silent)(0, prompts, "judge check before the first row", 1)
        index = JudgmentIndex(None, run)
        index.take(scorer.rung_judgments)
        asker = Asker(scorer.judge, template, index, scorer.scale.least_mass, rungs_anew=True)
        found = judge_checks(scorer.ladders, asker, new)
        scorer.rung_judgments = list(index.judgments.values())
        for check in found:
            known[check.dimension] = check
            if (path := files[check.dimension]) and check.read:
                write_record(path, check)
        if not any(check.read for check in known.values()):
            _refuse_unread(scorer, trusted(list(index.judgments.values()), asker.least_mass))
    checks = [known[name] for name in drawn if name in known]
    take_checks(scorer, checks)
    refused = _judged(checks)[0]
    if refused and not scorer.any_judge:
        old = [files[check.dimension] for check in refused if check.dimension not in new]
        fingerprint = scorer.judge.fingerprint
        raise JudgeRefusedError(
            f"{fingerprint} is {_UNSHOWN} ({_refused(checks)}): {_remedy(fingerprint, old)}"
        )
    return checks


def take_checks(scorer: LadderScorer, checks: Sequence[JudgeCheck]) -> None:
    """Let the scores of a scorer say what the checks of its judge show."""
    scorer.notes = check_notes(checks)
    scorer.refused = refused_on(checks)


def _silent(*_: object) -> None:
    """Show no progress."""


def _refuse_unread(scorer: LadderScorer, judged: Sequence[Judgment]) -> None:
    """Raise JudgeRefusedError where no answer could be read; that any judge may score does not change it."""
    # Answers in files are all there, and can be corrected.
    if judged and not scorer.judge.wants_all and not isinstance(scorer.judge, DryRunBackend):
        raise unread_error(scorer.judge.fingerprint, "the judge check", judged)


def _remedy(fingerprint: str, stored: Sequence[Path | None]) -> str:
    """Return the next steps after the refusal of a judge, of which some checks were stored before."""
    advice = "`refladder certify` shows whether the judge or the ladders are at fault, and "
    if fingerprint.startswith("builtin/"):
        advice = f"builtin counts words and reads no meaning, so name a judge model with {option('judge')}; "
    remedy = f"{advice}{option('any-judge')} scores anyway"
    if len(stored) == 1:
        remedy += f"; delete the stored result {stored[0]} to ask again"
    elif stored and stored[0]:
        folder = stored[0].parent
        remedy += f"; delete the stored results ({len(stored)}) in {folder} to ask again"
    return remedy


def drawn_questions(
    ladders: LadderSet,
    dimension: Dimension,
    mode: Mode,
    dimensions: Sequence[Dimension] | None = None,
) -> list[Group]:
    """Return what a mode asks about the ladders that are drawn; `dimensions` are all that are scored."""
    scope = Scope(ladders, ladders.dimensions if dimensions is None else dimensions)
    groups: list[Group] = []
    for context, ladder in drawn_ladders(ladders, dimension):
        groups += mode.check_groups(scope, context, dimension, ladder)
    return groups


def judge_checks(
    ladders: LadderSet, asker: Asker, drawn: Mapping[str, Sequence[Group]] | None = None
) -> list[JudgeCheck]:
    """Ask the `drawn_questions`, None for all, and return the check of each dimension; a dry run counts them and has none.

    What counts as read is what counts in rows.
    """
    mode = asker.log.mode
    if drawn is None:
        drawn = {each.name: drawn_questions(ladders, each, mode) for each in ladders.dimensions}
    asked = sorted(itertools.chain(*drawn.values()), key=lambda group: group[0].context.id)
    answered = ask_groups(asker, asked)
    judgments = {}
    for question, judgment in zip(itertools.chain(*asked), answered, strict=True):
        judgments[question.comparison] = judgment
    if isinstance(asker.backend, DryRunBackend):
        return []
    checks = []
    dimensions = by_name(ladders.dimensions)
    for name, groups in drawn.items():
        of_dimension = [judgments[question.comparison] for question in itertools.chain(*groups)]
        answers = mode.check_answers(of_dimension, ladders.rungs)
        parsed = [ladder[~np.isnan(ladder)] for ladder in answers]
        means = [ladder.mean() for ladder in parsed if len(ladder)]
        right = float(np.sum(means))
        read = len(means)
        interval = wilson(right, read) if read else None
        checks.append(
            JudgeCheck(
                judge=asker.backend.fingerprint,
                ladders=ladders.digest,
                template=asker.template.signature,
                dimension=name,
                shared=bool(ladders.anchors),
                compared=len(answers),
                right=right,
                read=read,
                unparsed=int(np.isnan(answers).sum()),
                low=interval and interval.low,
                high=interval and interval.high,
                note=next((each.note for each in of_dimension if each.logprobs is None), None),
                by_length=_by_length(ladders, dimensions[name]),
            )
        )
    return checks


def _by_length(ladders: LadderSet, dimension: Dimension) -> int:
    """Count the ladders of a check in which a rule of length alone finds the best rung."""
    drawn = (ladder.rungs for _, ladder in drawn_ladders(ladders, dimension))
    return right_by_length(Counter(length_rise(rungs[0].text, rungs[-1].text) for rungs in drawn))


def check_lines(checks: Sequence[JudgeCheck]) -> tuple[list[str], list[str]]:
    """Format the results of the checks, and a warning for each dimension that failed or is inconclusive."""
    if not checks:
        return [], []
    groups = _judged(checks)
    failed, (unshown, doubtful) = _refused(checks), map(_counts, groups[1:])
    warnings = [unread] if (unread := unread_line(checks)) else []
    if failed:
        warnings.append(f"The judge is {_UNSHOWN} ({failed}); do not rely on its scores.")
    if unshown:
        warnings.append(
            f"The judge is {_UNSHOWN} ({unshown}). It is not refused, because a judge that is right on "
            f"{100 * GOOD:.0f} % of the ladders may do as badly by chance."
        )
    if doubtful:
        share = f"{100 * NEEDED:.0f} %"
        why = f"it takes {FEWEST} ladders, and a 95 % interval above {share}"
        if all(check.read >= FEWEST for check in groups[2]):
            why = f"the 95 % interval reaches below {share}"
        warnings.append(
            f"The judge check is inconclusive ({doubtful} correct; {why}). `refladder certify` shows more."
        )
    shown = [f"judge check, best rung against the worst: {_counts(checks)}"]
    of_length = []
    for check in checks:
        if check.by_length and _beats_chance(check.by_length, check.compared):
            of_length.append(f"{check.dimension} {check.by_length} of {check.compared}")
    if of_length:
        shown.append(
            f"a rule of length alone (characters) is right on {', '.join(of_length)}; the check does not show that a judge "
            "reads more than length there"
        )
    return shown, warnings


def unread_line(checks: Sequence[JudgeCheck]) -> str:
    """Say why the first answer that could not be read could not; empty if all could."""
    unread = [check for check in checks if check.note]
    if not unread:
        return ""
    count = plural(sum(check.unparsed for check in unread), "answer")
    line = f"{count} of the judge check could not be read, the first because: {unread[0].note}"
    # Only answers in files have a place.
    again = "; correct the line and run the same command again" if "custom_id" in line else ""
    return line + again


def checks_json(checks: Sequence[JudgeCheck]) -> dict[str, object]:
    """Return the check of a judge as the JSON of a run has it."""
    listed = list(map(asdict, checks))
    return {"judge_check": listed or None, "judge_check_notes": check_notes(checks)}


def check_notes(checks: Sequence[JudgeCheck]) -> dict[str, str]:
    """Return the note of scored rows by dimension, for dimensions on which the judge is not better than chance."""
    refused, unshown, _ = _judged(checks)
    return _notes_of([*refused, *unshown])


def refused_on(checks: Sequence[JudgeCheck]) -> dict[str, str]:
    """Return why a judge is refused, by dimension: ratings get no grade there, also where any judge may score."""
    return _notes_of(_judged(checks)[0])


def _notes_of(checks: Sequence[JudgeCheck]) -> dict[str, str]:
    return {check.dimension: f"the judge is {_UNSHOWN} ({_counts([check])})" for check in checks}


def _judged(
    checks: Sequence[JudgeCheck],
) -> tuple[list[JudgeCheck], list[JudgeCheck], list[JudgeCheck]]:
    """Return the checks that refuse a judge, those not better than chance that do not, and inconclusive ones.

    For the last two groups, dimensions with fewer than 12 ladders count together.
    """
    refused = _bad_alone(checks)
    if not refused and _fails_together(checks):
        refused = [check for check in checks if not _beats_chance(check.right, check.read)]
    unshown: list[JudgeCheck] = []
    doubtful: list[JudgeCheck] = []
    small = [check for check in checks if check.read < FEWEST]
    for check in checks:
        pooled = small if check in small else [check]
        read, right = _summed(pooled)
        low = wilson(right, read).low if read else None
        if check in refused:
            continue
        if read >= LEAST and not _beats_chance(right, read):
            unshown.append(check)
        elif low is None or low < NEEDED or sum(each.compared for each in pooled) < FEWEST:
            doubtful.append(check)
    return refused, unshown, doubtful


def _bad_alone(checks: Sequence[JudgeCheck]) -> list[JudgeCheck]:
    """Return the dimensions on which a good judge would be right so rarely with less than .05 / their number."""
    bad = []
    for check in checks:
        # A ladder with one right order may count for the judge.
        if bdtr(math.ceil(check.right - _ROUNDING), check.read, GOOD) < ALPHA / len(checks):
            bad.append(check)
    return bad


def _fails_together(checks: Sequence[JudgeCheck]) -> bool:
    """Return whether all ladders of a run together, if they are not too few, do not beat chance."""
    read, right = _summed(checks)
    return read >= FEWEST and not _beats_chance(right, read)


def _summed(checks: Sequence[JudgeCheck]) -> tuple[int, float]:
    """Return the ladders of checks that could be read, and those that are right."""
    return sum(check.read for check in checks), sum(check.right for check in checks)


def _refused(checks: Sequence[JudgeCheck]) -> str:
    """Count the right ladders of the dimensions that refuse a judge; those of all, where only these together do."""
    counts = _counts(_judged(checks)[0])
    if len(checks) > 1 and counts and not _bad_alone(checks):
        read, right = _summed(checks)
        counts += f"; together {right:g} of {plural(read, 'ladder')}"
    return counts


def _beats_chance(right: float, of: int) -> bool:
    """Return whether significantly more than half of the ladders are right; halves are rounded down."""
    return sign_test(np.floor(np.array([right])), np.array([of])).item() <= ALPHA


def _counts(checks: Sequence[JudgeCheck]) -> str:
    counts = []
    for check in checks:
        count = f"{check.right:g} of {plural(check.read, 'ladder')}"
        if check.unparsed:
            count += f" and {plural(check.unparsed, 'answer')} unparsed"
        if not check.compared:
            count = "not checked, as no text of a context of the set is known before the first row"
        elif check.low is None or check.high is None:
            count = f"no verdict with {plural(check.unparsed, 'answer')} unparsed"
        counts.append(f"{check.dimension} {count}")
    return ", ".join(counts)


def _file(folder: Path | None, run: Run, groups: Sequence[Group], least_mass: float) -> Path | None:
    """Return the file of a check, named by all that decides it: judge, template, answers and the texts of the set."""
    if folder is None:
        return None
    asked = [
        run.recipe.backend,
        *run.recipe.prompts,
        run.answers,
        f"least-mass:{least_mass:g}",
        *(question.key for question in itertools.chain(*groups)),
    ]
    words = [SCHEMAS[JudgeCheck], *asked]
    return folder / f"{digest_of(json.dumps(words), size=12)}.json"


def notice_of(scorer: LadderScorer) -> str:
    """Say what the judge check cannot show of a set in this mode; empty without such a limit."""
    if not scorer.ladders.ladders:
        name = scorer.ladders.name.removeprefix("criteria:")
        return f"{name} has criteria and no ladders, so there is no judge check and no grade"
    mode = scorer.mode.of_rungs(scorer.ladders)
    if mode.name == scorer.mode.name:
        return ""
    return (
        f"judge check: as with {option('answers')} {mode.name}, because a rung cannot be an example for itself, and no "
        "other anchor has examples"
    )


def missing_line(scorer: LadderScorer, checks: Sequence[JudgeCheck]) -> str:
    """Name the dimensions on which the judge of texts without a table has no check; empty if it has all."""
    if not scorer.ladders.ladders:
        return ""
    known = {check.dimension for check in checks}
    missing = [each.name for each in scorer.dimensions if each.name not in known]
    if not missing:
        return ""
    return f"judge check: not made yet on {', '.join(missing)}; scoring a table makes it"
