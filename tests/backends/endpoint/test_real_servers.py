"""A server that others wrote, `transformers serve`, with a tiny model made on the spot."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from asked import LABELS, questions

from refladder.backends import connect
from refladder.errors import LabelsUnavailableError
from refladder.records import Sampling
from refladder.testing import check_backend

START = 60  # seconds that a server may take to start


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    for package in ("torch", "transformers"):
        pytest.importorskip(package, reason=f"{package} is not installed; pip install 'refladder[local]'")
    import trained_model  # noqa: PLC0415  imports torch

    return trained_model.save(tmp_path_factory.mktemp("model"), questions(6))


@contextmanager
def started(command, log, health="/health"):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with log.open("wb") as out:
        process = subprocess.Popen([*command, "--port", str(port)], stdout=out, stderr=out, env=environment)
    try:
        _wait(process, f"http://127.0.0.1:{port}{health}", log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(20)


def _wait(process, url, log):
    until = time.monotonic() + START
    while time.monotonic() < until:
        if process.poll() is not None:
            pytest.fail(f"the server ended: {log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310  on loopback
                return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.3)
    pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def transformers_serve(folder, tmp_path_factory):
    for package in ("fastapi", "uvicorn", "accelerate"):
        pytest.importorskip(package, reason=f"{package} is not installed; pip install 'refladder[servers]'")
    log = tmp_path_factory.mktemp("log") / "serve.txt"
    command = [Path(sys.executable).with_name("transformers"), "serve", folder, "--host", "127.0.0.1"]
    with started([*command, "--device", "cpu"], log) as url:
        yield url


def test_transformers_serve_gives_votes(transformers_serve, folder):
    backend = connect(f"openai:{folder}", base_url=transformers_serve, max_concurrency="2")
    print(backend.notice)  # noqa: T201  shown with -s: what this version of the server can do
    assert backend.fingerprint.endswith(" sample1-fixed")
    readings = backend.read_labels(questions(6), LABELS)
    votes = [max(range(3), key=reading.logprobs.__getitem__) for reading in readings if reading.logprobs is not None]
    assert votes == [place % 3 for place in range(6)]  # as it was trained


def test_transformers_serve_writes(transformers_serve, folder):
    backend = connect(f"openai:{folder}", base_url=transformers_serve, max_concurrency="2")
    texts = backend.write(questions(3), Sampling(max_tokens=8))
    assert [text.text for text in texts] == ["Better", "Worse", "Similar"]
    assert all(text.finish == "stop" for text in texts)
    check_backend(backend)


@pytest.mark.parametrize("mode", ["exact", "echo", "top"])
def test_transformers_serve_has_no_log_probabilities(transformers_serve, folder, mode):
    backend = connect(f"openai:{folder}", base_url=transformers_serve, mode=mode)
    with pytest.raises(LabelsUnavailableError, match=f"mode {mode} was demanded and .* cannot be read that way"):
        _ = backend.fingerprint
