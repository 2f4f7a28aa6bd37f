"""Queries made from a tool's own text, without a model: what somebody may ask who does not know the tool's name."""

import random
import re
import zlib

from orchestrator.index.text import parameter_text, sentences, spaced, stem, terms
from orchestrator.records.tool import Tool

MOST = 6
"""Queries of a tool."""
_MOST_SENTENCES = 3
_LEAST_TERMS = 2
KEPT = 0.4
"""The share of a sentence's content words that a thinned query keeps: people say it in fewer and other words."""
_WORD = re.compile(r"[^\W_][\w'’-]*")


def made_queries(tool: Tool) -> list[str]:
    """At most MOST, the same for the same definition: each sentence without the words of the tool's name, and thinned;
    its keywords of several words. Name and parameters where it says nothing else; none where not even these do."""
    draw = random.Random(zlib.crc32(tool.key.encode("utf-8", "surrogatepass")))  # noqa: S311
    named = {*terms(tool.name), *terms(tool.server)}
    said = [sentence for sentence in sentences(tool.description) if _says_enough(sentence)][:_MOST_SENTENCES]
    made = [_without(named, sentence) for sentence in said]
    made += [_thinned(draw, sentence) for sentence in said]
    made += [keyword for keyword in tool.keywords if _says_enough(keyword)]
    found = list(dict.fromkeys(query for query in made if _says_enough(query)))[:MOST]
    if found:
        return found
    rest = f"{spaced(tool.name)} {spaced(parameter_text(tool.input_schema, depth=1))}".strip()
    return [rest] if terms(rest) else []


def _without(named: set[str], sentence: str) -> str:
    return " ".join(word for word in _WORD.findall(sentence) if not named.intersection(terms(word)))


def _thinned(draw: random.Random, sentence: str) -> str:
    return " ".join(word for word in _WORD.findall(sentence) if not stem(word.lower()) or draw.random() < KEPT)


def _says_enough(text: str) -> bool:
    return len(set(terms(text))) >= _LEAST_TERMS
