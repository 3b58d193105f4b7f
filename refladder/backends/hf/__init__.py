"""Local models on a CPU or GPU: `connect("hf:ORG/MODEL")`, `connect("hf:FOLDER")` or a GGUF file."""

from refladder.backends.hf.backend import TransformersBackend, open_hf

__all__ = ["TransformersBackend", "open_hf"]
