"""Charts by matplotlib, with equal bytes in every run: lines with bands, and numbered points."""

from __future__ import annotations

import hashlib
import io
import math
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from refladder.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

# These colours are distinct for most forms of colour blindness (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Size in inches; text of 9 points is then 11 pixels high on a screen of 390.
WIDTH = 4.2
HEIGHT = 3.0
# A row of the legend has this height in inches.
_ROW = 0.17
# The number of a point takes this share of an axis.
_NEAR = 0.03
_DARK = "<style>@media (prefers-color-scheme: dark) { svg { filter: invert(1) hue-rotate(180deg) } }</style>"
# Characters of a file name: at most 240 bytes of UTF-8, where file systems accept 255 with an ending.
_LONGEST_STEM = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A line: points (x, y), the ends of its band at each (or none), and whether it is dashed."""

    name: str
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float], ...] = ()
    dashed: bool = False
    colour: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart of lines, or of named points (name, x above 0 on a logarithmic axis, y)."""

    title: str
    across: str
    up: str
    series: Sequence[Series] = ()
    points: Sequence[tuple[str, float, float]] = ()

    def tags(self) -> list[tuple[float, float, str]]:
        """Return the numbers beside points; those that would be written over each other are one tag, as in "3, 7"."""
        if not self.points:
            return []
        positions = np.array([(np.log(x), y) for _, x, y in self.points])
        spans = np.ptp(positions, axis=0)
        positions = positions / np.where(spans > 0, spans, 1.0)
        # Each tag has its numbers under that of its first point.
        tags: dict[int, list[str]] = {}
        for number, position in enumerate(positions):
            near = (first for first in tags if np.abs(position - positions[first]).max() < _NEAR)
            tags.setdefault(next(near, number), []).append(str(number + 1))
        return [(*self.points[first][1:], ", ".join(names)) for first, names in tags.items()]

    def svg(self) -> str:
        """Return the chart as SVG. Its text stays text, and it has dark colours where the reader prefers them."""
        return svg_of(self._figure())

    def png(self) -> bytes:
        """Return the chart as PNG."""
        stream = io.BytesIO()
        self._figure().savefig(stream, format="png", dpi=300, metadata={"Software": None})
        return stream.getvalue()

    def _figure(self) -> Any:
        if not self.series and not self.points:
            raise UsageError(f"{self.title}: nothing to draw")
        names = len(self.series) + len(self.points)
        figure = matplotlib_figure(WIDTH, HEIGHT + _ROW * ((names + 1) // 2))
        axes = figure.add_subplot()
        for line in self.series:
            colour = COLOURS[line.colour % len(COLOURS)]
            xs, ys = zip(*line.points, strict=True)
            axes.plot(xs, ys, "--" if line.dashed else "-", color=colour, label=_plain(line.name))
            if line.band:
                lows, highs = zip(*line.band, strict=True)
                axes.fill_between(xs, lows, highs, color=colour, alpha=0.12, linewidth=0)
        for number, (name, x, y) in enumerate(self.points):
            colour = COLOURS[number % len(COLOURS)]
            axes.scatter([x], [y], color=colour, label=_plain(f"{number + 1} {name}"))
        for x, y, tag in self.tags():
            axes.annotate(tag, (x, y), xytext=(4, 4), textcoords="offset points", fontsize=8)
        if self.points:
            axes.set_xscale("log")
            ticks = _round_numbers(*axes.get_xlim())
            labels = [f"{tick:,.3g}" if tick < 1 else f"{tick:,.0f}" for tick in ticks]
            axes.set_xticks(ticks, labels)
            axes.minorticks_off()
        axes.set_title(_plain(self.title), loc="left", fontsize=9, wrap=True)
        axes.set_xlabel(_plain(self.across), fontsize=9)
        axes.set_ylabel(_plain(self.up), fontsize=9)
        axes.tick_params(labelsize=8)
        axes.grid(color="#ddd")
        axes.set_axisbelow(True)
        figure.legend(loc="outside lower left", fontsize=8, ncols=2, frameon=False)
        return figure


def check_charts() -> None:
    """Raise UsageError if matplotlib is not installed."""
    try:
        import_module("matplotlib.figure")
    except ImportError as error:
        raise UsageError("charts need matplotlib; pip install matplotlib") from error


def matplotlib_figure(width: float, height: float) -> Any:
    """Make an empty figure of matplotlib, `width` by `height` inches; without matplotlib it is a UsageError."""
    check_charts()
    library: Any = import_module("matplotlib.figure")
    return library.Figure(figsize=(width, height), layout="constrained")


def svg_of(figure: Any) -> str:
    """Return a figure of matplotlib as SVG, without a date and with the same names of its parts in every run."""
    library: Any = import_module("matplotlib")
    stream = io.StringIO()
    with library.rc_context({"svg.fonttype": "none", "svg.hashsalt": "refladder"}):
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    text = text[text.index("<svg") :].replace(">", f">\n {_DARK}", 1)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def file_stems(names: Sequence[str]) -> dict[str, str]:
    """Make distinct, readable file names without an ending. They are equal in every run.

    A name with other characters than letters, digits, `_` and `-`, or equal to another but for case, gets its digest.
    """
    composed = {name: unicodedata.normalize("NFC", name) for name in names}
    folded = Counter(text.casefold() for text in composed.values())
    stems = {}
    for name, text in composed.items():
        stem = re.sub(r"[^\w-]+", "_", text)[:_LONGEST_STEM]
        if stem != name or folded[text.casefold()] > 1:
            stem += f"-{hashlib.blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=4).hexdigest()}"
        stems[name] = stem
    return stems


def _round_numbers(low: float, high: float) -> list[float]:
    """Return round numbers along a logarithmic axis: powers of ten, and 2 and 5 times these on a short axis."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1.0,) if high / low > 100 else (1.0, 2.0, 5.0)
    ticks = [step * 10.0**power for power in powers for step in steps]
    ticks = [tick for tick in ticks if low <= tick <= high]
    return ticks if len(ticks) > 1 else [low, high]


def _plain(text: str) -> str:
    """Escape text so that matplotlib finds no formulas in it."""
    return text.replace("$", r"\$")
