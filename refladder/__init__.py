"""refladder: absolute scores for generated text, by comparison with a ladder of reference texts of rising quality."""

__version__ = "0.1.0"
