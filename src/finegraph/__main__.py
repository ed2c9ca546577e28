"""`python -m finegraph` is the command `finegraph`."""

from finegraph.cli.main import main

main()
