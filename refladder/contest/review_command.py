"""refladder review."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from refladder.cli import console
from refladder.cli.options import subcommand
from refladder.errors import UsageError
from refladder.options import like

if TYPE_CHECKING:
    from collections.abc import Mapping

    from refladder.contest.workspace import Workspace

_LOOPBACK = "127.0.0.1"
_ANY = ("0.0.0.0", "::", "")  # noqa: S104  refused


@subcommand(
    "Look at a run, rate it blind, or build one, in the browser.",
    "run",
    like(
        "column",
        help="Column of context_id, context, output, output_id or system in the table, if named otherwise and not said "
        "to `score`. Repeatable.",
    ),
    like("page", help="Write the page as one HTML file instead of serving it."),
    "folders",
    "port",
    "host",
    "no_browser",
)
def command(
    *,
    run: Path | None,
    column: Mapping[str, str],
    page: Path | None,
    folders: tuple[Path, ...],
    port: int,
    host: str,
    no_browser: bool,
) -> None:
    """Open RUN in the browser, to look at it and to rate its texts blind.

    RUN is the folder of `compete --out` or `evaluate --work`, or the table of `score --out`. Without it, the page
    builds and runs a contest from a table in --folder.

    Ratings go to `ratings.jsonl` and `preferences.jsonl` in the folder of RUN, or beside the table. --html FILE writes
    one file that needs no server and no network; its ratings are downloaded.

    Examples:
        refladder review contest
        refladder review scored.jsonl --html review.html
    """
    from refladder.contest.html import review_page
    from refladder.contest.runs import read_run
    from refladder.contest.workspace import Workspace
    from refladder.files.jsonl import atomic

    if page is not None:
        if run is None:
            raise UsageError("--html needs the run to show; give RUN")
        if page.suffix.lower() != ".html":
            raise UsageError(f"--html {page}: the name of a page must end in .html")
        with atomic(page) as stream:
            stream.write(review_page(read_run(run, columns=column)).encode())
        console.notify(f"{page} holds the page; open it in a browser")
        return
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"--folder {folder}: no such folder")
    if run is not None:
        # A wrong run is reported here.
        read_run(run, columns=column)
    workspace = Workspace(run, folders or (Path(),), column)
    _serve(workspace, port=port, host=host, opens=not no_browser)


def _serve(workspace: Workspace, *, port: int, host: str, opens: bool) -> None:
    import secrets
    import socket
    import webbrowser
    from contextlib import closing, suppress

    if host in _ANY:
        raise UsageError(
            f"--host {host} has no address that requests can be checked against; name the address by which other "
            "machines reach this one"
        )
    try:
        import uvicorn

        from refladder.contest.serving import review_app
    except ImportError as error:
        raise UsageError(
            f"the server of the page needs {error.name}; pip install starlette uvicorn, or write the page with --html"
        ) from error
    from refladder.contest.building import Builder

    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(
            f"--host {host} --port {port}: cannot listen there ({error.strerror}); choose another port"
        ) from error
    with listening, closing(Builder(workspace)) as builder:
        port = listening.getsockname()[1]
        names = {host, _LOOPBACK, "localhost"} if host == _LOOPBACK else {host}
        hosts = frozenset(f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names)
        token = secrets.token_urlsafe(24)
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{port}/#token={token}"
        console.say(f"Open {address}")
        console.notify("Press Ctrl+C to stop. Ratings are on the disk as soon as they are given.")
        if opens:
            webbrowser.open(address)
        app = review_app(workspace, builder, token=token, hosts=hosts)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            ws="none",
            server_header=False,
            lifespan="off",
        )
        # Ctrl-C is the usual end.
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])
