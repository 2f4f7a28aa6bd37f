"""What several commands share: their options, and results that go to standard output alone."""

import json
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import click

from orchestrator.cli.paths import FILE, PATH, TEXT, TOOLS
from orchestrator.cli.plain import escaped, note, one_line
from orchestrator.errors import InvalidInput
from orchestrator.index.embed import embedder_for
from orchestrator.index.fit import Fit
from orchestrator.index.suspicion import suspects
from orchestrator.options import Options, default_store
from orchestrator.records.tenant import tenant_of
from orchestrator.records.tool import Tool
from orchestrator.routing.router import Router
from orchestrator.store.store import Store

Command = TypeVar("Command", bound=Callable[..., Any])


def tenant_options(command: Command) -> Command:
    """`--organization` and `--user`."""
    command = click.option("--user", metavar="ID", help="The user whose tools these are.")(command)
    return click.option("--organization", metavar="ID", help="The organization whose tools these are.")(command)


def store_option(command: Command) -> Command:
    """`--store`."""
    default = "[default: TOOLROUTE_STORE, else a folder among the user's data]"
    text = f"Where tools are kept: a folder, or the URL of a Qdrant server. {default}"
    return click.option("--store", metavar="FOLDER|URL", type=TEXT, help=text)(command)


def model_option(command: Command) -> Command:
    """`--model`."""
    text = "The language model, at OPENAI_BASE_URL with the key OPENAI_API_KEY. [default: TOOLROUTE_MODEL, if any]"
    return click.option("--model", metavar="NAME", help=text)(command)


def options_with(model: str | None, **given: Any) -> Options:
    """The environment's settings, then those given; the model that `--model` names does all that a model does."""
    alone = {"model_route": "", "model_plan": ""} if model else {}
    return Options.from_env(**{**given, "model": model, **alone})


def calibration_option(command: Command) -> Command:
    """`--calibration`."""
    made = "A fit to your own catalogue, made by `doctor --write` or `eval --fit --write`."
    text = f"{made} [default: TOOLROUTE_CALIBRATION, if any]"
    return click.option("--calibration", metavar="FILE", type=PATH, help=text)(command)


def write_option(command: Command) -> Command:
    """`--write`, of the commands that make a fit."""
    text = "Keep the fit in FILE, for --calibration and TOOLROUTE_CALIBRATION."
    return click.option("--write", metavar="FILE", type=FILE, help=text)(command)


def output_option(command: Command) -> Command:
    """`-o`, of the commands whose result is a table for people or JSON for programs."""
    kinds = click.Choice(["table", "json"])
    return click.option("-o", "--output", type=kinds, default="table", show_default=True)(command)


def source_options(command: Command) -> Command:
    """`--catalogue`, `--store` and the tenant."""
    text = (
        "Use the tools of this file or folder (- is standard input), and no store; "
        "with --store they are stored there first."
    )
    option = click.option("--catalogue", metavar="FILE|FOLDER", type=TOOLS, help=text)
    return option(store_option(tenant_options(command)))


MOST_TOLD = 20
"""So many flagged tools are told beside another command's answer."""


def tenant_from(organization: str | None, user: str | None) -> str:
    """The tenant named by the options, else `local`; of both the organization."""
    if organization is not None and user is not None:
        note(f"--user {user} not used: with --organization the tools are those of {organization}")
    return tenant_of(organization, user, default="local")


def open_router(catalogue: Path | None, store: str | None, tenant: str, options: Options | None = None) -> Router:
    """A Router on the catalogue, or on the store; given both, the catalogue is imported into the store first."""
    options = options or Options.from_env()
    if catalogue is not None and store is None:
        return Router(catalogue, options=options)
    if catalogue is None:
        known_store(store)
    router = Router(store=store or default_store(), options=options)
    if catalogue is not None:
        from orchestrator.cli.tools import import_file

        import_file(router_store(router), tenant, catalogue)
    return router


def known_store(location: str | None) -> Store:
    """The store to read from; InvalidInput where `--store` names a folder that is not there, as misspelt ones are."""
    store = open_store(location)
    if location and not store.exists:
        raise InvalidInput(f"store {location!r} does not exist: `toolroute tools import` and `tools sync` make one")
    return store


def open_store(location: str | None, options: Options | None = None) -> Store:
    """The store that `--store` names, else the user's own; its embedder opens on first use."""
    options = options or Options.from_env()
    place = location or default_store()
    return Store(place, embedder=lambda: embedder_for(options), timeout_s=options.store_timeout_s)


def router_store(router: Router) -> Store:
    """The Router's store; only a Router on a catalogue has none."""
    if router.store is None:
        raise InvalidInput("this needs a store: give --store")
    return router.store


def echo_json(value: Any, *, indent: int | None = 1) -> None:
    """One JSON document on standard output: all of it, whatever letters that can hold."""
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    click.echo(escaped(json.dumps(value, ensure_ascii=not utf8, indent=indent, default=str)))


def tell_flagged(tools: Sequence[Tool]) -> None:
    """Which tools are not taken at their word, and why, on standard error."""
    flags = suspects(tools)
    for key, reasons in islice(flags.items(), MOST_TOLD):
        note(one_line(f"toolroute: {key} is flagged: {'; '.join(reasons)}"))
    if len(flags) > MOST_TOLD:
        note(f"toolroute: {len(flags) - MOST_TOLD:,} more are flagged; `toolroute doctor` tells them all")


def kept(fit: Fit, path: Path | None) -> tuple[Path | None, InvalidInput | None]:
    """Writes the fit where told: the path if it is there now; the error if not, to be raised once all is shown."""
    try:
        if path is not None:
            fit.write(path)
    except InvalidInput as error:
        return None, error
    return path, None


def progress(label: str) -> Any:
    """A progress bar on standard error, shown only to a person."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
