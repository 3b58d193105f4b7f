"""Promises about scores and ladders (pure numpy)."""
