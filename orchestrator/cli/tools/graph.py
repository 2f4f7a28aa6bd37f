"""`toolroute tools graph`: the relations between tools, as a picture or as JSON."""

from collections.abc import Sequence
from dataclasses import asdict

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import counted, echo_json, echo_text, meant, note, warn
from orchestrator.cli.shared.workspace import Place
from orchestrator.common.lines import one_line
from orchestrator.errors import InvalidInput
from orchestrator.index.graph import More
from orchestrator.index.index import Index
from orchestrator.options import Options
from orchestrator.pipeline.legs.experience import used_together
from orchestrator.pipeline.pipeline import Clock
from orchestrator.records.relation import NEEDS, Edge
from orchestrator.records.request import RouteRequest


@click.command()
@click.argument("of", metavar="[TOOL|SERVER]", required=False)
@taking("catalogue", "sources")
@click.option(
    "--hops",
    metavar="N",
    type=click.IntRange(1, 3),
    default=2,
    help="Show tools that are at most N relations away from TOOL.",
)
@click.option("-o", "--output", type=click.Choice(["mermaid", "json"]), default="mermaid")
async def graph(of: str | None, place: Place, hops: int, output: str) -> None:
    """Show the relations between tools.

    With a TOOL (server:name): up to ten related tools, nearest first, and the source of each relation. With a SERVER:
    all relations of its tools. Without either: all relations. A catalogue file can state relations in its records or in
    a relations.jsonl. Other relations follow from schemas and, with a store, from the tenant's past tasks.
    """
    async with await place.open_router(Options.from_env()) as router:
        state = await router.engine.begin(RouteRequest(query="", tenant=place.tenant), Clock())
    index, experience, catalogue = state.task.index, state.task.experience, state.task.index.catalogue
    warn(state.warnings)
    edges = _edges(index, of, hops, lambda tool: used_together(experience, index, tool))
    start = [] if of is None or of in catalogue.places else [catalogue.current(of)]
    nodes = list(dict.fromkeys([*start, *_ends(edges)]))
    if output == "json":
        echo_json({"nodes": nodes, "edges": [asdict(edge) for edge in edges]})
    else:
        echo_text("\n".join(_mermaid(nodes, edges)))
    many = f"{counted(len(edges), 'relation')} among {counted(len(nodes), 'tool')}"
    note(many if edges else f"no relation {f'of {of} ' if of else ''}is known")


def _edges(index: Index, of: str | None, hops: int, more: More) -> list[Edge]:
    catalogue, found = index.catalogue, index.graph
    if of is None or of in catalogue.places:
        place = catalogue.places[of] if of is not None else slice(None)
        return [edge for position in range(len(catalogue))[place] for edge in found.edges(position, more)]
    key = catalogue.current(of)
    if key not in catalogue.positions:
        hint = meant(of, [*catalogue.places, *catalogue.positions], "`toolroute tools list` shows all tools")
        raise InvalidInput(f"unknown tool or server {of!r}; {hint}")
    leading = [place for place, tool in enumerate(catalogue) if any(own.to == key for own in tool.relations)]
    to_it = [edge for place in leading for edge in found.edges(place, more) if edge.to == key]
    return list(dict.fromkeys([*found.excerpt(key, hops=hops, more=more)[1], *to_it]))


def _ends(edges: Sequence[Edge]) -> list[str]:
    return [key for edge in edges for key in (edge.source, edge.to)]


def _mermaid(nodes: Sequence[str], edges: Sequence[Edge]) -> list[str]:
    number = {key: place for place, key in enumerate(nodes)}
    named = [f'  t{number[key]}["{_quoted(key)}"]' for key in nodes]
    arrows = [f'  t{number[e.source]} {_arrow(e)}|"{_quoted(e.type)}"| t{number[e.to]}' for e in edges]
    return ["graph LR", *named, *arrows]


def _arrow(edge: Edge) -> str:
    return "-->" if edge.type == NEEDS or edge.origin == "stated" else "-.->"


def _quoted(text: str) -> str:
    return one_line(text, 200).replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
