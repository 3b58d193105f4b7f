"""Local models on a CPU or GPU: `connect("hf:ORG/MODEL")` or `connect("hf:FOLDER")`."""

from refladder.backends.hf.transformers_backend import TransformersBackend, open_hf

__all__ = ["TransformersBackend", "open_hf"]
