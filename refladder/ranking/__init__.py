"""From pairwise comparisons to one number per item, over arrays: no models and no files.

The names of the options are here, where the command line reads them without loading numpy.
"""

from __future__ import annotations

# See `refladder.ranking.selection.select_pairs`.
SCHEMES = ("random", "no-repeat", "symmetric")
