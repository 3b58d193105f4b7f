"""certify, publish, show, diff and audit as calls on ladder sets; the same jobs and results as the commands."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.api.frames import Frame, checked, in_words_of_python, record_or_path, with_parameters, written
from refladder.api.judges import Backends, check_asking
from refladder.errors import UsageError
from refladder.files.ladder_sets import LadderSet, load_ladders, write_certificate
from refladder.jobs import audit as auditing
from refladder.jobs import publish as publishing
from refladder.jobs.certify import Asking, rungs_to_certify
from refladder.jobs.certify import certify as certified
from refladder.jobs.diff import compare_sets
from refladder.jobs.show import contexts_in, ladder_json, ladders_of
from refladder.report.progress import progress
from refladder.scoring.judging import LEAST_MASS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.backends import Backend
    from refladder.backends.plain_function import Judge
    from refladder.jobs.diff import Difference
    from refladder.records import Link

_LOG = logging.getLogger("refladder")


@checked
def certify(
    ladders: str | Path | LadderSet,
    *,
    judge: str | Backend | Judge = "builtin",
    judge_options: Mapping[str, object] | None = None,
    least_mass: float = LEAST_MASS,
    answers: int = 0,
    prompts: str | Path | None = None,
    judgments: str | Path | None = None,
    restart: bool = False,
    store: str | Path | bool | None = None,
) -> dict[str, Any]:
    """Judge every pair of rungs of every ladder in both orders, and say whether the ladders rise: `refladder certify`.

    Args:
        ladders: a folder, which gets the certificate; or a shipped name, an address or a set from `load_ladders`, which
            do not.
        judge: a backend by name, an open one, or a function.
        judge_options: options of a named judge.
        least_mass: least label mass, a probability; a judgment below it is unparsed.
        answers: answers to sample for each question; 0 reads label probabilities.
        prompts: folder of templates that replace the shipped ones.
        judgments: file that stores the judgments; None for `certificate.judgments.jsonl` in the folder, or none without
            a folder.
        restart: discard the judgments in that file.
        store: response store; None for the default of the command line, False for none.

    Returns:
        The certificate: plain JSON values, with `verdict` (pass, rewrite, drop or refuse) for the set, each dimension,
        level and ladder; `docs/reference/files.md` describes its keys. What could not be judged is None, and counted.

    Raises:
        UnknownNameError, UsageError, PromptError: an argument is wrong, or the set has no texts of its contexts.
        DataError: the set or the judgments cannot be read or written.
        BackendError: the judge failed; its judgments so far are stored, if they have a file.
    """
    given = {name: value for name, value in locals().items() if name != "ladders"}
    with ExitStack() as stack:
        stack.enter_context(in_words_of_python(given))
        check_asking(least_mass=least_mass, answers=answers, prompts=prompts)
        rungs = rungs_to_certify(ladders, _asking(judgments, answers, least_mass, prompts, restart=restart))
        stack.enter_context(rungs.locked())
        backends = stack.enter_context(Backends(store))
        bar = progress("judging rungs", backends.under_way)
        _, certificate = rungs.judged(backends.open(judge, judge_options), certified, bar)
        if rungs.folder is not None:
            write_certificate(rungs.folder, certificate)
        for note in certificate["notes"]:
            _LOG.warning("%s", note)
        return certificate


@checked
def publish(
    ladders: str | Path,
    repository: str,
    *,
    private: bool = False,
    tag: str | None = None,
    message: str | None = None,
    include: Sequence[str] = (),
    scores: str | Path | None = None,
    judgments: str | Path | None = None,
    without_contexts: bool = False,
    licence: str | None = None,
    baseline: bool = False,
    dry_run: bool = False,
    out: str | Path | None = None,
    endpoint: str | None = None,
) -> publishing.Publication:
    """Publish a ladder set as a data set of the Hugging Face Hub, in one commit, as `refladder publish`.

    The card of the repository keeps its prose and its other configs. A commit of somebody else that comes first is
    merged, once. The token is that of `hf auth login`, or of the variable `HF_TOKEN`.

    Args:
        ladders: a folder of `build`, or a shipped name.
        repository: ORG/NAME, created if it does not exist.
        private: create it as private.
        tag: a tag for the commit, such as `v1`.
        message: of the commit.
        include: any of `judgments`, `scores` and `certificate`. A certificate in the folder is always published.
        scores: the scored rows; None for the only file in the folder that has judgments beside it.
        judgments: the judgments file; None for `SCORES.judgments.jsonl`.
        without_contexts: leave out the context texts, also from the scored rows; their digests are published.
        licence: of the texts, such as `cc-by-4.0`; None keeps that of the card, or states none.
        baseline: publish ladders of the built-in writer, as a baseline.
        dry_run: prepare everything and send nothing.
        out: new folder for the files that would be sent to an empty repository; nothing is sent.
        endpoint: address of the Hub; None for the variable `HF_ENDPOINT`, else the usual one.

    Returns:
        What was published: `address` goes into every call that takes `ladders`. What the publisher should know is in
        `notices`, and in warnings of the logger `refladder`.

    Raises:
        UsageError: an argument is wrong, or the set is not for publishing.
        DataError: a file is wrong; or the Hub refuses or cannot be reached, and then nothing was changed.
    """
    given = {name: value for name, value in locals().items() if name not in ("ladders", "repository")}
    with in_words_of_python(given), progress("preparing") as update:
        done = publishing.publish(str(ladders), repository, **given, progress=update)
    done = replace(done, notices=tuple(with_parameters(notice, given) for notice in done.notices))
    for notice in done.notices:
        _LOG.warning("%s", notice)
    return done


def diff(first: str | Path | LadderSet, second: str | Path | LadderSet) -> Difference:
    """Compare two ladder sets, or two revisions of one, as `refladder diff`.

    Args:
        first: a shipped name, a folder, `hub:ORG/NAME@REVISION`, or a set from `load_ladders`.
        second: likewise.

    Returns:
        What changed. Scores on the two sets are comparable only where its `same` is True.

    Raises:
        UnknownNameError, UsageError, DataError: a set cannot be opened, see `load_ladders`.
    """
    before, after = (each if isinstance(each, LadderSet) else str(each) for each in (first, second))
    return compare_sets(before, after)


def show(
    ladders: str | Path | LadderSet,
    context_id: str | None = None,
    *,
    dimensions: Sequence[str] = (),
    scores: Any = None,  # noqa: ANN401  a path or a table of any package
    link: str | Path | Link | None = None,
) -> list[dict[str, Any]]:
    """The ladders of a context, with scored outputs on them, or the contexts of a set, as `refladder show --json`.

    Args:
        ladders: a shipped name, a folder, an address, or a set from `load_ladders`.
        context_id: the context; None lists the contexts.
        dimensions: names of the dimensions; empty for all of the set.
        scores: scored rows from `score`, as a path or a table of any kind.
        link: a link from `link`, or its file: place the rows on the scale that it maps to.

    Returns:
        For a context, a dict for each ladder: `context_id`, `dimension`, `rungs` (`level` and `text`, the worst first)
        and `outputs` (`id`, `text`, `score`, `grade`, `spread` and `note`, the best first). Otherwise a dict for each
        context: `context_id` and `text`.

    Raises:
        UnknownNameError: the set has no such context or dimension.
        UsageError: scores without a context.
        DataError: the set, the scores or the link cannot be read.
    """
    with ExitStack() as stack:
        stack.enter_context(in_words_of_python(("scores", "link")))
        opened = ladders if isinstance(ladders, LadderSet) else load_ladders(ladders)
        if context_id is None:
            if scores is not None:
                raise UsageError("scores are placed on the ladders of one context; give context_id")
            return list(contexts_in(opened, dimensions))
        path = None if scores is None else str(scores)
        if scores is not None and not isinstance(scores, str | Path):
            path = written(stack, scores, Frame(scores).names, "scores")
        shown = ladders_of(opened, context_id, dimensions, path, record_or_path(link))
        return [ladder_json(ladder, outputs) for _, ladder, outputs in shown if ladder is not None]


@checked
def audit(
    ladders: str | Path | LadderSet,
    *,
    judge: str | Backend | Judge = "builtin",
    judge_options: Mapping[str, object] | None = None,
    contexts: int | None = None,
    seed: int = 0,
    least_mass: float = LEAST_MASS,
    answers: int = 0,
    prompts: str | Path | None = None,
    judgments: str | Path | None = None,
    restart: bool = False,
    store: str | Path | bool | None = None,
) -> list[dict[str, Any]]:
    """Measure the biases of a judge on the rungs of ladders, as `refladder audit`.

    Measures: `unparsed` and `low mass`, shares of judgments; `mass`, the mean label mass; `P(target)`, how often the
    text in the target's position wins (0.5 without position bias); `inconsistent`, the share of pairs with orders that
    disagree; `P(longer)`, how often the longer of two rungs wins, and `longer is higher`, how often it should; `shift
    neutral`, `shift request` and `shift answer line`, the change of the probability (-1 to 1) that the worst rung is
    better than a higher one, when a sentence is appended to it.

    Args:
        ladders: a shipped name, a folder, an address, or a set from `load_ladders`, with the texts of its contexts.
        judge: a backend by name, an open one, or a function.
        judge_options: options of a named judge.
        contexts: number of contexts to audit, drawn at random; None for all.
        seed: of that draw, 0 or more.
        least_mass: least label mass, a probability; a judgment below it is unparsed.
        answers: answers to sample for each question; 0 reads label probabilities.
        prompts: folder of templates that replace the shipped ones.
        judgments: file that stores the judgments, for resuming; None stores none.
        restart: discard the judgments in that file.
        store: response store; None for the default of the command line, False for none.

    Returns:
        A dict for each dimension and measure, and for the dimension `all`, as lines of `refladder audit --json`:
        `kind`, `judge` and `ladders` (signatures), `dimension`, `measure`, `value`, `low` and `high` (95 % interval
        over contexts) and `of` (number of judgments, pairs or contexts). What could not be measured is None. A warning
        of the logger `refladder` counts unparsed judgments.

    Raises:
        UnknownNameError, UsageError, PromptError: an argument is wrong, the set has no texts of its contexts, or
            another process has the judgments open.
        DataError: the set or the judgments cannot be read or written.
        BackendError: the judge failed; its judgments so far are stored, if they have a file.
    """
    given = list(locals())
    with ExitStack() as stack:
        stack.enter_context(in_words_of_python(given))
        check_asking(least_mass=least_mass, answers=answers, prompts=prompts)
        asking = _asking(judgments, answers, least_mass, prompts, restart=restart)
        rungs = auditing.rungs_to_audit(ladders, asking, contexts, seed)
        stack.enter_context(rungs.locked())
        backends = stack.enter_context(Backends(store))
        bar = progress("auditing", backends.under_way)
        asker, rows = rungs.judged(backends.open(judge, judge_options), auditing.audit, bar)
        for row in rows:
            if (row.dimension, row.measure) == (auditing.ALL, "unparsed") and row.value:
                _LOG.warning("%d of %d judgments are unparsed", round(row.value * row.of), row.of)
        return auditing.audit_json(rows, rungs.ladders, asker)


def _asking(
    judgments: str | Path | None, answers: int, least_mass: float, prompts: str | Path | None, *, restart: bool
) -> Asking:
    """How a judge of rungs is asked, with paths."""
    return Asking(
        judgments=None if judgments is None else Path(judgments),
        answers=answers,
        least_mass=least_mass,
        prompts=None if prompts is None else Path(prompts),
        restart=restart,
    )
