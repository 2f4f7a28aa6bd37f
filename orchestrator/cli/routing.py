"""What the commands that route share: the options that make a RouteRequest, and the request made of them."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from orchestrator.cli.common import calibration_option, source_options, tenant_from
from orchestrator.cli.conversation import CONVERSATION, read_conversation
from orchestrator.errors import InvalidInput
from orchestrator.records.request import Fusion, RouteHint, RouteRequest

Command = TypeVar("Command", bound=Callable[..., Any])

_REQUEST = (
    click.option("--limit", type=int, metavar="N", help="At most so many matches (1 to 50).  [default: 10]"),
    click.option(
        "--coverage",
        type=float,
        metavar="P",
        help="Instead of a limit: the fewest matches that hold all needed tools with this probability, e.g. 0.9.",
    ),
    click.option(
        "--route-hint",
        type=click.Choice([str(hint) for hint in RouteHint]),
        default="auto",
        show_default=True,
        help="Which legs run: by the gate, keyword alone, or both.",
    ),
    click.option("--filter", "filters", multiple=True, metavar="KEY=VALUE", help="kind, server, name or a label."),
    CONVERSATION,
)
_DECISION = (
    click.option(
        "--fusion",
        type=click.Choice([str(fusion) for fusion in Fusion]),
        help="How the legs are merged: a fitted blend, 0.6 max + 0.4 min, or reciprocal ranks. [default: learnt]",
    ),
    click.option("--token-cap", type=int, metavar="N", help="Tokens that the matches' definitions may take."),
)


def request_options(command: Command) -> Command:
    """The options of what a run's request carries, too."""
    for option in reversed(_REQUEST):
        command = option(command)
    return command


def routing_options(command: Command) -> Command:
    """The options of commands that route in this process: where the tools are, the fit, and all of a RouteRequest."""
    for option in reversed(_DECISION):
        command = option(command)
    return source_options(calibration_option(request_options(command)))


def take_request(query: str, given: dict[str, Any]) -> RouteRequest:
    """The request that the options among `given` make, which are taken out of it; InvalidInput for what is no request.

    The tenant's options (`source_options`) are of it, too.
    """
    limit, coverage, fusion = given.pop("limit"), given.pop("coverage"), given.pop("fusion", None)
    if limit is not None and coverage is not None:
        raise InvalidInput("--coverage finds the number of matches itself: leave out --limit")
    request = RouteRequest(
        query=query,
        tenant=tenant_from(given.pop("organization"), given.pop("user")),
        limit=10 if limit is None else limit,
        coverage=coverage,
        conversation=read_conversation(given.pop("conversation")),
        filters=_parse_filters(given.pop("filters")),
        route_hint=RouteHint(given.pop("route_hint")),
        token_cap=given.pop("token_cap", None),
        fusion=Fusion(fusion) if fusion else None,
    )
    request.validate()
    return request


def _parse_filters(filters: tuple[str, ...]) -> dict[str, str]:
    parsed: dict[str, str] = {}
    for item in filters:
        key, equals, value = item.partition("=")
        if not equals:
            raise InvalidInput(f"--filter {item!r}: write KEY=VALUE, e.g. kind=agent or domain=finance")
        if parsed.setdefault(key, value) != value:
            raise InvalidInput(f"--filter {item!r}: {key} is already {parsed[key]!r}; a tool has one value for a key")
    return parsed
