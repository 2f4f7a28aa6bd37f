"""Command line options that several commands share, and the objects that they stand for."""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import MISSING, Field, fields
from enum import StrEnum
from functools import cache, wraps
from inspect import iscoroutine
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import click
from click import option
from click.core import ParameterSource

from orchestrator.cli.shared.workspace import Workspace
from orchestrator.common.os_user import os_user
from orchestrator.common.tenant import check_tenant, tenant_of
from orchestrator.errors import InvalidInput
from orchestrator.mcp.config.locate import FILE_NAMES
from orchestrator.options import Options, options_over
from orchestrator.records.request import RouteRequest, Turn

Command = TypeVar("Command", bound=Callable[..., Any])


class _NonEmptyPath(click.Path):
    """Refuses "", which an unset variable leaves: as a path it would be the working folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            remedy = "Is an environment variable unset? Give a value, or leave the option out"
            self.fail(f"the value is empty. {remedy}", param, ctx)
        return super().convert(value, param, ctx)


class _InputPath(_NonEmptyPath):
    """Takes `-` for standard input."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert("/dev/stdin" if value == "-" else value, param, ctx)


class _ToolsPath(_InputPath):
    """Refuses the address of a store."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and "://" in value:
            remedy = "give a file; `toolroute tools list --store URL -o jsonl` writes the tools of a store"
            self.fail(f"a URL is not a file of tools: {remedy}", param, ctx)
        return super().convert(value, param, ctx)


class _Date(click.ParamType[float]):
    """Makes a date the seconds since 1970."""

    name = "date"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        from orchestrator.experience.logs import seconds

        try:
            return float(str(seconds(value)))
        except ValueError:
            self.fail(f"{value!r}: give a date, e.g. 2026-11-24 or 2026-11-24T10:00", param, ctx)


DATE = _Date()
TEXT = _NonEmptyPath(readable=False)
"""A name or an address."""
PATH = _NonEmptyPath(path_type=Path)
"""A file or folder."""
FILE = _NonEmptyPath(path_type=Path, dir_okay=False)
LOG = _InputPath(path_type=Path, dir_okay=False)
"""A file that is read, `-` for standard input."""
TOOLS = _ToolsPath(path_type=Path)
"""A file or folder of tools, `-` for standard input."""
PIPELINES = ("default", "coderag", "fabric", "koi", "prismgate", "toolpilot")
"""The names of the presets, without their module, which loads the search."""
_METAVARS = {int: "N", float: "P"}
_EXAMPLES = {
    "--filter": "for example kind=agent or domain=finance",
    "--context": "e.g. language=python",
    "--arg": "e.g. timezone=Europe/Berlin",
}


def derived(
    record: Any, name: str, text: str, spelling: str = "", **settings: Any
) -> Callable[[Any], Any]:
    """Return a click option for a field of a record, with the field's name, type and default.

    Args:
        record: The record that is made from the options. Fields of `Options` have no default, because an
            environment variable may set them.
        name: The field's name.
        text: The help text.
        spelling: The option's name, if it differs from the field's name.
        settings: Settings of `click.option` that take precedence.
    """
    [record_field] = [candidate for candidate in fields(record) if candidate.name == name]
    hint = _hints(record)[name]  # type: ignore[arg-type, unused-ignore]  # mypy takes some classes for unhashable
    derived_settings = {"help": text, **_default(record, record_field), **_click_type(hint)}
    return option(
        spelling or f"--{name.replace('_', '-')}", name, **{**derived_settings, **settings}
    )


@cache
def _hints(record: Any) -> dict[str, Any]:
    return get_type_hints(record)


def _default(record: Any, record_field: Field[Any]) -> dict[str, Any]:
    if record is Options or record_field.default is MISSING:
        return {}
    default = record_field.default
    return {"default": str(default) if isinstance(default, StrEnum) else default}


def _click_type(hint: Any) -> dict[str, Any]:
    """Return the click settings for a type: a mapping, a choice, or a value."""
    if get_origin(hint) is dict:
        return {
            "type": _NonEmptyPath(),
            "multiple": True,
            "metavar": "NAME=VALUE",
            "callback": _as_pairs,
        }
    if get_origin(hint) is Literal:
        return {"type": click.Choice(get_args(hint))}
    kind = next(kind for kind in (*get_args(hint), hint) if kind is not NoneType)
    if issubclass(kind, StrEnum):
        return {
            "type": click.Choice([*map(str, kind)]),
            "callback": lambda _, __, value: value and kind(value),
        }
    return {
        "type": _NonEmptyPath() if kind is str else kind,
        "metavar": _METAVARS.get(kind, "NAME"),
    }


def pairs(
    name: str, values: tuple[str, ...], example: str, form: str = "NAME=VALUE"
) -> dict[str, str]:
    """Parse NAME=VALUE options into a dictionary.

    Args:
        name: The option's name, for the error.
        values: The values as typed.
        example: A correct value, for the error.
        form: The expected form, for the error.

    Raises:
        InvalidInput: A value has another form, or a name is given twice.
    """
    if wrong := [value for value in values if "=" not in value]:
        raise InvalidInput(f"{name} {wrong[0]!r}: write {form}, {example}")
    names = Counter(value.partition("=")[0] for value in values)
    key, number = next(iter(names.most_common(1)), ("", 0))
    if number > 1:
        raise InvalidInput(f"{name} {key} is given twice. Give it once")
    parsed = {}
    for value in values:
        key, _, text = value.partition("=")
        parsed[key] = text
    return parsed


def _as_pairs(
    _: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    return pairs(parameter.opts[0], values, _EXAMPLES[parameter.opts[0]])


def _turns(_: click.Context, __: click.Parameter, path: Path | None) -> tuple[Turn, ...]:
    """Read the turns of the file, oldest first."""
    if path is None:
        return ()
    from orchestrator.cli.shared.conversation import read_conversation

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


def _plan() -> list[Callable[[Any], Any]]:
    from orchestrator.records.run import RunRequest

    return [
        derived(
            RunRequest,
            "arguments",
            "An argument for the tools of all steps. s1.NAME is for step s1.",
            "--arg",
        ),
        derived(RunRequest, "min_confidence", "Plan no step if the confidence is lower."),
    ]


def _approve() -> list[Callable[[Any], Any]]:
    from orchestrator.records.run import RunRequest

    return [derived(RunRequest, "approve", _APPROVE)]


_OPTIONS: dict[str, list[Callable[[Any], Any]]] = {
    "catalogue": [option("--catalogue", metavar="FILE|FOLDER", type=TOOLS, help=_CATALOGUE)],
    "config": [
        option("--config", metavar="FILE", type=FILE, multiple=True, callback=_once, help=_CONFIG)
    ],
    "written": [
        option("--config", metavar="FILE", type=FILE, multiple=True, callback=_once, help=_WRITTEN)
    ],
    "listed": [
        option("--config", metavar="FILE", type=FILE, multiple=True, callback=_once, help=_LISTED)
    ],
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
_OPTIONS_OF_RUNS: dict[str, Callable[[], list[Callable[[Any], Any]]]] = {
    "plan": _plan,
    "run": lambda: [*_TASK, *_plan()],
    "approve": _approve,
}
"""These load the records of runs, which other commands do not need."""


def _options_of(group: str) -> list[Callable[[Any], Any]]:
    return _OPTIONS_OF_RUNS[group]() if group in _OPTIONS_OF_RUNS else _OPTIONS[group]


def taking(*groups: str) -> Callable[[Command], Command]:
    """Add these groups of options to a command, which receives `workspace`, `request` and `options` accordingly.

    A command may be a coroutine. Ctrl-C, SIGTERM and SIGHUP then cancel it, so that everything it started ends.
    """

    def decorate(body: Command) -> Command:
        @wraps(body)
        def command(**values: Any) -> Any:
            arguments = _arguments(groups, values)
            answer = body(**arguments, **values)
            return asyncio.run(_until_signalled(answer)) if iscoroutine(answer) else answer

        for group in reversed(groups):
            for add in reversed(_options_of(group)):
                command = add(command)
        return command  # type: ignore[return-value]

    return decorate


def _arguments(groups: Iterable[str], values: dict[str, Any]) -> dict[str, Any]:
    """Move the values of the shared options out of `values`, into the objects that they stand for."""
    arguments: dict[str, Any] = {}
    if {"tenant", "sources", "owner"}.intersection(groups):
        names = ("catalogue", "store", "config", "tenant", "organization", "user")
        arguments["workspace"] = _workspace(**_moved(values, names))
    if {"model", "calibration", "temporal server", "temporal"}.intersection(groups):
        arguments["options"] = _settings(**_moved(values, _names(Options)))
    if {"run", "request"}.intersection(groups):
        record = _request_of(groups)
        given = _moved(values, _names(record))
        request = record(tenant=arguments["workspace"].tenant, actor=os_user(), **given)
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


async def _until_signalled(body: Coroutine[Any, Any, int]) -> int:
    """Run the body. SIGTERM and SIGHUP cancel it as Ctrl-C does, so that its servers end with it."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    received = list[int]()

    def stop(number: int, _: object) -> None:
        # A second one would cut short what the first one ends.
        if task is not None and not received:
            loop.call_soon_threadsafe(task.cancel)
        received.append(number)

    # Not the loop's own handlers: they would report a first Ctrl-C, too, while it listens for a second one.
    before = {number: signal.signal(number, stop) for number in ending_signals()}
    try:
        return await body
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
        if received:
            raise SystemExit(128 + received[0])


def ending_signals() -> list[int]:
    """Return SIGTERM, and SIGHUP unless it is ignored (`nohup`)."""
    signals: list[int] = [signal.SIGTERM]
    # Windows has none.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    return signals


def typed(name: str) -> Any:
    """Return the text that the user typed for an option of the running command, or None."""
    return click.get_current_context().params.get(name)


def refuse(names: Iterable[str], reason: str) -> None:
    """Raise InvalidInput for the first of these options that the user typed.

    Args:
        names: The names of the options' parameters.
        reason: Why the option has no effect, and what to do. The message begins with the option.
    """
    context = click.get_current_context()
    spelling = {parameter.name: parameter.opts[-1] for parameter in context.command.params}
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise InvalidInput(f"{spelling[name]} {reason}")


def typed_options(*without: str) -> list[str]:
    """Return the parameters of the running command's options, without these."""
    options = click.get_current_context().command.params
    return [str(option.name) for option in options if option.name not in without]


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
    """Merge the environment's settings and the given ones. A model given by name is used for every purpose."""
    if values.get("model"):
        values |= {"model_route": "", "model_plan": ""}
    return options_over(values)
