"""The options that commands share, and what is made of them: a place, a request, settings."""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from inspect import iscoroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import click
from click import option
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.cli.output import counting, note, progress, warn
from orchestrator.common.json_input import first_problem, numbered_lines, why_unread
from orchestrator.common.tenant import tenant_of
from orchestrator.errors import InvalidConfig, InvalidInput
from orchestrator.index.embed import embedder_for
from orchestrator.mcp.config import FILE_NAMES, McpConfig, find_config
from orchestrator.options import Options, default_store, stores_of
from orchestrator.pipeline.presets import PRESETS
from orchestrator.records.request import Fusion, RouteHint, RouteRequest, Turn
from orchestrator.records.run import Approve
from orchestrator.runtime.router import Router
from orchestrator.store.sources import Source, Sources
from orchestrator.store.store import Changes, Store

if TYPE_CHECKING:
    from orchestrator.mcp.sync import ServerReport

Command = TypeVar("Command", bound=Callable[..., Any])


class _Given(click.Path):
    """Refuses "", which an unset variable leaves: as a path it would be the working folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty; is a variable unset? Name one, or leave it out", param, ctx)
        return super().convert(value, param, ctx)


class _Read(_Given):
    """Takes `-` for standard input."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert("/dev/stdin" if value == "-" else value, param, ctx)


class _Tools(_Read):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and "://" in value:
            remedy = "give a file; `toolroute tools list --store URL -o jsonl` writes the tools of a store"
            self.fail(f"an address is not a file of tools: {remedy}", param, ctx)
        return super().convert(value, param, ctx)


TEXT, PATH, FILE = _Given(readable=False), _Given(path_type=Path), _Given(path_type=Path, dir_okay=False)
LOG, TOOLS = _Read(path_type=Path, dir_okay=False), _Tools(path_type=Path)
"""A name or an address; a file or folder; a file; a file that is read, and a file or folder of tools, where `-` is
standard input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Names the tenant, the store, the catalogue and the servers that a command uses."""

    organization: str | None = None
    user: str | None = None
    store: tuple[str, ...] = ()
    catalogue: Path | None = None
    config: Path | None = None

    @property
    def tenant(self) -> str:
        return tenant_of(self.organization, self.user, default="local")

    @property
    def store_place(self) -> str:
        """Return the store that is written to: the first that `--store` names, else the user's own."""
        return self.stores[0]

    @property
    def stores(self) -> tuple[str, ...]:
        return self.store or stores_of(default_store())

    def open_store(self, options: Options | None = None) -> Store:
        """Open the store; its embedder opens on first use."""
        return self._open(self.store_place, options)

    def _open(self, place: Store | str | Path, options: Options | None = None) -> Store:
        options = options or Options.from_env()
        limits: dict[str, Any] = {"timeout_s": options.store_timeout_s, "index_limit": options.index_limit}
        return Store(str(place), embedder=lambda: embedder_for(options), **limits)

    def known_store(self) -> Store:
        """Open a store to read from; InvalidInput where `--store` names one that does not exist."""
        for given in self.store:
            if not (found := self._open(Source.of(given).store)).exists:
                made_by = "`toolroute tools import` and `tools sync` make one"
                raise InvalidInput(f"store {str(found)!r} does not exist: {made_by}")
        return self.open_store()

    def catalogue_or_store(self) -> Catalogue:
        """Read the tools of `--catalogue`, else those that the stores have for the tenant."""
        if self.catalogue:
            return Catalogue.read(self.catalogue)
        store = self.known_store()
        if len(self.stores) == 1:
            return store.load(self.tenant).catalogue
        sources = [replace(own, store=self._open(own.store)) for own in map(Source.of, self.stores)]
        found = Sources(sources, _PATIENCE_S).load(self.tenant)
        if found.damaged:
            warn([found.damaged])
        return found.catalogue

    def servers(self) -> McpConfig | None:
        """Read the mcpServers file given, else the working folder's, if there is one."""
        found = self.config or find_config()
        return McpConfig.read(found) if found else None

    def config_file(self) -> Path:
        """Return the mcpServers file given, else the working folder's; InvalidConfig without one."""
        found = self.config or find_config()
        if found is None:
            raise InvalidConfig(f"no {' and no '.join(FILE_NAMES)} in this folder: give --config FILE")
        return found

    async def open_router(self, options: Options) -> Router:
        """Open a Router on the catalogue, or on the store; given both, the catalogue is stored first.

        The servers of `--config` that the store does not know are listed first; of MCP servers that it does not name no
        tool is a match.
        """
        if self.catalogue is not None and not self.store:
            if self.config is not None:
                raise InvalidInput("--config lists servers into a store: give --store, too, or leave --catalogue out")
            return Router(self.catalogue, options=options)
        if self.catalogue is None and self.config is None:
            self.known_store()
        config = McpConfig.read(self.config) if self.config else None
        if config is not None or self.catalogue is not None:
            await self.fill(config, options)
        return Router(stores=self.stores, options=options, servers=config.servers if config else None)

    async def fill(self, servers: McpConfig | None, options: Options) -> None:
        """Store what the catalogue holds, and list the servers that the store does not know for this tenant."""
        from orchestrator.mcp.connections import Connections
        from orchestrator.mcp.sync import sync

        writes = self.catalogue is not None or servers is not None
        with closing(self.open_store(options) if writes else self.known_store()) as store:
            if self.catalogue is not None:
                store_tools(store, self.tenant, Catalogue.read(self.catalogue, None))
            if servers is None:
                await asyncio.to_thread(store.servers, self.tenant)  # One that does not answer is reported here.
            elif unknown := await asyncio.to_thread(self._to_list, servers, store):
                note(f"listing {', '.join(unknown)} (once) ...")
                async with Connections(servers) as connections:
                    with noting_reports(len(unknown)) as noted:
                        await sync(connections, store, self.tenant, noted, unknown)

    def _to_list(self, servers: McpConfig, store: Store) -> list[str]:
        """Return the servers that the store does not know, without those that have just failed, which are noted."""
        from orchestrator.mcp.faults import without_name
        from orchestrator.mcp.sync import not_listed

        unknown = {name: servers.servers[name].identity for name in not_listed(servers, store, self.tenant)}
        failed = store.failed_lately(self.tenant, unknown, _FAILED_S) if unknown else {}
        for name, why in failed.items():
            note(f"no tools of {name}: {without_name(name, why)} (`toolroute tools sync` tries it again)")
        return [name for name in unknown if name not in failed]


def store_tools(store: Store, tenant: str, tools: Catalogue) -> dict[str, Changes]:
    """Make these the tools of the servers that they name, with progress on standard error."""
    with progress("storing tools") as done:
        return store.replace_servers(tenant, {server: tools.of_server(server) for server in tools.places}, done)


@contextmanager
def noting_reports(servers: int) -> Iterator[Callable[["ServerReport"], None]]:
    """Show how far a listing of so many servers is; the function given notes how one went."""
    with counting("listing servers", servers) as done:

        def noted(report: "ServerReport") -> None:
            note(report.line)
            done()

        yield noted


def _only_one(_: click.Context, parameter: click.Parameter, given: tuple[Path, ...]) -> Path | None:
    if len(given) > 1:
        raise click.BadParameter(f"{', '.join(map(str, given))}: give one file that names all servers", param=parameter)
    return given[0] if given else None


def _choice(*words: str) -> click.Choice[str]:
    return click.Choice([str(word) for word in words])


def _one_store(_: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    if len(given) > 1:
        raise click.BadParameter("this command takes one store; route, run and serve search several", param=parameter)
    return given


_PATIENCE_S = 60.0
"""How long a list waits for each of several stores."""
_FAILED_S = 600.0
"""For so long a route does not list a server again that could not be listed."""
_STORE = "A folder, or the URL of a Qdrant server. [default: TOOLROUTE_STORE, else a folder among the user's data]"
_STORES = f"{_STORE} Given again, further ones are searched as well; PLACE#TENANT takes that tenant's tools for all."
_CATALOGUE = "Use this file or folder of tools (- is standard input), not a store; with --store they are stored first."
_CONFIG = f"The mcpServers file. [default: {' or '.join(FILE_NAMES)} in this folder]"
_LISTED = "An mcpServers file: its servers that are not known yet are listed first, into the store."
_SEARCHED = "What is searched: keywords, and meaning where these are not sure enough; keywords alone; or both."
_CONTEXT = "A label that tools should have, most important first; what leaves none is left out of account."
_TURNS = 'Earlier turns, one JSON object a line: {"role", "text", "tools", "offered"}; only the text is required.'
_MODEL = "The language model, at OPENAI_BASE_URL with the key OPENAI_API_KEY. [default: TOOLROUTE_MODEL, if any]"
_FIT = "What `eval --fit --write` made. [default: TOOLROUTE_CALIBRATION, if any]"
_UNDERSTAND = "model: a model says which tools a task needs, and these are searched, too. [default: plain]"
_WARM = "Connect up to N servers (2) ahead, which the matches probably need, while the model thinks."
_KEEP = "Keep the fit in FILE, for --calibration and TOOLROUTE_CALIBRATION."
_APPROVE = "Which tools a person is asked about: those not known to only read, those that may destroy, all, or none."
_ADDRESS = "The Temporal server. [default: TEMPORAL_ADDRESS, else localhost:7233]"
_NAMESPACE = "The Temporal namespace. [default: TEMPORAL_NAMESPACE, else default]"
_DEV = "Start a local Temporal server, unless --address or TEMPORAL_ADDRESS names one."
_FILLED = "An argument for the steps' tools; s1.NAME for one."
_OWNER = [
    option("--organization", metavar="ID", help="The organization whose tools these are."),
    option("--user", metavar="ID", help="The user whose tools these are."),
]
_SERVER = [
    option("--address", "temporal_address", metavar="HOST:PORT", help=_ADDRESS),
    option("--namespace", "temporal_namespace", metavar="NAME", help=_NAMESPACE),
]
_OPTIONS: dict[str, list[Callable[[Any], Any]]] = {
    "catalogue": [option("--catalogue", metavar="FILE|FOLDER", type=TOOLS, help=_CATALOGUE)],
    "config": [option("--config", metavar="FILE", type=FILE, multiple=True, callback=_only_one, help=_CONFIG)],
    "listed": [option("--config", metavar="FILE", type=FILE, multiple=True, callback=_only_one, help=_LISTED)],
    "tenant": [
        option("--store", metavar="FOLDER|URL", type=TEXT, multiple=True, callback=_one_store, help=_STORE),
        *_OWNER,
    ],
    "sources": [option("--store", metavar="FOLDER|URL", type=TEXT, multiple=True, help=_STORES), *_OWNER],
    "owner": _OWNER,
    "request": [
        option("--limit", type=int, metavar="N", help="At most N matches (1 to 50). [default: 10]"),
        option("--route-hint", type=_choice(*RouteHint), default="auto", help=_SEARCHED),
        option("--filter", "filters", multiple=True, metavar="KEY=VALUE", help="kind, server, name or a label."),
        option("--context", "context", multiple=True, metavar="KEY=VALUE", help=_CONTEXT),
        option("--conversation", type=PATH, metavar="FILE", help=_TURNS),
    ],
    "shape": [
        option("--fusion", type=_choice(*Fusion), help="[default: learnt]"),
        option("--token-cap", type=int, metavar="N", help="Tokens that the matches' definitions may take."),
    ],
    "plan": [
        option("--arg", "arguments", multiple=True, metavar="NAME=VALUE", help=_FILLED),
        option("--min-confidence", metavar="P", default=0.3, help="Call nothing when routing is less sure."),
    ],
    "temporal": [*_SERVER, option("--dev", is_flag=True, help=_DEV)],
    "temporal server": _SERVER,
    "approve": [option("--approve", type=_choice(*Approve), default="changes", help=_APPROVE)],
    "model": [option("--model", metavar="NAME", help=_MODEL)],
    "calibration": [
        option("--calibration", metavar="FILE", type=_Given(), help=_FIT),
        option(
            "--pipeline",
            type=_choice(*PRESETS),
            help="The preset that routes. [default: TOOLROUTE_PIPELINE, else default]",
        ),
        option("--understand", type=_choice("plain", "model"), help=_UNDERSTAND),
    ],
    "warm": [
        option("--warm", metavar="[N]", type=click.IntRange(0), is_flag=False, flag_value="2", default=0, help=_WARM)
    ],
    "write": [option("--write", metavar="FILE", type=FILE, help=_KEEP)],
    "output": [option("-o", "--output", type=_choice("table", "json"), default="table")],
}
_PLACE = ("catalogue", "store", "config", "organization", "user")
_SETTINGS = (
    *("model", "calibration", "temporal_address", "temporal_namespace", "cached_tenants"),
    *("pipeline", "understand"),
)


def taking(*groups: str) -> Callable[[Command], Command]:
    """Give a command the options of these groups, as a `place`, a `request` and `options` where they make one.

    A command may be a coroutine; it then ends on Ctrl-C, SIGTERM and SIGHUP with all that it has started.
    """

    def decorate(body: Command) -> Command:
        @wraps(body)
        def command(**given: Any) -> Any:
            made: dict[str, Any] = {}
            if {"tenant", "sources", "owner"} & set(groups):
                made["place"] = _place(**_taken(given, _PLACE))
            if "request" in groups:
                made["request"] = _request(made["place"].tenant, **_taken(given, _REQUEST))
            if {"model", "calibration", "temporal server"} & set(groups):
                made["options"] = _settings(**_taken(given, _SETTINGS))
            if "plan" in groups:
                given["arguments"] = _arguments(given["arguments"])
            answer = body(**made, **given)
            return asyncio.run(_until_ended(answer)) if iscoroutine(answer) else answer

        for add in reversed([add for group in groups for add in _OPTIONS[group]]):
            command = add(command)
        return command  # type: ignore[return-value]

    return decorate


async def _until_ended(body: Coroutine[Any, Any, int]) -> int:
    """Return what the body returns. SIGTERM and SIGHUP cancel it as Ctrl-C does, so that its servers end with it."""
    loop, task, received = asyncio.get_running_loop(), asyncio.current_task(), list[int]()

    def stop(number: int, _: object) -> None:
        if task is not None and not received:  # A second one would cut short what the first one ends.
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
    hangup: list[int] = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []  # Windows has none.
    return [signal.SIGTERM, *(number for number in hangup if signal.getsignal(number) is not signal.SIG_IGN)]


def _taken(given: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: given.pop(name) for name in names if name in given}


def typed(name: str) -> Any:
    """Return what the user has typed for an option of the running command, None for nothing."""
    return click.get_current_context().params.get(name)


def _place(**given: Any) -> Place:
    place = Place(**given)
    if place.organization is not None and place.user is not None:
        note(f"--user {place.user} not used: with --organization the tools are those of {place.organization}")
    return place


def _settings(**given: Any) -> Options:
    """Return the environment's settings, then those given; a model named here does all that a model does."""
    if given.get("model"):
        given |= {"model_route": "", "model_plan": ""}
    return Options.from_env(**given)


_REQUEST = ("task", "limit", "route_hint", "filters", "context", "conversation", "fusion", "token_cap")


def _request(
    tenant: str,
    *,
    task: str,
    limit: int | None,
    route_hint: str,
    filters: tuple[str, ...],
    context: tuple[str, ...],
    conversation: Path | None,
    fusion: str | None = None,
    token_cap: int | None = None,
) -> RouteRequest:
    request = RouteRequest(
        query=task,
        tenant=tenant,
        limit=10 if limit is None else limit,
        conversation=_conversation(conversation) if conversation else (),
        filters=pairs("--filter", filters, "e.g. kind=agent or domain=finance"),
        context=pairs("--context", context, "e.g. language=python"),
        route_hint=RouteHint(route_hint),
        token_cap=token_cap,
        fusion=Fusion(fusion) if fusion else None,
    )
    request.validate()
    return request


def pairs(name: str, given: tuple[str, ...], example: str) -> dict[str, str]:
    """Return the values of `NAME=VALUE` by name; InvalidInput for another form, and for a name given twice."""
    if wrong := [item for item in given if "=" not in item]:
        raise InvalidInput(f"{name} {wrong[0]!r}: write NAME=VALUE, {example}")
    pairs = [item.partition("=")[::2] for item in given]
    if twice := [key for key, number in Counter(key for key, _ in pairs).items() if number > 1]:
        raise InvalidInput(f"{name} {twice[0]} is given twice: it has one value")
    return dict(pairs)


def _arguments(given: tuple[str, ...]) -> dict[str, Any]:
    return {**pairs("--arg", given, "e.g. timezone=Europe/Berlin")}


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore")
    text: Annotated[str, Field(min_length=1, validation_alias=AliasChoices("text", "content"))]
    role: str = "user"
    tools: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()


def _conversation(path: Path) -> tuple[Turn, ...]:
    """Read the turns of the file, oldest first."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"--conversation {path}: cannot be read ({why_unread(error)}); give a UTF-8 file") from None
    turns = []
    for number, line in numbered_lines(text):
        try:
            turns.append(Turn(**dict(_Line.model_validate_json(line))))
        except ValidationError as error:
            where, form = f"--conversation {path}:{number}", '{"role": "user", "text": "...", "tools": ["server:name"]}'
            raise InvalidInput(f"{where}: {first_problem(error, 'the line')}; write {form}") from None
    return tuple(turns)
