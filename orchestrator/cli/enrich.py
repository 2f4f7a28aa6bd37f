"""`toolroute tools enrich`: have the user's model write search texts for tools, kept beside them in the store."""

import asyncio
from collections.abc import Sequence
from contextlib import closing

import click

from orchestrator.cli.options import TEXT, taking
from orchestrator.cli.output import counted, meant, note, present, progress, warn
from orchestrator.cli.place import Place
from orchestrator.errors import InvalidConfig, InvalidInput, NoCredit, StoreUnavailable, ToolrouteError, Unauthorised
from orchestrator.index.flags import suspects
from orchestrator.options import Options
from orchestrator.records.tool import Tool
from orchestrator.store.notes import keep, notes
from orchestrator.store.store import Store

_ENDS_ALL = (InvalidConfig, NoCredit, StoreUnavailable, Unauthorised)
"""Errors that would occur for every further tool too."""
_AT_ONCE, _MOST_OF_A_LANGUAGE = 4, 40


@click.command("enrich")
@click.option("--only", metavar="SERVER[:NAME]", type=TEXT, multiple=True, help="Only this tool or server. Repeatable.")
@click.option(
    "--language",
    "languages",
    metavar="NAME",
    type=TEXT,
    multiple=True,
    default=["English"],
    show_default=True,
    help="A language of the example requests. Repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Show the tools and the tokens without a request to the model.")
@click.option(
    "--price",
    metavar="IN OUT",
    type=click.FloatRange(0),
    nargs=2,
    help="Prices of a million input and output tokens, to show the cost.",
)
@click.option("--remove", is_flag=True, help="Remove the texts of earlier runs.")
@taking("config", "tenant", "model", "output")
def enrich_tools(
    only: tuple[str, ...],
    languages: tuple[str, ...],
    dry_run: bool,
    price: tuple[float, float] | None,
    remove: bool,
    place: Place,
    options: Options,
    output: str,
) -> int:
    """Have your model write search texts for tools.

    The text describes the purpose of the tool and when to use it, and has example requests. Each definition gets one
    text. If a run stops early, the next run continues there.

    Exit codes: 0 all texts were written, 1 none was written, 4 some failed.
    """
    from orchestrator.llm.enrich import most_tokens

    if wrong := next((own for own in languages if not own.strip() or len(own) > _MOST_OF_A_LANGUAGE), None):
        raise InvalidInput(f"--language {wrong[:60]!r}: give the name of a language, such as German or de")
    with closing(place.open_store(options)) as store:
        wanted, tenant = _wanted(store, place.owner, only), place.owner
        if remove:
            gone = notes(store, tenant, "enriched", wanted)
            for tool in (tool for tool in wanted if tool.key in gone):
                keep(store, tenant, "enriched", tool, None)
            present(output, {"tenant": tenant, "removed": [*gone]}, lambda: note(f"removed: {len(gone):,}"))
            return 0
        if store.large_tenant(tenant, store.version(tenant)):
            limit = f"{tenant} has more tools than index_limit ({store.index_limit:,})"
            raise InvalidInput(f"{limit}: the search of a large tenant does not use search texts, so none are written")
        known = notes(store, tenant, "enriched", wanted)
        tools = [tool for tool in wanted if not set(languages) <= {*known.get(tool.key, {}).get("languages", ())}]
        asked, most = map(sum, zip((0, 0), *(most_tokens(tool, languages) for tool in tools), strict=True))
        cost = f", {(price[0] * asked + price[1] * most) / 1e6:.4f} by your prices" if price else ""
        note(f"{counted(len(tools), 'tool')} to write for: about {asked:,} tokens in, at most {most:,} out{cost}")
        failed = {} if dry_run else asyncio.run(_write(store, tenant, tools, languages, options))
    warn([f"{key}: nothing was written: {why}" for key, why in failed.items()])
    shown = {"tenant": tenant, "tools": [tool.key for tool in tools], "input": asked, "output": most, "failed": failed}
    present(output, shown, lambda: click.echo("".join(f"{tool.key}\n" for tool in tools if dry_run), nl=False))
    return 0 if not failed else 1 if len(failed) == len(tools) else 4


def _wanted(store: Store, tenant: str, only: Sequence[str]) -> list[Tool]:
    """Return the wanted tools without the flagged ones."""
    known = store.load(tenant).catalogue
    if unknown := [key for key in only if key not in known.positions and key not in known.places]:
        hint = meant(unknown[0], known.positions, "`toolroute tools list` shows all tools")
        raise InvalidInput(f"--only {unknown[0]!r}: {tenant} has no such tool; {hint}")
    wanted = [tool for tool in known.tools if not only or tool.key in only or tool.server in only]
    flagged = suspects(wanted, known.tools)
    warn([f"{key} is flagged: nothing is written for it" for key in flagged])
    return [tool for tool in wanted if tool.key not in flagged]


async def _write(
    store: Store, tenant: str, tools: Sequence[Tool], languages: Sequence[str], options: Options
) -> dict[str, str]:
    """Write the notes, and store each one at once. Return the reasons of the failed ones, by tool."""
    from orchestrator.llm.client import Models
    from orchestrator.llm.enrich import enrich

    failed, room, ended = dict[str, str](), asyncio.Semaphore(_AT_ONCE), 0
    with progress("writing") as done:
        async with Models(options) as models:

            async def write(tool: Tool) -> None:
                nonlocal ended
                async with room:
                    try:
                        keep(store, tenant, "enriched", tool, await enrich(models, tool, languages))
                    except _ENDS_ALL:
                        raise
                    except ToolrouteError as error:
                        failed[tool.key] = str(error)
                ended += 1
                done(ended, len(tools))

            await asyncio.gather(*map(write, tools))
    return failed
