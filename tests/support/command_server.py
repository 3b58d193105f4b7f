"""`refladder` as a program that starts at once: each command is a fork of one process that has imported the package.

A command has a process of its own, and the streams, the folder and the environment of its caller, also in a pipe or a
loop of a shell. That the interpreter starts anew is left to other tests.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

# Hands its streams to the server and ends with the code of the command.
CLIENT = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [b" "], [0, 1, 2])
    server.sendall(json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode())
    server.shutdown(socket.SHUT_WR)
    code = int(server.makefile().read())
os._exit(code)
"""
IMPORTED = (
    "pandas",
    "pyarrow.parquet",
    "pydantic.type_adapter",
    "rich.table",
    "scipy.stats",
    "refladder.contest.compete",
    "refladder.backends.openai.backend",
    "refladder.prompts",
    "refladder.display.terminal",
    "refladder.students.distil",
    "refladder.calibration.calibrate",
    "refladder.calibration.filter",
    "refladder.evaluation.evaluate",
    "refladder.evaluation.export",
    "refladder.jobs.score",
    "refladder.ladders.build",
    "refladder.ladders.certify",
)


@contextmanager
def program():
    """A folder with the program `refladder` of this checkout, until the end of the block."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        address = f"{folder}/socket"
        listener.bind(address)
        listener.listen()
        path = Path(folder, "refladder")
        path.write_text(CLIENT.format(python=sys.executable, address=address), "utf-8")
        path.chmod(0o755)
        number = listener.fileno()
        root = Path(__file__).parents[2]
        environment = {
            **os.environ,
            "PYTHONPATH": str(root),
            "PYTHONUNBUFFERED": "1",
            "LC_ALL": "C.UTF-8",
        }
        line = [sys.executable, "-P", __file__, str(number)]
        server = subprocess.Popen(line, stdin=subprocess.PIPE, pass_fds=[number], env=environment)
        listener.close()  # a command fails at once where the server could not start
        try:
            yield folder
        finally:
            server.communicate()  # the end of its standard input is its end


def _serve(listener):
    """Start a process for each connection; return its connection in that process, None at the end."""
    while sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
        connection, _ = listener.accept()
        with suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)  # one that has ended for each that begins
        if not os.fork():
            listener.close()
            return connection
        connection.close()
    return None


def _become_the_command(connection):
    """Go on as the command of a connection in a process of its own; this one waits and sends its code."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    arguments, folder, environment = json.loads(connection.makefile("rb").read())
    if child := os.fork():
        for stream in streams:
            os.close(stream)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(
            str(code if code >= 0 else 128 - code).encode()
        )  # as shells count signals
        os._exit(0)
    connection.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.argv = arguments
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)


def _run_and_leave(main):
    """Run a command and end with its code, without the end of the interpreter: it takes longer than most commands."""
    try:
        main()
    except SystemExit as ended:
        atexit._run_exitfuncs()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(ended.code)


if __name__ == "__main__":  # worker processes import this module
    commands = import_module("refladder.commands.main")
    for name in commands.COMMANDS:
        commands.command_of(name)
    for name in IMPORTED:
        import_module(name)
    # Recorded output has no lines that depend on how busy the machine is.
    import_module("refladder.display.progress").FIRST_LINE = 86400.0
    gc.freeze()  # so that memory that nobody changes is not copied
    found = _serve(socket.socket(fileno=int(sys.argv[1])))
    if found is not None:
        _become_the_command(found)
        _run_and_leave(commands.main)
