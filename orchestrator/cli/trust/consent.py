"""The rule for commands that give trust: they trust only the definition that a person has read and confirmed.

At a terminal the person answers a question. A script gives the digest that the terminal showed. If a definition has
changed since then, its digest differs, and nothing is trusted. Only a terminal shows the digest, because an agent that
runs commands would repeat a refused command with it.
"""

import sys
from typing import Any

import click

from orchestrator.common.digests import SHOWN_DIGITS
from orchestrator.errors import InvalidInput

YES_OPTION = click.option(
    "--yes", "digest", metavar="DIGEST", help="Confirm what an earlier run showed with this digest."
)


def is_at_terminal() -> bool:
    """Return True if a person reads the output of the command and can answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def without_digests(run: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of a run, or of its progress. Without a terminal its steps have no digest that would approve."""
    if is_at_terminal():
        return run
    return run | {"steps": [step | {"digest": ""} for step in run["steps"]]}


def confirm(question: str, expected: str, digest: str | None) -> None:
    """Return if the user confirms.

    Args:
        question: The question at a terminal.
        expected: The digest of the shown definition or call.
        digest: The digest that the user gave, or None.

    Raises:
        InvalidInput: There is no terminal and no digest, or the digest belongs to other definitions.
        Abort: The user answered no.
    """
    if digest is not None:
        if digest != expected:
            raise InvalidInput(
                f"--yes {digest[:SHOWN_DIGITS]}: nothing was trusted, because what is shown above has another digest: "
                f"run the command in a terminal, read it, and use the digest that it shows"
            )
        return
    if not is_at_terminal():
        raise InvalidInput(
            "nothing was trusted: run this command in a terminal, where you read what is shown and confirm it. "
            "The terminal shows the digest that --yes takes in a script"
        )
    click.echo(f"In a script, confirm the same with --yes {expected}", err=True)
    click.confirm(question, abort=True, err=True)
