"""The options that commands share, and what is made of them: a place, a request, settings."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import closing
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import click
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from orchestrator.catalogue.reading import first_problem, numbered_lines, why_unread
from orchestrator.cli.output import note, progress
from orchestrator.errors import InvalidConfig, InvalidInput
from orchestrator.index.embed import embedder_for
from orchestrator.mcp.config import FILE_NAMES, McpConfig, find_config
from orchestrator.options import Options, default_store
from orchestrator.records.request import Fusion, RouteHint, RouteRequest, Turn
from orchestrator.records.tenant import tenant_of
from orchestrator.routing.router import Router
from orchestrator.store.store import Changes, Store

if TYPE_CHECKING:
    from orchestrator.catalogue.catalogue import Catalogue

Command = TypeVar("Command", bound=Callable[..., Any])


class _NotEmpty:
    """Refuses "", which an unset variable leaves: as a path it would be the working folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            raise click.BadParameter("it is empty; is a variable unset? Name one, or leave it out", ctx, param)
        return super().convert(value, param, ctx)  # type: ignore[misc]


class _Text(_NotEmpty, click.types.StringParamType):
    pass


class _Path(_NotEmpty, click.Path):
    pass


class _Tools(_Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and "://" in value:
            remedy = "give a file; `toolroute tools list --store URL -o jsonl` writes the tools of a store"
            raise click.BadParameter(f"an address is not a file of tools: {remedy}", ctx, param)
        return super().convert("/dev/stdin" if value == "-" else value, param, ctx)


TEXT, PATH, FILE = _Text(), _Path(path_type=Path), _Path(path_type=Path, dir_okay=False)
TOOLS = _Tools(path_type=Path)
"""A name or an address; a file or folder; a file; a file or folder of tools, where `-` is standard input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Whose tools a command is about, and where they are."""

    organization: str | None = None
    user: str | None = None
    store: str | None = None
    catalogue: Path | None = None
    config: Path | None = None

    @property
    def tenant(self) -> str:
        return tenant_of(self.organization, self.user, default="local")

    def open_store(self, options: Options | None = None) -> Store:
        """Open the store that `--store` names, else the user's own; its embedder opens on first use."""
        options = options or Options.from_env()
        where = self.store or default_store()
        return Store(where, embedder=lambda: embedder_for(options), timeout_s=options.store_timeout_s)

    def known_store(self) -> Store:
        """Open a store to read from; InvalidInput where `--store` names one that does not exist."""
        store = self.open_store()
        if self.store and not store.exists:
            made_by = "`toolroute tools import` and `tools sync` make one"
            raise InvalidInput(f"store {self.store!r} does not exist: {made_by}")
        return store

    def config_file(self) -> Path:
        """Return the mcpServers file given, else the working folder's; InvalidConfig without one."""
        found = self.config or find_config()
        if found is None:
            raise InvalidConfig(f"no {' and no '.join(FILE_NAMES)} in this folder: give --config FILE")
        return found

    def servers(self) -> McpConfig | None:
        """Read the mcpServers file given, else the working folder's, if there is one."""
        found = self.config or find_config()
        return McpConfig.read(found) if found else None

    async def open_router(self, options: Options) -> Router:
        """Open a Router on the catalogue, or on the store; given both, the catalogue is stored first.

        The servers of `--config` that the store lacks are listed first.
        """
        if self.catalogue is not None and self.store is None:
            if self.config is not None:
                raise InvalidInput("--config lists servers into a store: give --store, too, or leave --catalogue out")
            return Router(self.catalogue, options=options)
        if self.catalogue is None and self.config is None:
            self.known_store()
        else:
            await self.fill(McpConfig.read(self.config) if self.config else None, options)
        return Router(store=self.store or default_store(), options=options)

    async def fill(self, servers: McpConfig | None, options: Options) -> None:
        """Store what the catalogue holds, and list the servers that the store lacks for this tenant."""
        from orchestrator.catalogue.catalogue import Catalogue
        from orchestrator.mcp.connections import Connections
        from orchestrator.mcp.sync import not_listed, sync

        with closing(self.open_store(options)) as store:
            if self.catalogue is not None:
                store_tools(store, self.tenant, Catalogue.read(self.catalogue, None))
            if servers is None:
                await asyncio.to_thread(store.servers, self.tenant)  # One that does not answer is reported here.
                return
            if unknown := list(await asyncio.to_thread(not_listed, servers, store, self.tenant)):
                note(f"listing {', '.join(unknown)} (once) ...")
                async with Connections(servers) as connections:
                    await sync(connections, store, self.tenant, lambda report: note(report.line), unknown)


def store_tools(store: Store, tenant: str, tools: "Catalogue") -> dict[str, Changes]:
    """Make these the tools of the servers that they name, with progress on standard error."""
    by_server = {server: tools.of_server(server) for server in tools.places}
    with progress("storing tools") as bar:
        task = bar.add_task("", total=None)
        return store.replace_servers(
            tenant, by_server, lambda done, total: bar.update(task, completed=done, total=total)
        )


def _only_one(_: click.Context, parameter: click.Parameter, given: tuple[Path, ...]) -> Path | None:
    if len(given) > 1:
        raise click.BadParameter(f"{', '.join(map(str, given))}: give one file that names all servers", param=parameter)
    return given[0] if given else None


_STORE = "A folder, or the URL of a Qdrant server. [default: TOOLROUTE_STORE, else a folder among the user's data]"
_CATALOGUE = "Use this file or folder of tools (- is standard input), not a store; with --store they are stored first."
_CONFIG = f"The mcpServers file. [default: {' or '.join(FILE_NAMES)} in this folder]"
_PLACE = {
    "catalogue": click.option("--catalogue", metavar="FILE|FOLDER", type=TOOLS, help=_CATALOGUE),
    "store": click.option("--store", metavar="FOLDER|URL", type=TEXT, help=_STORE),
    "config": click.option("--config", metavar="FILE", type=FILE, multiple=True, callback=_only_one, help=_CONFIG),
    "organization": click.option("--organization", metavar="ID", help="The organization whose tools these are."),
    "user": click.option("--user", metavar="ID", help="The user whose tools these are."),
}


def _with_options(body: Command, options: list[Any]) -> Command:
    for option in reversed(options):
        body = option(body)
    return body


def place_options(*more: str) -> Callable[[Command], Command]:
    """Give the command `place`, by `--store`, `--organization`, `--user` and those named."""
    names = [name for name in _PLACE if name in (*more, "store", "organization", "user")]

    def decorate(body: Command) -> Command:
        @wraps(body)
        def command(**given: Any) -> Any:
            place = Place(**{name: given.pop(name) for name in names})
            if place.organization is not None and place.user is not None:
                note(f"--user {place.user} not used: with --organization the tools are those of {place.organization}")
            return body(place=place, **given)

        return _with_options(command, [_PLACE[name] for name in names])  # type: ignore[return-value]

    return decorate


_REQUEST = [
    click.option("--limit", type=int, metavar="N", help="At most N matches (1 to 50). [default: 10]"),
    click.option("--coverage", type=float, metavar="P", help="The fewest matches that hold all needed with chance P."),
    click.option(
        "--route-hint",
        type=click.Choice([str(hint) for hint in RouteHint]),
        default="auto",
        show_default=True,
        help="What is searched: keywords, and meaning where these are not sure enough; keywords alone; or both.",
    ),
    click.option("--filter", "filters", multiple=True, metavar="KEY=VALUE", help="kind, server, name or a label."),
    click.option(
        "--conversation",
        type=PATH,
        metavar="FILE",
        help='Earlier turns, one JSON object a line: {"role", "text", "tools", "offered"}; only the text, or '
        '"content", is required.',
    ),
]
_SHAPE = [
    click.option("--fusion", type=click.Choice([str(fusion) for fusion in Fusion]), help="[default: learnt]"),
    click.option("--token-cap", type=int, metavar="N", help="Tokens that the matches' definitions may take."),
]


def request_options(*, shape: bool = True) -> Callable[[Command], Command]:
    """Give the command `request`, from its `task` and the options; `shape` adds what only routing in process takes."""

    def decorate(body: Command) -> Command:
        @wraps(body)
        def command(*, place: Place, task: str, **given: Any) -> Any:
            limit, coverage = given.pop("limit"), given.pop("coverage")
            if limit is not None and coverage is not None:
                raise InvalidInput("--coverage finds the number of matches itself: leave out --limit")
            fusion = given.pop("fusion", None)
            request = RouteRequest(
                query=task,
                tenant=place.tenant,
                limit=10 if limit is None else limit,
                coverage=coverage,
                conversation=_conversation(given.pop("conversation")),
                filters=_filters(given.pop("filters")),
                route_hint=RouteHint(given.pop("route_hint")),
                token_cap=given.pop("token_cap", None),
                fusion=Fusion(fusion) if fusion else None,
            )
            request.validate()
            return body(place=place, request=request, **given)

        return _with_options(command, [*_REQUEST, *(_SHAPE if shape else [])])  # type: ignore[return-value]

    return decorate


def _filters(filters: tuple[str, ...]) -> dict[str, str]:
    parsed: dict[str, str] = {}
    for item in filters:
        key, equals, value = item.partition("=")
        if not equals:
            raise InvalidInput(f"--filter {item!r}: write KEY=VALUE, e.g. kind=agent or domain=finance")
        if parsed.setdefault(key, value) != value:
            raise InvalidInput(f"--filter {item!r}: {key} is already {parsed[key]!r}; a tool has one value for a key")
    return parsed


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore")
    text: Annotated[str, Field(min_length=1, validation_alias=AliasChoices("text", "content"))]
    role: str = "user"
    tools: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()


def _conversation(path: Path | None) -> tuple[Turn, ...]:
    """Read the turns of the file, oldest first."""
    if path is None:
        return ()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"--conversation {path}: cannot be read ({why_unread(error)}); give a UTF-8 file") from None
    return tuple(_turn(f"--conversation {path}:{number}", line) for number, line in numbered_lines(text))


def _turn(where: str, line: str) -> Turn:
    try:
        return Turn(**dict(_Line.model_validate_json(line)))
    except ValidationError as error:
        form = '{"role": "user", "text": "...", "tools": ["server:name"]}'
        raise InvalidInput(f"{where}: {first_problem(error, 'the line')}; write {form}") from None


def settings(*, model: str | None = None, calibration: Path | None = None, **given: Any) -> Options:
    """Return the environment's settings, then those given; a model named here does all that a model does."""
    alone = {"model_route": "", "model_plan": ""} if model else {}
    return Options.from_env(**{**given, **alone, "model": model, "calibration": calibration and str(calibration)})


model_option = click.option(
    "--model",
    metavar="NAME",
    help="The language model, at OPENAI_BASE_URL with the key OPENAI_API_KEY. [default: TOOLROUTE_MODEL, if any]",
)
calibration_option = click.option(
    "--calibration",
    metavar="FILE",
    type=PATH,
    help="What `doctor --write` or `eval --fit --write` made. [default: TOOLROUTE_CALIBRATION, if any]",
)
write_option = click.option(
    "--write", metavar="FILE", type=FILE, help="Keep the fit in FILE, for --calibration and TOOLROUTE_CALIBRATION."
)
output_option = click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)


def awaited(body: Callable[..., Coroutine[Any, Any, int]]) -> Callable[..., int]:
    """Run a command's coroutine, which returns the exit code, until it ends or a signal ends it."""

    @wraps(body)
    def command(**given: Any) -> int:
        from orchestrator.cli.ending import until_ended

        return asyncio.run(until_ended(body(**given)))

    return command
