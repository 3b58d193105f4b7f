"""From pairwise comparisons to one number per item, over arrays: no models and no files.

The names of the options are here, where the command line reads them without loading numpy.
"""

from __future__ import annotations

SCHEMES = ("random", "no-repeat", "symmetric")  # see `refladder.ranking.selection.select_pairs`
