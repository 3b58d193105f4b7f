"""Ladders: reference texts of rising quality, written for every context and dimension."""

from refladder.synth.ladders import build_ladders, name_subjects

__all__ = ["build_ladders", "name_subjects"]
