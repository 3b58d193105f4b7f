"""A certificate of a ladder set as tables and lines, and the audit of a judge as a table."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from refladder.display.rendering import DASH, PlainTable, number, table_of
from refladder.display.results import ShownDict
from refladder.errors import plural
from refladder.files.certificate import json_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.files.certificate import Certificate, Sharing

# A line names at most this number of ladders.
_SHOWN = 5
_STEPS = (
    ("in order", "ladders whose higher rung is better, of those that decide"),
    (
        "p",
        "exact sign test over contexts, Holm-corrected over the steps of the dimension; 0.1 or less passes",
    ),
    ("w", "mean probability that the higher rung is better"),
    ("surface w", "the same for the builtin judge, which reads no meaning"),
    ("spacing", "distance of the two levels in log-odds, Davidson's model"),
    ("levels", "verdict on the lower and the higher level"),
)
_SETS = (
    ("in order", "steps of single ladders whose higher rung is better"),
    ("intransitive", "triples of rungs without a consistent ranking"),
    ("inconsistent", "pairs whose two orders disagree"),
    ("mass", "mean label mass"),
    ("length", "mean Spearman correlation of level and number of words"),
    ("by length", "ladders that a rule of length alone orders fully"),
    ("by surface", "ladders that the builtin judge orders fully"),
)
VERDICTS = {
    "pass": "every level is above the one below it",
    "untested": "too few ladders, or too many unparsed judgments, to say whether every level rises",
    "rewrite": "some levels are not clearly better than the level below; generate the rungs below again",
    "drop": "the ladders do not rise at some level",
    "refuse": "no step is shown to rise; do not use these ladders with this judge",
}


def certificate_tables(certificate: Certificate) -> list[PlainTable]:
    """Show the steps of every dimension, and counts over ladders."""
    steps, counted = [], []
    tested = certificate.tests is not None
    for dimension in certificate.dimensions:
        for step, (low, high) in zip(dimension.steps, pairwise(dimension.levels), strict=True):
            gap = None
            if low.strength is not None and high.strength is not None:
                gap = high.strength - low.strength
            cells = {
                "step": f"{dimension.dimension} {step.from_} to {step.to}",
                "in order": f"{step.in_order}/{step.decided}",
                "p": number(step.p_holm, 4),
                "w": number(step.w, 3),
                "surface w": number(step.surface_w, 3),
                "spacing": number(gap, 2),
                "levels": f"{low.verdict}, {high.verdict}",
            }
            if not tested:
                del cells["p"]
            steps.append(cells)
        cells = {
            "dimension": dimension.dimension,
            "verdict": dimension.verdict,
            "ladders": str(dimension.ladders),
            "in order": _of(dimension.adjacent, "in_order"),
            "intransitive": _of(dimension.intransitive, "count"),
            "inconsistent": _of(dimension.inconsistent, "count"),
            "mass": number(dimension.mass, 3),
            "length": number(dimension.spearman_length, 2),
            "by length": str(dimension.length_climbs),
            "by surface": str(dimension.surface_climbs),
        }
        counted.append(cells)
    legend = tuple(head for head in _STEPS if tested or head[0] != "p")
    return [
        table_of("steps from level to level", steps, legend),
        table_of("dimensions", counted, _SETS),
    ]


def shown_certificate(certificate: Certificate) -> ShownDict:
    """Return a certificate as JSON values that are shown as its lines and tables."""
    tables, lines = certificate_tables(certificate), certificate_lines(certificate)
    return ShownDict(json_of(certificate), tables, lines)


def certificate_lines(certificate: Certificate) -> list[str]:
    """List the verdict, its counts, the rungs and ladders to inspect, and notes."""
    counts, built = certificate.counts, certificate.built
    rungs = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.of_rungs.items())
    judged = (
        f"{plural(counts.ladders, 'ladder')} of {counts.rungs} rungs, {plural(counts.judgments, 'judgment')} "
        f"({counts.unparsed:,} unparsed, {counts.low_mass:,} of low label mass)"
    )
    lines = [
        f"verdict: {certificate.verdict} ({VERDICTS[certificate.verdict]})",
        f"certificate {certificate.digest} by {certificate.judge.fingerprint}: {judged}",
        f"rungs: {rungs}",
    ]
    named: defaultdict[str, list[str]] = defaultdict(list)
    climbed = []
    for row in certificate.of_ladders:
        ladder = f"{row.context_id} ({row.dimension})"
        if row.length_climbs:
            climbed.append(ladder)
        for level, verdict in enumerate(row.rungs, start=1):
            named[verdict].append(f"{ladder} rung {level}")
    for verdict in ("untested", "rewrite", "drop", "refuse"):
        lines += _named(verdict, named[verdict])
    lines += sharing_lines(certificate.sharing)
    lines += _named("climbed by length alone", climbed)
    if built is not None:
        lines.append(
            f"build: {plural(built.rewritten, 'rung')} rewritten in {plural(built.rounds, 'round')}, "
            f"{plural(built.dropped, 'level')} dropped, {plural(built.failed, 'ladder')} failed"
        )
    return [*lines, *(f"note: {note}" for note in certificate.notes)]


def sharing_lines(sharing: Sharing | None) -> list[str]:
    """Report how far the anchors of a shared set agree on its levels. If sharing is refused, name those that disagree."""
    if sharing is None:
        return []
    if sharing.verdict == "untested":
        return ["sharing: untested, since the set has one anchor"]
    if sharing.share is None:
        return ["sharing: no comparison of two anchors decides"]
    ends = "too few anchors for an interval"
    if sharing.low is not None:
        ends = f"95 % interval {sharing.low:.2f} to {sharing.high:.2f}"
    line = (
        f"sharing: a level of one anchor beats the level below of another in {sharing.in_order} of "
        f"{plural(sharing.of, 'comparison')} ({sharing.share:.2f}, {ends})"
    )
    if sharing.verdict == "pass":
        return [line]
    apart = [row for row in sharing.anchors if row.in_order < sharing.limit * row.of]
    named = ", ".join(f"{row.anchor} ({row.in_order}/{row.of})" for row in apart)
    advice = f"refused for sharing, below {sharing.limit:g}: their levels mean different things. Draw other anchors"
    return [line, f"{advice}: {named}"]


def ladder_line(certificate: Certificate, context_id: str, dimension: str) -> str:
    """Show the verdicts on the rungs of one ladder."""
    rows = {(row.context_id, row.dimension): row for row in certificate.of_ladders}
    row = rows[context_id, dimension]
    rungs = ", ".join(f"{level} {verdict}" for level, verdict in enumerate(row.rungs, start=1))
    climbs = "; a rule of length alone orders them" if row.length_climbs else ""
    return f"certificate by {certificate.judge.fingerprint}: rungs {rungs}{climbs}"


def _named(what: str, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return [f"{what}: {', '.join(names[:_SHOWN])}{more}"]


def _of(counted: Mapping[str, int], name: str) -> str:
    return f"{counted[name]}/{counted['of']}" if counted["of"] else DASH
