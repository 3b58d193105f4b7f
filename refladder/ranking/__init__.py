"""From pairwise comparisons to a number for each item; pure arrays, no models and no files."""
