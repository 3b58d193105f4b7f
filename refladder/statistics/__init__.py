"""Numbers in, numbers out: rankings, agreement with people, intervals. Reads no files and asks no judge.

The names of the options are here, where the command line reads them without loading numpy.
"""

from __future__ import annotations

LEVELS = ("within_context", "pooled", "between_systems")
STATISTICS = ("spearman", "kendall", "pearson")
# How contexts with constant values count, see `refladder.statistics.correlation.correlate_rows`.
CONVENTIONS = ("skip", "zero", "one")
# How pairs are chosen, see `refladder.statistics.selection.select_pairs`.
SCHEMES = ("random", "no-repeat", "symmetric")
