"""Promises about scores: cut-offs, rates, scales and certificates, with what they assume and how often they hold."""
