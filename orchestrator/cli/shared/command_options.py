"""Command line options that several commands share, and the objects that commands receive in their place."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import wraps
from inspect import iscoroutine
from pathlib import Path
from typing import Any, TypeVar

import click
from click import option

from orchestrator.cli.shared.derived_options import derived
from orchestrator.cli.shared.parameter_types import FILE, PATH, TEXT, TOOLS
from orchestrator.cli.shared.signals import until_signalled
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.common.tenant import check_tenant, os_user, tenant_of
from orchestrator.errors import InvalidInput
from orchestrator.mcp.config.locate import FILE_NAMES
from orchestrator.options import Options, options_over
from orchestrator.records.request import RouteRequest, Turn

Command = TypeVar("Command", bound=Callable[..., Any])


PIPELINES = ("default", "coderag", "fabric", "koi", "prismgate", "toolpilot")
"""The names of the presets, without their module, which loads the search."""


def _turns(_: click.Context, __: click.Parameter, path: Path | None) -> tuple[Turn, ...]:
    """Read the turns of the file, oldest first."""
    if path is None:
        return ()
    from orchestrator.cli.shared.conversation_file import read_conversation

    return read_conversation(path)


def _once(_: click.Context, parameter: click.Parameter, values: tuple[Any, ...]) -> Any:
    """Refuse an option that is given twice. Click would silently take the last value."""
    if len(values) > 1:
        raise click.BadParameter(
            f"{', '.join(map(str, values))}: {_ONCE[str(parameter.name)]}", param=parameter
        )
    return values if parameter.name == "store" else next(iter(values), None)


_ONCE = {
    "store": "this command takes one store; route, run and serve search several",
    "config": "give one file that names all servers",
}
_CATALOGUE = "A file or folder of tools to use instead of a store. - is standard input."
_CONFIG = f"The mcpServers file. [default: {' or '.join(FILE_NAMES)} in this folder, or the file that `setup` wrote]"
_WRITTEN = "The mcpServers file to write. [default: the file that a client uses, or mcp.json in your settings folder]"
_LISTED = "An mcpServers file. Servers that the store does not know are listed first."
_DATA = "[default: TOOLROUTE_STORE, or your data folder]"
_STORE = f"A folder, or the URL of a Qdrant server. {_DATA}"
_STORES = (
    "A folder, or the URL of a Qdrant server. Repeat the option to search several stores. STORE#TENANT adds that "
    f"tenant's tools. {_DATA}"
)
_SEARCHED = (
    "auto: keyword search, plus semantic search if the keyword search is not confident. keyword: only keyword search. "
    "semantic: always both. vector, graph: only that list of a preset."
)
_TURNS = 'A file of earlier turns, one JSON object a line: {"role", "text", "tools", "offered"}. Only text is required.'
_CONTEXT = "A preferred label, most important first. A label that would leave no tool is ignored."
_APPROVE = "Which calls need approval. changes: tools not known to only read. destructive: tools that may destroy data."
_WARM = "Connect up to N probably needed servers (2 if N is omitted) while the model thinks."
_ADDRESS = "The Temporal server. [default: TEMPORAL_ADDRESS, or localhost:7233]"
_NAMESPACE = "The Temporal namespace. [default: TEMPORAL_NAMESPACE, or default]"
_DEV = "Start a local Temporal server if neither --address nor TEMPORAL_ADDRESS is set."
_MODEL = "The language model. Uses OPENAI_BASE_URL and OPENAI_API_KEY. [default: TOOLROUTE_MODEL]"
_FIT = "A file written by `eval --fit --write`. [default: TOOLROUTE_CALIBRATION]"
_PIPELINE = "The pipeline preset. [default: TOOLROUTE_PIPELINE, or default]"
_UNDERSTAND = "model: a language model describes the tools that a task needs. [default: TOOLROUTE_UNDERSTAND, or plain]"
_DECIDE = (
    "model: a language model reads the first 20 candidates. [default: TOOLROUTE_DECIDE, or off]"
)
_LAST = "Show the newest N entries."
_OWNER = [
    option(
        "--tenant", metavar="TENANT", help="The tenant: org:ID, user:ID or local. [default: local]"
    ),
    option("--organization", metavar="ID", help="Short for --tenant org:ID."),
    option("--user", metavar="ID", help="Short for --tenant user:ID."),
]
_SERVER = [
    derived(Options, "temporal_address", _ADDRESS, "--address", metavar="HOST:PORT"),
    derived(Options, "temporal_namespace", _NAMESPACE, "--namespace"),
]
_TASK = [
    derived(RouteRequest, "limit", "Maximum number of matches, 1 to 50."),
    derived(RouteRequest, "route_hint", _SEARCHED),
    derived(
        RouteRequest,
        "filters",
        "Only tools with this kind, server, name or label, for example kind=agent.",
        "--filter",
    ),
    derived(
        RouteRequest,
        "conversation",
        _TURNS,
        type=PATH,
        metavar="FILE",
        default=None,
        callback=_turns,
    ),
]


def _output(*forms: str) -> Callable[[Any], Any]:
    """Return the option of the output's form. The first one is the default."""
    return option("-o", "--output", type=click.Choice(forms), default=forms[0])


def _config(text: str) -> Callable[[Any], Any]:
    """Return the option of the mcpServers file, which is given once."""
    return option("--config", metavar="FILE", type=FILE, multiple=True, callback=_once, help=text)


_OPTIONS: dict[str, list[Callable[[Any], Any]]] = {
    "catalogue": [option("--catalogue", metavar="FILE|FOLDER", type=TOOLS, help=_CATALOGUE)],
    "config": [_config(_CONFIG)],
    "written": [_config(_WRITTEN)],
    "listed": [_config(_LISTED)],
    "owner": _OWNER,
    "tenant": [
        option(
            "--store", metavar="FOLDER|URL", type=TEXT, multiple=True, callback=_once, help=_STORE
        ),
        *_OWNER,
    ],
    "sources": [
        option("--store", metavar="FOLDER|URL", type=TEXT, multiple=True, help=_STORES),
        *_OWNER,
    ],
    "request": [
        *_TASK,
        derived(RouteRequest, "context", _CONTEXT),
        derived(
            RouteRequest,
            "fusion",
            "How the results of the searches are merged. rrf: by reciprocal ranks. [default: learnt]",
        ),
        derived(RouteRequest, "token_cap", "Maximum number of tokens of the matches' definitions."),
    ],
    "temporal server": _SERVER,
    "temporal": [*_SERVER, option("--dev", is_flag=True, help=_DEV)],
    "model": [derived(Options, "model", _MODEL)],
    "calibration": [
        derived(Options, "calibration", _FIT, metavar="FILE"),
        derived(Options, "pipeline", _PIPELINE, type=click.Choice(PIPELINES), metavar=None),
        derived(Options, "understand", _UNDERSTAND),
        derived(Options, "decide", _DECIDE),
    ],
    "warm": [
        option(
            "--warm",
            metavar="[N]",
            type=click.IntRange(0),
            is_flag=False,
            flag_value="2",
            default=0,
            help=_WARM,
        )
    ],
    "last": [option("--last", type=click.IntRange(1), default=50, metavar="N", help=_LAST)],
    "output": [_output("table", "json")],
    "output of lines": [_output("table", "json", "jsonl")],
    "output of graphs": [_output("mermaid", "json")],
}


def _options_of(group: str) -> list[Callable[[Any], Any]]:
    return _OPTIONS[group] if group in _OPTIONS else _options_of_runs()[group]


def _options_of_runs() -> dict[str, list[Callable[[Any], Any]]]:
    """Return the groups that need the records of runs, which other commands do not load."""
    from orchestrator.records.run import RunRequest

    argument = "An argument for the tools of all steps. s1.NAME is for step s1."
    plan = [
        derived(RunRequest, "arguments", argument, "--arg"),
        derived(RunRequest, "min_confidence", "Plan no step if the confidence is lower."),
    ]
    return {
        "plan": plan,
        "run": [*_TASK, *plan],
        "approve": [derived(RunRequest, "approve", _APPROVE)],
    }


def taking(*groups: str) -> Callable[[Command], Command]:
    """Add these groups of options to a command, which receives `workspace`, `request` and `options` accordingly.

    A command may be a coroutine. Ctrl-C, SIGTERM and SIGHUP then cancel it, so that everything it started ends.
    """

    def decorate(body: Command) -> Command:
        @wraps(body)
        def command(**values: Any) -> Any:
            arguments = _arguments(groups, values)
            answer = body(**arguments, **values)
            return asyncio.run(until_signalled(answer)) if iscoroutine(answer) else answer

        # The option that is added last comes first in the help.
        for group in reversed(groups):
            for add in reversed(_options_of(group)):
                command = add(command)
        return command  # type: ignore[return-value]

    return decorate


def _arguments(groups: Iterable[str], values: dict[str, Any]) -> dict[str, Any]:
    """Move the values of the shared options out of `values`, into the objects that the command receives."""
    arguments: dict[str, Any] = {}
    if {"tenant", "sources", "owner"}.intersection(groups):
        names = ("catalogue", "store", "config", "tenant", "organization", "user")
        arguments["workspace"] = _workspace(**_moved(values, names))
    if {"model", "calibration", "temporal server", "temporal"}.intersection(groups):
        arguments["options"] = _settings(**_moved(values, _names(Options)))
    if {"run", "request"}.intersection(groups):
        record = _request_of(groups)
        chosen = _moved(values, _names(record))
        request = record(tenant=arguments["workspace"].tenant, actor=os_user(), **chosen)
        request.validate()
        arguments["request"] = request
    return arguments


def _request_of(groups: Iterable[str]) -> Any:
    if "run" not in groups:
        return RouteRequest
    from orchestrator.records.run import RunRequest

    return RunRequest


def _names(record: Any) -> list[str]:
    return [record_field.name for record_field in fields(record)]


def _moved(values: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: values.pop(name) for name in names if name in values}


def _workspace(
    tenant: str | None, organization: str | None, user: str | None, **sources: Any
) -> Workspace:
    if tenant is not None:
        if organization is not None or user is not None:
            raise InvalidInput(f"--tenant {tenant}: leave out --organization and --user")
        check_tenant(tenant, shared=True)
    elif organization is not None and user is not None:
        raise InvalidInput(
            f"--user {user}: leave it out, or leave --organization {organization} out"
        )
    return Workspace(given_tenant=tenant or tenant_of(organization, user), **sources)


def _settings(**values: Any) -> Options:
    """Return the environment's settings, replaced by the options. A model of an option is used for every purpose."""
    if values.get("model"):
        values |= {"model_route": "", "model_plan": ""}
    return options_over(values)
