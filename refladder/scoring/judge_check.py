"""A judge proves itself: before it scores, it compares the best rung of ladders with the worst."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from refladder.backends.dry_run import DryRunBackend
from refladder.errors import JudgeRefusedError, option, plural
from refladder.files.jsonl import read_record, write_record
from refladder.records import SCHEMAS, JudgeCheck, digest_of
from refladder.scoring.asker import Asker, trusted
from refladder.scoring.judgment_file import JudgmentIndex
from refladder.scoring.modes import mode_of
from refladder.scoring.question import drawn_ladders
from refladder.scoring.unread import unread_error
from refladder.statistics.certificate import ALPHA, sign_test
from refladder.statistics.rate import wilson

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Dimension, Judgment, Progress, Run
    from refladder.scoring.modes import Mode
    from refladder.scoring.modes.mode import Group
    from refladder.scoring.scorer import LadderScorer

# From how many ladders of a dimension a pass means something and the sign test refuses.
FEWEST = 12
# Ladders that could be read, below which no judge is refused.
LEAST = 5
# Share of the ladders: 5 of 12 is refused (interval .19 to .68), and 12 of 12 passes (.76 to 1).
NEEDED = 0.7
_UNSHOWN = "not shown to distinguish the best rung from the worst better than chance"


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
    run = mode.run(scorer.judge, template, scorer.run.recipe.sampling)
    drawn, files, known, new = {}, {}, {}, {}
    for dimension in scorer.dimensions:
        name = dimension.name
        groups = drawn_questions(scorer.ladders, dimension, mode, scorer.dimensions)
        path = _file(folder, run, groups, scorer.scale.least_mass)
        if path and path.exists():
            known[name] = read_record(JudgeCheck, path)
        # Answers that could not be read are read again.
        if name not in known or known[name].unparsed:
            new[name] = groups
        drawn[name], files[name] = groups, path
    if ask and new:
        groups = list(itertools.chain(*new.values()))
        prompts = mode.prompts(template, len(groups), sum(map(len, groups)))
        (progress or _silent)(0, prompts, "judge check before the first row", 1)
        index = JudgmentIndex(None, run)
        asker = Asker(scorer.judge, template, index, scorer.scale.least_mass)
        for check in judge_checks(scorer.ladders, asker, new):
            known[check.dimension] = check
            if (path := files[check.dimension]) and check.read:
                write_record(path, check)
        if not any(check.read for check in known.values()):
            _refuse_unread(scorer, trusted(list(index.judgments.values()), asker.least_mass))
    checks = [known[name] for name in drawn if name in known]
    scorer.notes = check_notes(checks)
    refused = _failed(checks)[0]
    if refused and not scorer.any_judge:
        old = [files[check.dimension] for check in refused if check.dimension not in new]
        fingerprint = scorer.judge.fingerprint
        raise JudgeRefusedError(
            f"{fingerprint} is {_UNSHOWN} ({_counts(refused)}): {_remedy(fingerprint, old)}"
        )
    return checks


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
    asked = ladders.dimensions if dimensions is None else dimensions
    groups: list[Group] = []
    for context, ladder in drawn_ladders(ladders, dimension):
        groups += mode.check_questions(ladders, context, dimension, ladder, asked)
    return groups


def judge_checks(
    ladders: LadderSet, asker: Asker, drawn: Mapping[str, Sequence[Group]] | None = None
) -> list[JudgeCheck]:
    """Ask the `drawn_questions`, None for all, and return the check of each dimension; a dry run counts them and has none.

    What counts as read is what counts in rows.
    """
    mode = mode_of(asker.log.run.mode)
    if drawn is None:
        drawn = {each.name: drawn_questions(ladders, each, mode) for each in ladders.dimensions}
    asked = sorted(itertools.chain(*drawn.values()), key=lambda group: group[0].context.id)
    answered = mode.ask(asker, asked)
    judgments = {}
    for question, judgment in zip(itertools.chain(*asked), answered, strict=True):
        judgments[question.comparison] = judgment
    if isinstance(asker.backend, DryRunBackend):
        return []
    checks = []
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
            )
        )
    return checks


def check_lines(checks: Sequence[JudgeCheck]) -> tuple[list[str], list[str]]:
    """Write what the checks show, and warnings about dimensions that are refused or without a proof."""
    if not checks:
        return [], []
    groups = _failed(checks)
    failed, too_few, doubtful = map(_counts, groups)
    warnings = [unread] if (unread := unread_line(checks)) else []
    if failed:
        warnings.append(f"The judge is {_UNSHOWN} ({failed}); do not rely on its scores.")
    if too_few:
        warnings.append(
            f"The judge is {_UNSHOWN} ({too_few}). It is not refused, because these are too few ladders."
        )
    if doubtful:
        share = f"{100 * NEEDED:.0f} %"
        why = f"a proof needs {FEWEST} ladders, and a 95 % interval of the share above {share}"
        if all(check.read >= FEWEST for check in groups[2]):
            why = f"the lower end of the 95 % interval of the share is below {share}"
        warnings.append(
            f"The judge check is no proof ({doubtful}): {why}. `refladder certify` shows more."
        )
    return [f"judge check, best rung against the worst: {_counts(checks)}"], warnings


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
    failed, too_few, _ = _failed(checks)
    notes = {}
    for check in [*failed, *too_few]:
        notes[check.dimension] = f"the judge is {_UNSHOWN} ({_counts([check])})"
    return notes


def _failed(
    checks: Sequence[JudgeCheck],
) -> tuple[list[JudgeCheck], list[JudgeCheck], list[JudgeCheck]]:
    """Return the checks that refuse a judge, those with too few ladders to, and the others without a proof.

    Dimensions with fewer than 12 ladders count together.
    """
    failed: list[JudgeCheck] = []
    too_few: list[JudgeCheck] = []
    doubtful: list[JudgeCheck] = []
    small = [check for check in checks if check.read < FEWEST]
    for check in checks:
        together = small if check in small else [check]
        read = sum(each.read for each in together)
        right = sum(each.right for each in together)
        _, low, high = wilson(right, read) if read else (None, None, None)
        below = high is not None and high < NEEDED
        # A judge that guesses is right on half of the ladders. Few ladders do not show whether it is .5 or .9.
        p_value = sign_test(np.floor(np.array([right])), np.array([read])).item()
        guesses = p_value > ALPHA
        # One dimension may refuse a judge that is right on the others.
        alone = check.read >= LEAST and check.high is not None and check.high < NEEDED
        if alone or (read >= LEAST and below) or (read >= FEWEST and guesses):
            failed.append(check)
        elif below or (read >= LEAST and guesses):
            too_few.append(check)
        elif low is None or low < NEEDED or sum(each.compared for each in together) < FEWEST:
            doubtful.append(check)
    return failed, too_few, doubtful


def _counts(checks: Sequence[JudgeCheck]) -> str:
    counts = []
    for check in checks:
        count = f"{check.right:g} of {plural(check.read, 'ladder')}"
        if check.unparsed:
            count += f" and {plural(check.unparsed, 'answer')} unparsed"
        if not check.compared:
            count = "not checked, as the set has no texts of its contexts"
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
        str(run.answers),
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
