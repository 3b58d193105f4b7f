"""The backend that needs no model: it judges by surface features and writes rungs by degrading text.

It is the baseline that every judge has to beat, and it keeps refladder usable on a bare machine. It reads the slots of
a prompt, never its words, so it takes any template.
"""

from refladder.backends.builtin.backend import NOTICE, Builtin, open_builtin

__all__ = ["NOTICE", "Builtin", "open_builtin"]
