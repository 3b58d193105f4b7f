"""Models behind any OpenAI-compatible server: OpenAI, vLLM, SGLang, llama.cpp, Ollama, `transformers serve`."""

from refladder.backends.openai.backend import OpenAIBackend, open_openai
from refladder.backends.openai.options import Options

__all__ = ["OpenAIBackend", "Options", "open_openai"]
