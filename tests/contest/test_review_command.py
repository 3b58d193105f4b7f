"""`refladder review`: what is refused, and what is said."""

from __future__ import annotations

import socket
import sys

import pytest
from review_data import contest


def test_one_file_is_written(command, tmp_path):
    folder = contest(tmp_path, rows=2)
    page = tmp_path / "again.html"
    done = command("review", folder / "run", "--html", page)
    assert (done.code, done.out) == (0, "")
    assert done.err == f"{page} holds the page; open it in a browser\n"
    assert page.read_bytes() == (folder / "page.html").read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("none",), "none: no such run; give a folder of `compete`"),
        (("--html", "page.html"), "--html needs the run to show; give RUN"),
        (("none", "--html", "page.txt"), "--html page.txt: the name of a page must end in .html"),
        (("--folder", "none"), "no such folder"),
        (("--host", "0.0.0.0"), "name the address by which other machines reach"),  # noqa: S104
        (("--host", "256.1.1.1", "--no-browser"), "choose another port"),
    ],
)
def test_wrong_calls_are_refused_before_anything_starts(
    fails, tmp_path, monkeypatch, options, message
):
    monkeypatch.chdir(tmp_path)
    assert message in fails(2, "review", *options)


def test_a_port_that_is_taken(fails):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = fails(2, "review", "--port", port, "--no-browser")
    assert f"--port {port}: cannot listen there" in message


def test_without_the_packages_the_file_is_offered(fails, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    words = "needs uvicorn; pip install starlette uvicorn, or write the page with --html"
    assert words in fails(2, "review")
