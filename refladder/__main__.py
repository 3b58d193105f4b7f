"""`python -m refladder`."""

from refladder.commands.main import main

# Worker processes import this module.
if __name__ == "__main__":
    main()
