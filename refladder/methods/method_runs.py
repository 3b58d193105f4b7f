"""Runs methods of `evaluate` one after the other, and measures what each costs."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from refladder.backends.metered import Metered, total
from refladder.errors import UnknownNameError, UsageError
from refladder.files.locks import locked_folder
from refladder.methods.contract import CHECKPOINT, Method, SharedAnswers, method_named
from refladder.scoring.judge_check import prove
from refladder.session import copied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends import Backend
    from refladder.backends.metered import Spent
    from refladder.methods.contract import EvaluationMethod, Judge, MethodResult, MethodSettings
    from refladder.records import Benchmark, Dimension, JudgeCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodRun:
    """A method that was run, and its cost.

    `calls` prompts were sent to the model, for what `spent` says; a response store answered the others of the
    `characters` and `judge_seconds`. `checks` are no part of these.
    """

    name: str
    result: MethodResult
    calls: int
    characters: int
    spent: Spent
    judge_seconds: float
    seconds: float
    checks: tuple[JudgeCheck, ...] = ()


def run_methods(
    names: Sequence[str],
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    judge: Judge,
    settings: MethodSettings,
) -> list[MethodRun]:
    """Run methods one after the other; names and options are checked before anything is asked."""
    if settings.dry_run:
        raise UsageError(
            "dry_run=True: `--dry-run` of the command sets it; leave it out of the settings"
        )
    methods = _methods(names, settings)
    runs = []
    with nullcontext() if settings.work is None else locked_folder(settings.work):
        for name, method, its_settings in methods:
            meters: dict[int, Metered] = {}
            writer = settings.writer and partial(_metered, settings.writer, meters)
            asker = partial(_metered, judge, meters)
            started = time.perf_counter()
            result = method.run(benchmark, dimensions, asker, replace(its_settings, writer=writer))
            seconds = time.perf_counter() - started
            if ":" in name and result.method is not None:
                result = replace(result, method=replace(result.method, name=name))
            run = MethodRun(
                name=name,
                result=result,
                calls=sum(meter.calls for meter in meters.values()),
                characters=sum(meter.usage.characters for meter in meters.values()),
                spent=total([meter.spent for meter in meters.values()]),
                judge_seconds=sum(meter.usage.seconds for meter in meters.values()),
                seconds=seconds,
                checks=_checks(result, settings),
            )
            runs.append(run)
    return runs


def _metered(open_backend: Judge, meters: dict[int, Metered]) -> Backend:
    """Open a backend, with a meter."""
    backend = open_backend()
    return meters.setdefault(id(backend), Metered(backend))


def rehearse_methods(
    names: Sequence[str],
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    judge: Judge,
    settings: MethodSettings,
) -> list[tuple[str, str]]:
    """Run methods in a dry run, on a copy of the folder `work`; answers that they share count once."""
    sentences = []
    with copied(settings.work) as copy:
        rehearsed = replace(settings, work=copy, dry_run=True, shared=SharedAnswers())
        for name, method, its_settings in _methods(names, rehearsed):
            result = method.run(benchmark, dimensions, judge, its_settings)
            _checks(result, rehearsed)
            reported = filter(None, (result.skipped, *result.notes))
            sentences += [(name, sentence) for sentence in reported]
    return sentences


def _checks(result: MethodResult, settings: MethodSettings) -> tuple[JudgeCheck, ...]:
    """Check the judge of a ladder. It is not refused, since the agreement with people shows its quality."""
    if result.scorer is None:
        return ()
    return tuple(prove(result.scorer, settings.checks))


def _methods(
    names: Sequence[str], settings: MethodSettings
) -> list[tuple[str, EvaluationMethod, MethodSettings]]:
    """Find the methods by name, check names and options, and set the checkpoint of a name `METHOD:PATH`."""
    methods = []
    known = set()
    for name in names:
        plain, _, checkpoint = name.partition(":")
        known.add(plain)
        options = dict(settings.options)
        if checkpoint:
            options[f"{plain}.{CHECKPOINT}"] = checkpoint
        methods.append((name, method_named(plain), replace(settings, options=options)))
    for name, times in Counter(names).items():
        if times > 1:
            raise UsageError(f"method {name!r} is asked for twice; name each method once")
    for key in settings.options:
        if key.partition(".")[0] not in known:
            raise UnknownNameError("method of this run", key.partition(".")[0], known)
    return methods


def scored_methods(runs: Sequence[MethodRun], others: Sequence[Method]) -> list[Method]:
    """List the methods of a table. Those that were run come first; one that could not run has no score and a reason."""
    if runs and not others and all(run.result.method is None for run in runs):
        raise UsageError("; ".join(f"{run.name}: {run.result.skipped}" for run in runs))
    scored = []
    for run in runs:
        unavailable = f"unavailable:{run.result.skipped}"
        empty = Method(name=run.name, signature=unavailable, scores={})
        scored.append(run.result.method or empty)
    return [*scored, *others]
