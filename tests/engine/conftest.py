"""Tiny random models of many architectures, saved as folders."""

from hf_unit import folder  # noqa: F401  a fixture
