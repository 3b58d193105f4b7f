"""`python -m refladder`, and the command `refladder`."""

import sys


def main() -> None:
    """Run the command line; an interrupt while packages are imported ends as a later one."""
    try:
        from refladder.commands.main import main as run

        run()
    except KeyboardInterrupt:
        from refladder.errors import ExitCode, interrupted

        sys.stderr.write(f"{interrupted(sys.argv[1:])}\n")
        sys.exit(ExitCode.INTERRUPTED)


# Worker processes import this module.
if __name__ == "__main__":
    main()
