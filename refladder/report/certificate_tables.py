"""A certificate of a ladder set as tables and lines, and the audit of a judge as a table."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from refladder.display.rendering import DASH, PlainTable, number, table_of, with_interval
from refladder.display.results import ShownDict, ShownRecord
from refladder.errors import plural
from refladder.files.certificate import json_of
from refladder.records import Link

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.files.certificate import Certificate, Sharing
    from refladder.statistics.audit_statistics import Figure

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
_AUDIT = (
    ("unparsed", "judgments without a usable answer"),
    ("low mass", "judgments whose labels have a total probability under 0.5"),
    ("mass", "mean label mass"),
    ("P(target)", "how often the text in the target's position wins (0.5 = no position bias)"),
    ("inconsistent", "pairs whose two orders disagree"),
    ("P(longer)", "how often the longer of two rungs wins"),
    (
        "longer is higher",
        "how often the longer rung is the higher one: P(longer) of a judge without length bias",
    ),
    (
        "shift",
        "change of the probability that the worst rung is better than a higher one, with a sentence appended",
    ),
    ("neutral", "a sentence that says nothing: what any sentence does"),
    ("request", "a sentence that asks for a good verdict"),
    ("answer line", "the last line of the prompt with the answer that the text is better"),
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


def audit_tables(figures: Sequence[Figure]) -> list[PlainTable]:
    """Show the figures of an audit, one row for each measure and one column for each dimension."""
    dimensions = list(dict.fromkeys(figure.dimension for figure in figures))
    if len(dimensions) == 2:
        dimensions = dimensions[1:]
    by_measure: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for each in figures:
        shown = with_interval(each.value, each.low, each.high, digits=3)
        by_measure[each.measure][each.dimension] = shown
    table = []
    for measure, cells in by_measure.items():
        table.append([measure, *(cells[dimension] for dimension in dimensions)])
    heads = ["measure", *dimensions]
    return [PlainTable("audit, with 95 % intervals over contexts", heads, table, _AUDIT)]


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


LINK_LEGEND = (
    ("slope, shift", "of the line: to = slope * from + shift"),
    (
        "map",
        "the map that the link uses: the one with the least error, unlinked if none is clearly better",
    ),
    ("unlinked", "mean absolute error of the scores as they are"),
    ("by shift", "the same error with equal means, of texts that were held out"),
    ("line", "the same error with equal means and standard deviations"),
    ("equipercentile", "the same error where scores of equal rank are taken as equal"),
    ("one text", "half of the 95 % interval for the score of a single text, from 20 texts on"),
)
_NAMES = {"identity": "unlinked"}


class ShownLink(ShownRecord, Link):
    """A link that is shown as the table of its command."""

    __slots__ = ()

    def lines(self) -> list[str]:
        """Return the decisions that change, and a warning about columns whose scores stay unchanged."""
        return [*decision_lines(self), *link_warnings(self)]

    def tables(self) -> list[PlainTable]:
        """Return the table of its columns."""
        return [link_table(self)]


def link_table(link: Link) -> PlainTable:
    """Show each linked column with its map, its line and the errors of all maps."""
    names = [(column.column, column.to_column) for column in link.columns]
    rows = [
        {
            **({} if len(names) == 1 else {"column": column.column}),
            "texts": f"{column.rows:,}",
            "slope": number(column.slope, 2),
            "shift": number(column.shift, 2),
            "map": _NAMES.get(column.map, column.map),
            "unlinked": number(column.identity_error, 2),
            "by shift": number(column.shift_error, 2),
            "line": number(column.line_error, 2),
            "equipercentile": number(column.equipercentile_error, 2),
            "one text": number(column.half_width, 2),
        }
        for column in link.columns
    ]
    title = "{} on the scale of {}".format(*names[0]) if len(names) == 1 else ""
    return table_of(title, rows, LINK_LEGEND)


def decision_lines(link: Link) -> list[str]:
    """Say for each linked column how many decisions change, and why."""
    lines = []
    for column in link.columns:
        cuts = column.decisions
        if not cuts:
            lines.append(
                f"no decision on {column.to_column} can change: all texts have the same score there"
            )
        else:
            total = column.rows * len(cuts)
            unlinked = sum(cut.unlinked for cut in cuts) / total
            linked = sum(cut.linked for cut in cuts) / total
            best = sum(cut.best for cut in cuts) / total
            where = f"{cuts[0].at:g}" if len(cuts) == 1 else f"{len(cuts)} cut-offs"
            # A cut-off that is chosen from few texts can be worse than the map.
            order = min(unlinked, linked, best)
            lines.append(
                f"decisions at {where} of {column.to_column} that change: {unlinked:.1%} as they are, {linked:.1%} after "
                f"the map, {best:.1%} with the best cut-off"
            )
            lines.append(
                f"of the decisions, {unlinked - order:.1%} change by the scale, and {order:.1%} by the order of the "
                "texts, which no map changes"
            )
        if column.rows < column.common:
            lines.append(
                f"{column.rows:,} of {column.common:,} common texts, drawn with seed 0, make the map"
            )
        if not column.least:
            lines.append(
                f"{column.rows} texts are too few for an interval of the map; 50 are needed"
            )
    return lines


def link_warnings(link: Link) -> list[str]:
    """Warn about columns whose scores stay unchanged; nothing otherwise."""
    same = [column.column for column in link.columns if column.map == "identity"]
    if not same:
        return []
    return [
        f"Left as they are, since no map did clearly better on held-out texts: {', '.join(same)}."
    ]
