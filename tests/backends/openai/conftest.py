"""Servers for the tests of the endpoint backend; nothing leaves this machine."""

import pytest
from toy_server import ToyServer


def pytest_collection_modifyitems(config, items):
    if "llama" in config.option.markexpr:
        return
    for item in items:
        if item.get_closest_marker("llama"):
            item.add_marker(
                pytest.mark.skip(reason="starts a real llama.cpp server; run with pytest -m llama")
            )


@pytest.fixture
def serve():
    """Start a toy server with these quirks; stopped when the test ends."""
    running = []

    def start(quirks):
        server = ToyServer(quirks)
        server.__enter__()
        running.append(server)
        return server

    yield start
    for server in running:
        server.__exit__()
