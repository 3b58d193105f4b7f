"""Models behind any OpenAI-compatible server: OpenAI, vLLM, SGLang, llama.cpp, Ollama, `transformers serve`."""

from refladder.backends.openai.endpoint import Endpoint, open_endpoint
from refladder.backends.openai.options import Options

__all__ = ["Endpoint", "Options", "open_endpoint"]
