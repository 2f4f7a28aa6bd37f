"""Pairs of texts with the same meaning, by family. In a batch of one family all other pairs are negatives."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path

import numpy as np

from research import sources, views
from research.bags import TextTable
from research.sources import NO_TOOL, Tool
from research.translations import Translation

IDLE_TIMES = 16
"""How often a message that needs no tool stands among the requests (docs/decisions/ranking.md)."""
# anchor, positive, and the key of what both are about: equal keys are never negatives
Pair = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Pairs as text numbers: left, right [N]. Pairs with equal key [N] are about the same thing."""

    name: str
    left: np.ndarray
    right: np.ndarray
    key: np.ndarray
    share: float  # of the training steps, relative to the others' shares


def of_tools(catalogue: list[Tool]) -> Iterator[Pair]:
    """Each tool's name, first sentence, remaining description and parameters against one another."""
    for tool in catalogue:
        name, first, rest, parameters = (
            view(tool) for view in (views.name, views.first, views.rest, views.parameters)
        )
        key = f"{views.words(tool.name)} {first}".lower()
        without_first = ". ".join(part for part in (name, rest, parameters) if part)
        yield first, without_first, key
        yield first, views.card(tool), key
        yield views.words(tool.name), first, key
        yield name, first, key
        yield rest, f"{name}. {first}", key
        yield parameters, f"{name}. {first}", key


def of_several(catalogue: list[Tool]) -> Iterator[Pair]:
    """Long tasks: the first sentences of two to four tools, half the time of one server, with each tool's card."""
    random = np.random.default_rng(5)
    described = [tool for tool in catalogue if len(views.first(tool)) > 10]
    by_server: dict[str, list[Tool]] = defaultdict(list)
    for tool in described:
        by_server[tool.server].append(tool)
    for tool in described:
        pool = by_server[tool.server] if random.random() < 0.5 else described
        others = [pool[number] for number in random.integers(len(pool), size=random.integers(1, 4))]
        parts = [views.first(one) for one in (tool, *others)]
        yield (
            " ".join(parts[number] for number in random.permutation(len(parts))),
            views.card(tool),
            tool.key,
        )


def of_paraphrases(data: Path) -> Iterator[Pair]:
    """Descriptions that like-named tools of two servers carry."""
    for row in sources.rows(data / "train/mcp_same_name/pairs.jsonl"):
        yield row["a"], f"{row['name']}. {row['b']}", row["name"]
        yield row["b"], f"{row['name']}. {row['a']}", row["name"]


def of_tasks(data: Path) -> Iterator[Pair]:
    """Training queries with each of their tools."""
    for path in sorted((data / "train").glob("*/queries.jsonl")):
        by_key = {tool.key: tool for tool in sources.tools(path.parent)}
        for query in sources.queries(path.parent):
            for key in sorted(query.relevant):
                if key in by_key:
                    yield query.text, views.card(by_key[key]), key


def of_requests(data: Path) -> Iterator[Pair]:
    """Pair everyday requests with each of their tools, once as a whole and once as name and first sentence.

    Requests that need no tool are paired with a text that is not a tool's, often enough to have weight. So they are
    drawn away from the tools of the batch.
    """
    for text, tools in chain(sources.requests(data), sources.abroad(data)):
        for tool in tools:
            yield text, views.card(tool), tool.key
            yield text, f"{views.name(tool)}. {views.first(tool)}", tool.key
    for text in sources.idle() * IDLE_TIMES:
        yield text, NO_TOOL, NO_TOOL


def of_stories(data: Path) -> Iterator[Pair]:
    """Pair long tasks with each of their tools, and their parts with the parts' own tools. Descriptive parts have
    none.
    """
    for story in sources.stories(data):
        whole = " ".join(text for text, _ in story)
        for text, tools in story:
            for tool in tools:
                yield whole, views.card(tool), tool.key
                yield text, views.card(tool), tool.key
                yield text, f"{views.name(tool)}. {views.first(tool)}", tool.key
            if not tools:
                yield text, NO_TOOL, NO_TOOL


def of_commands(data: Path) -> Iterator[Pair]:
    """tldr: a task in any language with the command's English description."""
    pages = list(sources.rows(data / "train/tldr/pages.jsonl"))
    english = {
        (page["platform"], page["command"]): page for page in pages if page["language"] == "en"
    }
    for page in pages:
        key = page["command"]
        original = english.get((page["platform"], key), page)
        about = f"{views.words(key)}. {original['description']}"
        for task in page["tasks"]:
            yield task["task"], about, key


def of_translations(translated: list[Translation]) -> Iterator[Pair]:
    for one in translated:
        yield one.text, one.english, one.english.lower()


def of_words(data: Path) -> Iterator[Pair]:
    """Pair WordNet's words with their definition, synonyms and hypernym, and examples with word and definition."""
    for row in sources.rows(data / "train/wordnet/synsets.jsonl"):
        members, definition = row["members"], row["definition"]
        key = members[0]
        yield ", ".join(members[:4]), definition, key
        for one, other in pairwise(members):
            yield one, other, key
        for example in row["examples"][:1]:
            yield example, f"{members[0]}: {definition}", key
        for hypernym in row["hypernyms"][:1]:
            yield f"{members[0]}: {definition}", hypernym, hypernym


def of_apis(data: Path) -> Iterator[Pair]:
    for row in sources.rows(data / "train/public_apis/apis.jsonl"):
        yield row["description"], f"{views.words(row['name'])} {row['category']}", row["name"]


def family(name: str, share: float, pairs: Iterator[Pair], table: TextTable) -> Family:
    kept = [(a, b, key) for a, b, key in pairs if a.strip() and b.strip() and a != b]
    keys: dict[str, int] = defaultdict(lambda: len(keys))
    return Family(
        name=name,
        left=table.add_all(a for a, _, _ in kept),
        right=table.add_all(b for _, b, _ in kept),
        key=np.array([keys[key] for _, _, key in kept]),
        share=share,
    )


def families(
    data: Path, catalogue: list[Tool], translated: list[Translation], table: TextTable
) -> list[Family]:
    return [
        family("tools", 0.4, of_tools(catalogue), table),
        family("several", 0.1, of_several(catalogue), table),
        family("paraphrases", 0.03, of_paraphrases(data), table),
        family("tasks", 0.12, of_tasks(data), table),
        family("requests", 0.6, of_requests(data), table),
        family("stories", 0.2, of_stories(data), table),
        family("commands", 0.1, of_commands(data), table),
        family("translations", 0.12, of_translations(translated), table),
        family("words", 0.11, of_words(data), table),
        family("apis", 0.02, of_apis(data), table),
    ]
