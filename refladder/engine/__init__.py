"""Prefix-tree inference over models of transformers: token ids in, log-probabilities or token ids out.

Nothing here knows a prompt, a label or any other record of refladder.
"""
