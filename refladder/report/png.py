"""The charts of `refladder.report.svg` as PNG, where matplotlib is installed."""

from __future__ import annotations

import io
from importlib import import_module
from typing import TYPE_CHECKING, Any

from refladder.report.svg import COLOURS, tags

if TYPE_CHECKING:
    from refladder.report.svg import Chart


def png(chart: Chart) -> bytes | None:
    """The chart as PNG; None without matplotlib."""
    try:
        library: Any = import_module("matplotlib.figure")  # optional
    except ImportError:
        return None
    figure = library.Figure(figsize=(7.6, 4.6), dpi=200, layout="constrained")
    axes = figure.add_subplot()
    for line in chart.series:
        colour, (xs, ys) = COLOURS[line.colour % len(COLOURS)], zip(*line.points, strict=True)
        axes.plot(xs, ys, "--" if line.dashed else "-", color=colour, label=_plain(line.name))
        if line.band:
            axes.fill_between(xs, *zip(*line.band, strict=True), color=colour, alpha=0.12, linewidth=0)
    for number, (name, x, y) in enumerate(chart.points, start=1):
        axes.scatter([x], [y], color=COLOURS[(number - 1) % len(COLOURS)], label=_plain(f"{number} {name}"))
    if chart.points:
        for x, y, tag in tags(chart.points):
            axes.annotate(tag, (x, y), xytext=(5, 5), textcoords="offset points", fontsize=8)
        axes.set_xscale("log")
    axes.set_title(_plain(chart.title), loc="left", fontsize=10)
    axes.set_xlabel(_plain(chart.across))
    axes.set_ylabel(_plain(chart.up))
    axes.grid(color="#ddd")
    figure.legend(loc="outside right upper", fontsize=8)
    stream = io.BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def _plain(text: str) -> str:
    """Text in which matplotlib sees no formulas."""
    return text.replace("$", r"\$")
