"""Agreement of scores with human ratings: correlations, levels, intervals and tests over arrays; reads no files.

The names of the options are here, where the command line reads them without loading numpy.
"""

from __future__ import annotations

LEVELS = ("within_context", "pooled", "between_systems")
STATISTICS = ("spearman", "kendall", "pearson")
# For constant contexts, see `refladder.metaeval.correlation.correlate_rows`.
CONVENTIONS = ("skip", "zero", "one")
