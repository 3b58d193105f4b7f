"""Judging outputs against the rungs of a ladder, and rules that turn the verdicts into numbers."""
