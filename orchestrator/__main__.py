"""`python -m orchestrator` is the `toolroute` command."""

from orchestrator.cli import main

main()
