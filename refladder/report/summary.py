"""The summary of a scoring run, and of what its backends were asked, as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from refladder.errors import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.scoring.columns import ScoreReport

_REASONS = 10  # shown of a run, the most frequent


def summary(report: ScoreReport) -> dict[str, Any]:
    """The counts of a scoring run, as JSON values."""
    return {
        **{
            name: getattr(report, name)
            for name in ("rows", "unscored", "reasons", "judgments", "reused")
        },
        **{name: getattr(report, name) for name in ("above_top", "below_bottom")},
        "unparsed": report.unparsed,
        "cut": report.cut,
        "low_mass": report.low_mass,
        "inconsistency": report.disagreements / report.order_pairs if report.order_pairs else None,
        "order_spread": report.order_spread,
        "signature": report.signature,
    }


def summary_lines(report: ScoreReport) -> list[str]:
    """The counts of a scoring run, its warnings, why scores are missing, and how many texts are beyond the ladders."""
    missing = sum(report.unscored.values())
    reasons = sorted(report.reasons.items(), key=lambda item: -item[1])
    judgments = f"{plural(report.judgments, 'judgment')} ({report.reused:,} reused, {report.unparsed:,} unparsed)"
    lines = [
        f"{plural(report.rows, 'row')}, {plural(missing, 'score')} missing; {judgments}",
        *warning_lines(report),
        *(f"  {count:,} x {reason}" for reason, count in reasons[:_REASONS]),
    ]
    if len(reasons) > _REASONS:
        lines.append(f"  {sum(count for _, count in reasons[_REASONS:]):,} x other reasons")
    if report.order_pairs:
        share = report.disagreements / report.order_pairs
        lines.append(f"order inconsistency: {share:.1%} of {plural(report.order_pairs, 'pair')}")
    for name, spread in report.order_spread.items():
        lines.append(
            f"{name}: standard deviation of the score between orders of the rungs {spread:.2f}"
        )
    return lines + beyond_lines(
        report.above_top, report.below_bottom, report.judged_top, report.judged_bottom
    )


def essential_lines(report: ScoreReport) -> list[str]:
    """What changes what the scores mean: warnings, and all counts where scores are missing."""
    return warning_lines(report) if report.complete else summary_lines(report)


def warning_lines(report: ScoreReport) -> list[str]:
    """Warnings about judgments that were parsed but are unreliable; none for a run without them."""
    lines = []
    if report.cut:
        lines.append(
            f"Context truncated in {report.cut:,} of {plural(report.judgments, 'judgment')}, to fit the judge. "
            "See NAME_note of the rows."
        )
    return lines + low_mass_lines(report.low_mass, report.judgments)


def beyond_lines(
    above: Mapping[str, int],
    below: Mapping[str, int],
    of_above: Mapping[str, int] | None = None,
    of_below: Mapping[str, int] | None = None,
) -> list[str]:
    """A line for each dimension with texts above the top rung or below the lowest, `of_...` the texts judged there."""
    lines = []
    for name in {**above, **below}:
        high, low = above.get(name, 0), below.get(name, 0)
        of_high, of_low = (
            None if judged is None else judged.get(name) for judged in (of_above, of_below)
        )
        beyond = []
        if high:
            beyond.append(
                f"{_texts(high, of_high)} {'beats' if high == 1 else 'beat'} the top rung"
            )
        if low:
            texts = f"{low:,}" if high and of_high == of_low else _texts(low, of_low)
            beyond.append(
                f"{texts} {'falls' if low == 1 else 'fall'} below the lowest{'' if high else ' rung'}"
            )
        if beyond:
            lines.append(f"{name}: {', '.join(beyond)}; scores hardly tell such texts apart")
    return lines


def _texts(count: int, total: int | None) -> str:
    of_total = "" if total is None else f" of {total:,}"
    return f"{count:,}{of_total} {'text' if (total or count) == 1 else 'texts'}"


def low_mass_lines(count: int, judgments: int) -> list[str]:
    """A warning about low label mass, or none."""
    if not count:
        return []
    warning = (
        f"Low label mass in {count:,} of {plural(judgments, 'judgment')}: the judge gave the labels less than half of "
        "its probability. The scores are unreliable; check that the model follows the prompt (an instruct model, its "
        "chat template)."
    )
    return [warning]


def spent_lines(spent: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each backend whose tokens or stored answers are known."""
    lines = []
    for usage in spent:
        if usage["prompt_tokens"] is None and usage["from_store"] is None:
            continue
        stored = (
            ""
            if usage["from_store"] is None
            else f", {plural(usage['from_store'], 'answer')} from the store"
        )
        measured = usage["run_tokens"] and usage["seconds"]
        speed = f", {usage['run_tokens'] / usage['seconds']:,.0f} tokens/s" if measured else ""
        lines.append(
            f"{usage['backend']}: {cost_words(usage)} in {usage['seconds']:,.1f} s{speed}{stored}"
        )
    return lines


def cost_words(counts: Mapping[str, Any]) -> str:
    """Calls, tokens and price; characters where the number of tokens is unknown."""
    parts = [plural(counts["calls"], "call")]
    if not counts["calls"]:
        return parts[0]
    if counts["requests"] is not None:
        parts.append(plural(counts["requests"], "request"))
    if counts["prompt_tokens"] is None:
        parts.append(f"{plural(counts['characters'], 'prompt character')} (tokens not known)")
    else:
        run = (
            "" if counts["run_tokens"] is None else f" ({counts['run_tokens']:,} through the model)"
        )
        parts.append(f"{plural(counts['prompt_tokens'], 'prompt token')}{run}")
        bound = "at most " if counts["requests"] is None else ""
        if counts["answer_tokens"]:
            parts.append(f"{bound}{plural(counts['answer_tokens'], 'answer token')}")
    if counts["usd"] is not None:
        parts.append(f"{counts['usd']:.4f} USD")
    return ", ".join(parts)
