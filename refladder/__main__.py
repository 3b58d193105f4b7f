"""`python -m refladder`."""

from refladder.commands.main import main

if __name__ == "__main__":  # worker processes import this module
    main()
