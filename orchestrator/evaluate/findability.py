"""Finds the tools that a search for the first sentence of their description does not find. No labels are needed."""

from collections.abc import Callable

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.errors import EmbedderUnavailable
from orchestrator.evaluate.runner import Query, answer_all, failures
from orchestrator.index.text import sentences, terms
from orchestrator.options import Options
from orchestrator.records.request import RouteHint
from orchestrator.records.tool import Tool
from orchestrator.runtime.router import Router

WITHIN = 10
"""The number of best matches among which a query must find its tool: as many as `route` returns by default."""


def own_words(tool: Tool) -> str:
    """Return the first sentence of a tool's description without the words of its name, "" if nothing is left."""
    named = {*terms(tool.name), *terms(tool.server)}
    for sentence in sentences(tool.description):
        text = " ".join(word for word in sentence.split() if named.isdisjoint(terms(word)))
        if len(set(terms(text))) > 1:
            return text
    return ""


async def unfound(
    catalogue: Catalogue, options: Options, on_progress: Callable[[int], None]
) -> list[str]:
    """Return the keys of the tools that a search for their own words does not find.

    Args:
        catalogue: The tools.
        options: The settings of the Router.
        on_progress: Called with the number of finished tools.

    Raises:
        EmbedderUnavailable: Semantic search failed.
    """
    queries = list[Query]()
    for tool in catalogue:
        text = own_words(tool)
        if text:
            queries.append(Query(id=tool.key, text=text, relevant=frozenset([tool.key])))
    async with Router(catalogue, options=options) as router:
        answers = await answer_all(
            router, queries, route_hint=RouteHint.SEMANTIC, on_progress=on_progress
        )
    for reason in failures(answers):
        raise EmbedderUnavailable(reason)
    found_keys = {answer.query.id for answer in answers if answer.query.id in answer.ranked}
    return [tool.key for tool in catalogue if tool.key not in found_keys]
