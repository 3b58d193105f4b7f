"""Ladders: reference texts of rising quality, written for every context and dimension."""

from refladder.synth.ladders import build_ladders

__all__ = ["build_ladders"]
