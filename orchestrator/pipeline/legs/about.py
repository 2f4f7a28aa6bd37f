"""The leg that reads what a task is about; a question about tools is answered by tools, without a search."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from orchestrator.catalogue.export import parameters
from orchestrator.common.lines import one_line
from orchestrator.index.text import split_words
from orchestrator.pipeline.legs.entities import entities
from orchestrator.pipeline.legs.experience import used_together
from orchestrator.pipeline.state import Found, Ranking, Task
from orchestrator.records.about import DEFINITION, GENERAL, OVERVIEW, SIMILAR, USAGE, About, AboutTool, Entity
from orchestrator.records.relation import SIMILAR as ALIKE
from orchestrator.records.tool import Tool

MOST, MOST_ALIKE, MOST_FILTERS = 30, 5, 5
NEAR = 0.5
"""The least cosine of a tool that may do in place of another."""
SAID = 160
"""Characters of a description that an answer shows."""
OF_TOOLS, OF_SERVERS = (DEFINITION, USAGE, SIMILAR), (OVERVIEW,)


async def about(task: Task, found: Found) -> Found:
    """Return the findings with the analysis of the task; `settled` where it asks about tools that it names."""
    read = analysed(task)
    if read.intent == GENERAL or task.understood.asks_nothing:
        return replace(found, about=replace(read, intent=GENERAL))
    tools = [own for own in await _answer(task, read) if found.allows(task.index.catalogue.positions[own.tool])]
    if not tools:
        return replace(found, about=replace(read, intent=GENERAL))
    return replace(found, about=replace(read, tools=tuple(tools[:MOST]), more=len(tools[MOST:])), settled=True)


def classify(task: Task, found: Found) -> Found:
    """Return the findings with the analysis of the task, which decides nothing."""
    return replace(found, about=analysed(task))


def analysed(task: Task) -> About:
    """Return intent, entities, suggested filters and synonyms of a task."""
    found, plain = entities(task.understood.asked, task.index)
    kinds = {entity.kind for entity in found}
    among = OF_TOOLS if "tool" in kinds else OF_SERVERS if "server" in kinds else ()
    known = task.lexicon.synonyms if task.lexicon else {}
    words = list(dict.fromkeys(split_words(task.understood.asked))) if known or task.index.labelled else []
    return About(
        intent=task.lexicon.intent(plain, among) if task.lexicon and among and plain else GENERAL,
        entities=found,
        filters=_suggested(task, found, words),
        expanded={word: known[word] for word in words if word in known},
    )


def _suggested(task: Task, found: Iterable[Entity], words: list[str]) -> dict[str, str]:
    """Return the server that a task names, and labels whose whole value it says."""
    servers = [server for entity in found if entity.kind == "server" for server in entity.means]
    filters = {"server": servers[0]} if len(servers) == 1 else {}
    for name, value in task.index.labelled:
        if name not in ("name", "server", "kind") and value.lower() in words and len(value) > 2:
            filters.setdefault(name, value)
    return dict(list(filters.items())[:MOST_FILTERS])


async def _answer(task: Task, read: About) -> list[AboutTool]:
    tools, places = task.index.catalogue.tools, task.index.catalogue.positions
    servers = {server for entity in read.entities if entity.kind == "server" for server in entity.means}
    if read.intent == OVERVIEW:
        return [_shown(tool, f"a tool of {tool.server}") for tool in tools if tool.server in servers]
    keys = [key for entity in read.entities if entity.kind == "tool" for key in entity.means]
    named = [tools[places[key]] for key in keys]
    named = [tool for tool in named if tool.server in servers] or named
    own = [_shown(tool, "named", takes=True) for tool in named]
    if read.intent == DEFINITION:
        return own
    others = _neighbours(task, named) if read.intent == USAGE else await _like(task, named)
    return [*own, *(other for other in others if other.tool not in keys)]


def _neighbours(task: Task, named: list[Tool]) -> list[AboutTool]:
    """Return what leads from these tools, and what states to lead to them."""
    tools, places, keys = task.index.catalogue.tools, task.index.catalogue.positions, {tool.key for tool in named}
    steps, _ = task.index.graph.excerpt(*keys, more=lambda tool: used_together(task.experience, task.index, tool))
    found = {step.tool: str(step) for step in steps if step.type != ALIKE}
    for tool in tools:
        for relation in tool.relations:
            if relation.to in keys:
                found.setdefault(tool.key, f"{tool.key} {relation.type} {relation.to}")
    return [_shown(tools[places[key]], how) for key, how in found.items()]


async def _like(task: Task, named: list[Tool]) -> list[AboutTool]:
    """Return near-duplicates, then the nearest by meaning."""
    catalogue, graph = task.index.catalogue, task.index.graph
    places = [catalogue.positions[tool.key] for tool in named]
    found = {edge.to: "says nearly the same" for p in places for edge in graph.edges(p) if edge.type == ALIKE}
    await task.embed(task.understood.texts[:1])  # The tools have vectors then, too.
    if (side := task.index.vectors) is not None:
        cosines = (side.vectors @ side.vectors[places].T).max(axis=1)
        cosines[places] = -1
        nearest = [p for p in np.argsort(-cosines, kind="stable")[:MOST_ALIKE].tolist() if cosines[p] >= NEAR]
        found = {**found, **{key: "near by meaning" for p in nearest if (key := catalogue.tools[p].key) not in found}}
    return [_shown(catalogue.tools[catalogue.positions[key]], how) for key, how in found.items()]


def _shown(tool: Tool, how: str, *, takes: bool = False) -> AboutTool:
    schema = parameters(tool) if takes else {}
    given, known = schema.get("required"), schema.get("properties", {})
    required = given if isinstance(given, list) else []
    listed = tuple(_parameter(name, part, name in required) for name, part in list(known.items())[:MOST])
    return AboutTool(tool=tool.key, how=how, says=one_line(tool.description, SAID), takes=listed)


def _parameter(name: str, part: Any, required: bool) -> str:
    kind = part.get("type", "any") if isinstance(part, dict) else "any"
    return one_line(f"{name} ({kind}{', required' if required else ''})", 80)


def answered(fusion: Callable[[Task, Found], Ranking]) -> Callable[[Task, Found], Ranking]:
    """Return a fusion that ranks the tools of an answer about tools as they stand in it; else as this fusion does."""

    def fused(task: Task, found: Found) -> Ranking:
        if found.about is None or not found.about.tools:
            return fusion(task, found)
        floor, places = task.options.explicit_floor, task.index.catalogue.positions
        notes = {places[own.tool]: (own.how,) for own in found.about.tools}
        scores = dict.fromkeys(notes, floor)
        return Ranking(
            order=tuple(notes),
            scores=scores,
            evidence={place: {"explicit": floor} for place in notes},
            confidence=floor,
            own=scores,
            lifted=frozenset(notes),
            by_rank=True,
            notes=notes,
        )

    return fused
