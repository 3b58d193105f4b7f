"""Figures of the benches: the same numbers give the same bytes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Point(NamedTuple):
    """A number with its interval; points with a legend are explained below the figure."""

    value: float
    low: float
    high: float
    colour: str
    legend: str | None = None


@contextlib.contextmanager
def drawing(
    path: Path, size: tuple[float, float], rows: int = 1
) -> Iterator[tuple[Any, list[Any]]]:
    """Give a figure and its axes, one below the other, and write it to a file at the end; `size` is in inches."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "refladder", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(rows, 1, figsize=size, sharex=True, squeeze=False)
    yield figure, axes[:, 0].tolist()
    # A legend of the whole figure stands below the axes.
    figure.tight_layout(rect=(0, 0.06 if figure.legends else 0, 1, 1))
    figure.savefig(path, metadata={"Date": None})


def intervals(
    path: Path,
    panels: dict[str, dict[str, list[Point]]],
    label: str,
    limits: tuple[float, float] | None = None,
) -> None:
    """Draw points with intervals, a panel for each title and a row for each name, legible at 390 pixels."""
    with drawing(path, (4.6, 1.35 * len(panels)), len(panels)) as (figure, axes):
        for axis, (title, rows) in zip(axes, panels.items(), strict=True):
            for place, points in enumerate(rows.values()):
                for number, (value, low, high, colour, legend) in enumerate(points):
                    axis.errorbar(
                        value,
                        place + number / 4,
                        xerr=[[value - low], [high - value]],
                        fmt="o",
                        markersize=4,
                        color=colour,
                        label=legend if place == 0 else None,
                    )
            axis.set_yticks(range(len(rows)), list(rows))
            axis.set_ylim(len(rows) - 0.5, -0.5)
            axis.set_title(title, loc="left", fontsize=9, fontweight="bold")
            if limits:
                axis.set_xlim(*limits)
            axis.axvline(0, color="#bbbbbb", linewidth=1)
            axis.grid(axis="x", color="#dddddd")
            axis.spines[["top", "right", "left"]].set_visible(False)
        axes[-1].set_xlabel(label)
        handles, legends = axes[0].get_legend_handles_labels()
        if handles:
            figure.legend(handles, legends, loc="lower center", ncols=2, frameon=False)
