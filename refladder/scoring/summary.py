"""The summary of a scoring run, and of what its backends were asked, as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from refladder.backends.metered import PlannedCosts
from refladder.errors import agreeing, option, plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.backends.metered import SpentCosts
    from refladder.scoring.score_report import ScoreReport

# This number of reasons is shown, the most frequent first.
_REASONS = 10


_COUNTS = (
    *("rows", "copies", "unscored", "reasons", "judgments", "reused", "above_top", "below_bottom"),
    *("unparsed", "cut", "low_mass", "thoughts"),
)


def summary(report: ScoreReport) -> dict[str, Any]:
    """Return the counts of a scoring run as JSON values."""
    return {
        **{name: getattr(report, name) for name in _COUNTS},
        "inconsistency": report.disagreements / report.order_pairs if report.order_pairs else None,
        "order_spread": report.order_spread,
        "signature": report.signature,
    }


def summary_lines(report: ScoreReport) -> list[str]:
    """List the counts of a scoring run, its warnings, why scores are missing, and the texts beyond the ladders."""
    missing = sum(report.unscored.values())
    reasons = sorted(report.reasons.items(), key=lambda item: -item[1])
    judgments = f"{plural(report.judgments, 'judgment')} ({report.reused:,} reused, {report.unparsed:,} unparsed)"
    lines = [
        f"{plural(report.rows, 'row')}, {plural(missing, 'score')} missing; {judgments}",
        *copy_lines(report),
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
    lines += _error_lines(report)
    return lines + beyond_lines(
        report.above_top, report.below_bottom, report.judged_top, report.judged_bottom
    )


def copy_lines(report: ScoreReport) -> list[str]:
    """Count the rows that repeat an earlier one; nothing without them."""
    if not report.copies:
        return []
    repeats = agreeing(report.copies, "repeats", "repeat")
    return [f"{plural(report.copies, 'row')} {repeats} the text and context of an earlier row"]


def _error_lines(report: ScoreReport) -> list[str]:
    """Say how uncertain grades are through the choice of anchors."""
    lines = []
    for name, error in report.grade_error.items():
        more = f"; --anchors {report.most_anchors} lowers this" if report.most_anchors else ""
        lines.append(
            f"{name}: grades are uncertain by {error:.2f} through the choice of {report.anchors_of(name)} "
            f"{report.placed_by}{more}. Tables on the same {report.placed_by} share this error"
        )
    return lines


def essential_lines(report: ScoreReport) -> list[str]:
    """List what changes the meaning of the scores: warnings, and all counts if scores are missing."""
    return warning_lines(report) if report.complete else summary_lines(report)


def warning_lines(report: ScoreReport) -> list[str]:
    """Warn about judgments that were parsed but are unreliable; nothing for a run without them."""
    lines = []
    if report.thoughts:
        lines.append(
            f"Thoughts in front of the output in {report.thoughts:,} of {plural(report.rows, 'row')}: what follows them was "
            f"judged. {option('text-of')} whole judges the whole text."
        )
    if report.cut:
        lines.append(
            f"Context truncated in {report.cut:,} of {plural(report.judgments, 'judgment')}, to fit the judge. "
            "See NAME_note of the rows."
        )
    lines += [f"No grade on {name}: {reason}." for name, reason in report.no_grade.items()]
    return lines + low_mass_lines(report.low_mass, report.judgments)


def beyond_lines(
    above: Mapping[str, int],
    below: Mapping[str, int],
    of_above: Mapping[str, int] | None = None,
    of_below: Mapping[str, int] | None = None,
) -> list[str]:
    """Count by dimension the texts above the top rung or below the lowest; `of_...` are the texts judged there."""
    lines = []
    for name in {**above, **below}:
        high = above.get(name, 0)
        low = below.get(name, 0)
        of_high = (of_above or {}).get(name)
        of_low = (of_below or {}).get(name)
        beyond = []
        if high:
            beats = agreeing(high, "beats", "beat")
            beyond.append(f"{_texts(high, of_high)} {beats} the top rung")
        if low:
            texts = f"{low:,}" if high and of_high == of_low else _texts(low, of_low)
            ranks = agreeing(low, "ranks", "rank")
            lowest = "the lowest" if high else "the lowest rung"
            beyond.append(f"{texts} {ranks} below {lowest}")
        # Lower bound on the number of texts beyond both ends, if the same ones were judged there.
        both = high + low - of_high if of_high is not None and of_high == of_low else 0
        meaning = "such scores are hard to tell apart"
        if both > 0:
            do = agreeing(both, "text does", "texts do")
            meaning = (
                f"at least {both:,} {do} both, so the answers of the judge contradict each other"
            )
        if beyond:
            lines.append(f"{name}: {', '.join(beyond)}; {meaning}")
    return lines


def _texts(count: int, total: int | None) -> str:
    of_total = "" if total is None else f" of {total:,}"
    return f"{count:,}{of_total} {agreeing(total or count, 'text', 'texts')}"


def low_mass_lines(count: int, judgments: int) -> list[str]:
    """Warn about low label mass; nothing without it."""
    if not count:
        return []
    warning = (
        f"Low label mass in {count:,} of {plural(judgments, 'judgment')}: the judge gave the labels less than half of "
        "its probability. The scores are unreliable; check that the model follows the prompt (an instruct model, its "
        "chat template)."
    )
    return [warning]


def spent_lines(spent: Sequence[SpentCosts]) -> list[str]:
    """Report the cost of each backend whose tokens or stored answers are known."""
    lines = []
    for costs in spent:
        if costs.prompt_tokens is None and costs.from_store is None:
            continue
        line = f"{cost_words(costs)} in {costs.seconds:,.1f} s"
        if costs.run_tokens and costs.seconds:
            line += f", {costs.run_tokens / costs.seconds:,.0f} tokens/s"
        if costs.from_store is not None:
            line += f", {plural(costs.from_store, 'answer')} from the store"
        lines.append(line)
    return lines


def cost_words(costs: SpentCosts | PlannedCosts) -> str:
    """List calls, tokens and price of a backend; characters if the number of tokens is unknown.

    A dry run says how many answer tokens there are at most; a server reports how many there were.
    """
    planned = costs if isinstance(costs, PlannedCosts) else None
    name = f"{costs.backend}: {'' if planned is None or planned.exact else 'at most '}"
    about = "about " if planned is not None and planned.tokens_from_characters else ""
    parts = [plural(costs.calls, "call")]
    if not costs.calls:
        return name + parts[0]
    if costs.requests is not None:
        parts.append(plural(costs.requests, "request"))
    if costs.prompt_tokens is None:
        parts.append(f"{plural(costs.characters, 'prompt character')} (tokens not known)")
    else:
        tokens = about + plural(costs.prompt_tokens, "prompt token")
        if costs.run_tokens is not None:
            tokens += f" ({costs.run_tokens:,} through the model)"
        parts.append(tokens)
        bound = "at most " if costs.requests is None or planned is not None else ""
        answers = f"{bound}{plural(costs.answer_tokens or 0, 'answer token')}"
        if planned is not None and planned.expected_answer_tokens < (costs.answer_tokens or 0):
            tokens = plural(planned.expected_answer_tokens, "answer token")
            answers = f"about {tokens} ({bound}{costs.answer_tokens:,})"
            about = "about "
        if costs.answer_tokens:
            parts.append(answers)
    if costs.usd is not None:
        expected_usd = costs.usd if planned is None else planned.expected_usd or 0.0
        parts.append(money_words(expected_usd, costs.usd, about=bool(about)))
    return name + ", ".join(parts)


def money_words(expected: float, most: float, *, about: bool, exact: bool = True) -> str:
    """Write a price, and what it can be at most; `exact` if the number of calls is."""
    words = f"{'about ' if about else ''}{'' if exact else 'at most '}{expected:.4f} USD"
    return f"{words}, at most {most:.4f} USD" if round(most, 4) > round(expected, 4) else words
