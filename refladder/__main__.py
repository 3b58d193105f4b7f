"""`python -m refladder`."""

from refladder.cli import main

main()
