"""Scores of a table: `score`, `rescore`, `show` and `Scorer`. Runs are resumable."""
