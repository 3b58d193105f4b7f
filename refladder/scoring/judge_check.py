"""A judge proves itself: before it scores, it compares the best rung of ladders with the worst."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from refladder.backends.dry_run import DryRunBackend
from refladder.errors import JudgeRefusedError, option, plural
from refladder.files.jsonl import read_record, write_record
from refladder.records import SCHEMAS, JudgeCheck, digest_of
from refladder.scoring.asker import Asker, calls_of, outcome_probabilities, run_of
from refladder.scoring.judgment_file import JudgmentIndex
from refladder.scoring.question import comparison_of, rung_side
from refladder.scoring.stated import Stated
from refladder.trust.certificate import EVEN
from refladder.trust.rate import wilson

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Dimension, Progress, Run
    from refladder.scoring.question import Question
    from refladder.scoring.scorer import LadderScorer

# How many ladders of a dimension are compared, and how many a pass needs to mean something.
MOST, FEWEST = 16, 12
# Ladders that could be read, below which no judge is refused.
LEAST = 5
# Share of the ladders: 5 of 12 is refused (interval .19 to .68), and 12 of 12 passes (.76 to 1).
NEEDED = 0.7
SEED = 0


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
    if scorer.judge.recorded is not None:
        return []
    stated = bool(scorer.run.stated)
    answers = scorer.run.answers
    run = run_of(
        scorer.judge,
        scorer.template,
        answers=answers,
        stated=int(stated),
        sampling=scorer.run.recipe.sampling,
    )
    drawn = {
        each.name: drawn_questions(scorer.ladders, each, stated=stated)
        for each in scorer.dimensions
    }
    files = {name: _file(folder, run, questions) for name, questions in drawn.items()}
    known = {
        name: read_record(JudgeCheck, path)
        for name, path in files.items()
        if path and path.exists()
    }
    # Answers that could not be read are read again.
    new = {
        name: questions
        for name, questions in drawn.items()
        if name not in known or known[name].unparsed
    }
    if ask and new:
        if progress is not None:
            count = sum(map(len, new.values()))
            prompts = (
                count // (scorer.ladders.rungs - 1)
                if stated
                else count * calls_of(scorer.template, answers)
            )
            progress(0, prompts, "judge check before the first row", 1)
        asker = Asker(scorer.judge, scorer.template, JudgmentIndex(None, run))
        for check in judge_checks(scorer.ladders, asker, new):
            known[check.dimension] = check
            if (path := files[check.dimension]) and check.read:
                write_record(path, check)
    checks = [known[name] for name in drawn if name in known]
    refused = _failed(checks)[0]
    if refused and not scorer.any_judge:
        advice = "`refladder certify` shows whether the judge or the ladders are at fault, and "
        if scorer.judge.fingerprint.startswith("builtin/"):
            advice = f"builtin counts words and reads no meaning, so name a judge model with {option('judge')}; "
        remedy = f"{advice}{option('any-judge')} scores anyway"
        old = [files[check.dimension] for check in refused if check.dimension not in new]
        if len(old) == 1:
            remedy += f"; delete the stored result {old[0]} to ask again"
        elif old:
            remedy += f"; delete the stored results ({len(old)}) in {folder} to ask again"
        raise JudgeRefusedError(
            f"{scorer.judge.fingerprint} does not distinguish the best rung from the worst ({_counts(refused)}): "
            f"{remedy}"
        )
    return checks


def drawn_questions(
    ladders: LadderSet, dimension: Dimension, *, stated: bool = False
) -> list[Question]:
    """Compare the best rung with the worst in both orders, on ladders with contexts that a fixed seed draws.

    A judge that states probabilities compares the best rung, and then the worst, with all other rungs of its ladder.
    """
    able = [
        (ladders.contexts[context_id], ladder)
        for (context_id, name), ladder in ladders.ladders.items()
        if name == dimension.name and context_id in ladders.contexts
    ]
    chosen = np.random.default_rng(SEED).permutation(len(able))[:MOST].tolist()
    questions = []
    for number in sorted(chosen):
        context, ladder = able[number]
        anchor = context if ladders.anchors else None
        sides = [rung_side(rung, anchor) for rung in ladder.rungs]
        worst, best = sides[0], sides[-1]
        pairs = [(best, worst), (worst, best)]
        if stated:
            pairs = [(best, other) for other in sides[:-1]]
            pairs += [(worst, other) for other in sides[1:]]
        questions += [comparison_of(context, dimension, *pair) for pair in pairs]
    return questions


def judge_checks(
    ladders: LadderSet, asker: Asker, drawn: Mapping[str, Sequence[Question]] | None = None
) -> list[JudgeCheck]:
    """Ask the `drawn_questions`, None for all, and return the check of each dimension; a dry run counts them and has none.

    An answer of low label mass counts too: it says which rung the judge prefers, and rows have their own warning.
    """
    stated = asker.log.run.stated > 0
    if drawn is None:
        drawn = {
            each.name: drawn_questions(ladders, each, stated=stated) for each in ladders.dimensions
        }
    asked = sorted(
        (each for questions in drawn.values() for each in questions),
        key=lambda each: each.context.id,
    )
    if stated:
        size = ladders.rungs - 1
        ends = [asked[start : start + size] for start in range(0, len(asked), size)]
        answered = Stated(asker).ask(ends)
    else:
        answered = replace(asker, least_mass=0).ask(asked)
    judgments = {
        question.comparison: judgment for question, judgment in zip(asked, answered, strict=True)
    }
    if isinstance(asker.backend, DryRunBackend):
        return []
    checks = []
    for name, questions in drawn.items():
        shares = outcome_probabilities([judgments[question.comparison] for question in questions])
        each = shares.reshape(-1, 2, ladders.rungs - 1 if stated else 1, 3).mean(axis=2)
        # Above 0, the best rung is preferred.
        preferred = (each[:, :, 0] - each[:, :, 1]) * (1, -1)
        preferred[np.abs(preferred) <= EVEN] = 0
        # A ladder is right if the best rung gets a mean above 50, and the worst one below.
        if stated:
            preferred = np.min(preferred, axis=1, keepdims=True)
            preferred[preferred == 0] = -1
        answers = np.where(np.isnan(preferred), np.nan, (np.sign(preferred) + 1) / 2)
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
                compared=len(each),
                right=right,
                read=read,
                unparsed=int(np.isnan(preferred).sum()),
                low=interval and interval.low,
                high=interval and interval.high,
            )
        )
    return checks


def check_lines(checks: Sequence[JudgeCheck]) -> tuple[list[str], list[str]]:
    """Write what the checks show, and warnings about dimensions that are refused or without a proof."""
    if not checks:
        return [], []
    failed, too_few, doubtful = map(_counts, _failed(checks))
    warnings = []
    if failed:
        warnings.append(
            f"The judge does not distinguish the best rung from the worst ({failed}); its scores mean nothing."
        )
    if too_few:
        warnings.append(
            f"The judge seems not to distinguish the best rung from the worst ({too_few}). It is not refused, because "
            f"this needs {LEAST} ladders with an answer that can be read."
        )
    if doubtful:
        warnings.append(
            f"The judge check is no proof ({doubtful}): a proof needs {FEWEST} ladders, and a 95 % interval of the "
            f"share above {100 * NEEDED:.0f} %. `refladder certify` shows more."
        )
    return [f"judge check, best rung against the worst: {_counts(checks)}"], warnings


def _failed(
    checks: Sequence[JudgeCheck],
) -> tuple[list[JudgeCheck], list[JudgeCheck], list[JudgeCheck]]:
    """Return the checks that refuse a judge, those that would with more ladders, and the others without a proof."""
    failed: list[JudgeCheck] = []
    too_few: list[JudgeCheck] = []
    doubtful: list[JudgeCheck] = []
    for check in checks:
        together = [each for each in checks if each.shared and check.shared] or [check]
        read = sum(each.read for each in together)
        _, low, high = (
            wilson(sum(each.right for each in together), read) if read else (None, None, None)
        )
        if high is not None and high < NEEDED:
            (failed if read >= LEAST else too_few).append(check)
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
            count = f"no verdict ({plural(check.unparsed, 'answer')} unparsed)"
        counts.append(f"{check.dimension} {count}")
    return ", ".join(counts)


def _file(folder: Path | None, run: Run, questions: Sequence[Question]) -> Path | None:
    """Return the file of a check, named by all that decides it: judge, template, answers and the texts of the set."""
    if folder is None:
        return None
    asked = [
        run.recipe.backend,
        *run.recipe.prompts,
        str(run.answers),
        *(question.key for question in questions),
    ]
    words = [SCHEMAS[JudgeCheck], *asked]
    return folder / f"{digest_of(json.dumps(words), size=12)}.json"


def missing_line(scorer: LadderScorer, checks: Sequence[JudgeCheck]) -> str:
    """Name the dimensions on which the judge of texts without a table has no check; empty if it has all."""
    known = {check.dimension for check in checks}
    missing = ", ".join(
        dimension.name for dimension in scorer.dimensions if dimension.name not in known
    )
    return missing and f"judge check: not made yet on {missing}; scoring a table makes it"
