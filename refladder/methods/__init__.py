"""The evaluation methods."""
