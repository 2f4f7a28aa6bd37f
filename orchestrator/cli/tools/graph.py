"""`toolroute tools graph`: the relations between tools, as a picture or as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import counted, echo_text, note, present, suggestion, warn
from orchestrator.cli.shared.typed_options import refuse
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.cli.tools.list_tools import ALL_SHOWN
from orchestrator.common.lines import one_line
from orchestrator.errors import InvalidInput
from orchestrator.index.index import Index
from orchestrator.index.relations.graph import More
from orchestrator.options import Options
from orchestrator.pipeline.legs.experience import used_together
from orchestrator.pipeline.pipeline import Clock
from orchestrator.records.relation import NEEDS, Edge
from orchestrator.records.request import RouteRequest

_HOPS = click.option(
    "--hops",
    metavar="N",
    type=click.IntRange(1, 3),
    default=2,
    help="Show tools that are at most N relations away from TOOL.",
)


@click.command()
@click.argument("of", metavar="[TOOL|SERVER]", required=False)
@taking("catalogue", "sources")
@_HOPS
@taking("output of graphs")
async def graph(
    of: str | None,
    workspace: Workspace,
    hops: int,
    output: str,
) -> None:
    """Show the relations between tools.

    With a TOOL (server:name): up to ten related tools, nearest first, and the source of each relation. With a SERVER:
    all relations of its tools. Without either: all relations. A catalogue file can state relations in its records or in
    a relations.jsonl. Other relations follow from schemas and, with a store, from the tenant's past tasks.
    """
    if of is None:
        refuse(("hops",), "counts from a TOOL: give its key, or leave it out")
    index, more = await _read_index(workspace)
    edges = _edges(index, of, hops, more)
    nodes = _nodes(index, of, edges)
    record = {"nodes": nodes, "edges": list(map(asdict, edges))}
    present(output, record, lambda: echo_text(_mermaid(nodes, edges)))
    note(_summary(of, nodes, edges))


async def _read_index(workspace: Workspace) -> tuple[Index, More | None]:
    """Return the index of the tenant's tools, and the relations that follow from its past tasks."""
    request = RouteRequest(query="", tenant=workspace.tenant)
    async with await workspace.open_router(Options.from_env()) as router:
        state = await router.engine.begin(request, Clock())
    warn(*state.warnings)
    index = state.task.index
    return index, used_together(state.task.experience, index)


def _summary(of: str | None, nodes: Sequence[str], edges: Sequence[Edge]) -> str:
    if edges:
        return f"{counted(len(edges), 'relation')} among {counted(len(nodes), 'tool')}"
    return f"no relation of {of} is known" if of else "no relation is known"


def _nodes(index: Index, of: str | None, edges: Sequence[Edge]) -> list[str]:
    """Return the tools of the edges. The tool that the user asked about comes first."""
    nodes = dict[str, None]()
    if of is not None and of not in index.catalogue.places:
        nodes[index.catalogue.current(of)] = None
    for edge in edges:
        nodes[edge.source] = None
        nodes[edge.to] = None
    return list(nodes)


def _edges(index: Index, of: str | None, hops: int, more: More | None) -> list[Edge]:
    """Return the relations of all tools, of a server's tools, or around one tool."""
    catalogue = index.catalogue
    positions = range(len(catalogue))
    if of is None:
        return _edges_from(index, positions, more)
    if of in catalogue.places:
        of_server = positions[catalogue.places[of]]
        return _edges_from(index, of_server, more)
    key = catalogue.current(of)
    if key not in catalogue.positions:
        choices = [*catalogue.places, *catalogue.positions]
        hint = suggestion(of, choices, ALL_SHOWN)
        raise InvalidInput(f"unknown tool or server {of!r}; {hint}")
    _, near = index.graph.excerpt(key, hops=hops, more=more)
    leading = _edges_to(index, key, more)
    return list(dict.fromkeys([*near, *leading]))


def _edges_to(index: Index, key: str, more: More | None) -> list[Edge]:
    """Return the stated relations that lead to a tool."""
    leading = list[int]()
    for position, tool in enumerate(index.catalogue):
        if any(relation.to == key for relation in tool.relations):
            leading.append(position)
    return [edge for edge in _edges_from(index, leading, more) if edge.to == key]


def _edges_from(index: Index, positions: Iterable[int], more: More | None) -> list[Edge]:
    edges = list[Edge]()
    for position in positions:
        edges += index.graph.edges(position, more)
    return edges


def _mermaid(nodes: Sequence[str], edges: Sequence[Edge]) -> str:
    lines = ["graph LR"]
    ids: dict[str, str] = {}
    for number, key in enumerate(nodes):
        ids[key] = f"t{number}"
        lines.append(f'  {ids[key]}["{_quoted(key)}"]')
    for edge in edges:
        source = ids[edge.source]
        target = ids[edge.to]
        lines.append(f'  {source} {_arrow(edge)}|"{_quoted(edge.type)}"| {target}')
    return "\n".join(lines)


def _arrow(edge: Edge) -> str:
    return "-->" if edge.type == NEEDS or edge.origin == "stated" else "-.->"


def _quoted(text: str) -> str:
    return one_line(text, 200).replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
