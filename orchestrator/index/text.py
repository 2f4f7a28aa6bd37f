"""Converts text to indexed and searched terms, for tools and queries alike.

Identifiers are split at camelCase, snake_case and kebab-case and also kept whole ("GitHub" gives github, git, hub).
Scripts without spaces between words give character pairs. Words are stemmed with Snowball's stemmer for their script.
Synonyms that the stemmer keeps apart share one term, and an acronym also has the terms of its words
(`data/variants.txt`, without words that have another meaning in a tool, a name or another language: "app", "temp",
"os"). An unknown word in a task is read as a word of the catalogue if only that word is one edit away.
"""

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain, islice
from typing import Any

import Stemmer
from rapidfuzz import process
from rapidfuzz.distance import OSA

from orchestrator.catalogue.schema import gathered
from orchestrator.records.tool import Tool

_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]{1,2}(?![^\W_]))?")
_CAMEL = re.compile(
    r"[A-Z]{2,}s(?![a-z\d])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[^\W\dA-Z_]+\d*|[A-Z]+\d*|\d+(?:[A-Z]+(?![a-z])|[a-z]*)"
)
_UNSPACED = re.compile(
    r"([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+)"
)
_ENGLISH = Stemmer.Stemmer("english")
_OF_SCRIPT = {
    "CYRILLIC": Stemmer.Stemmer("russian"),
    "ARABIC": Stemmer.Stemmer("arabic"),
    "GREEK": Stemmer.Stemmer("greek"),
    "ARMENIAN": Stemmer.Stemmer("armenian"),
}
"""Snowball's stemmers for words without diacritics, by script."""

STOP_WORDS = frozenset(
    """a about above after again all also am an and any are as at be because been before being between both but by can
    could did do does doing don during each etc few for from further had has have having he her here hers him his
    how i if in into is it its itself just let like may me might more most my myself no nor not now of on once only
    or other our ours over own please s same she should so some such t than that the their theirs them then there
    these they this those through to too under until up us use used uses using very want was we were what when where
    which while who whom why will with would you your yours d ll m re ve need needs help
    thanks thank hi hello hey""".split()
)
"""Words that do not name a tool. They are removed from tools and queries. "not" and "without" are read by
`understand`."""

_MARKS = frozenset(("Mn", "Mc", "Me", "Cf"))
_SHORT_I = "\ue000"
"""A placeholder for the Cyrillic short i while diacritics are removed. It is a letter of its own, and the stemmer needs
it."""

MAX_PARTS = 8
"""The maximum number of parts of an identifier. A longer one is not a name but noise, such as base64 or a hash."""

MAX_REMEMBERED, MOST_REMEMBERED = 60, 100_000
"""The maximum number of characters of a word whose terms are cached, and the number of cached words."""

NAMING = frozenset(("server", "name", "keywords"))
"""The fields with names of the tool. The other fields describe what it does."""


def terms(text: str) -> list[str]:
    """Return the stemmed terms of a text in order, stop words left out."""
    return [term for run in _runs(text) for term in _KNOWN[run][0]]


def terms_and_words(text: str) -> list[tuple[str, str]]:
    """Return each of `terms` with the word that it is the stem of."""
    return [pair for run in _runs(text) for pair in _KNOWN[run][1]]


def split_words(text: str) -> Iterator[str]:
    """Return lower-case words, identifiers whole and in parts, and character pairs for scripts without spaces."""
    return chain.from_iterable(map(_cut, _runs(text)))


def _runs(text: str) -> list[str]:
    return _WORD.findall(text if text.isascii() else _without_marks(text))


_Terms = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]


class _Known(dict[str, _Terms]):
    """The terms of each written word, and those with the words that they are stems of."""

    def __missing__(self, run: str) -> _Terms:
        words = [each for word in _cut(run) for each in (word, *words_of(word))]
        pairs = tuple((own, word) for word in words if (own := stem(word)))
        read = tuple(own for own, _ in pairs), pairs
        if len(run) <= MAX_REMEMBERED:
            if len(self) >= MOST_REMEMBERED:
                self.clear()
            self[run] = read
        return read


_KNOWN = _Known()


def _cut(word: str) -> Iterator[str]:
    if not word.isascii() and _UNSPACED.search(word):
        yield from _unspaced(word)
        return
    if "'" in word or "’" in word:
        word = word.replace("’", "'").partition("'")[0]
    if word.islower():
        yield word
        return
    parts = () if word.istitle() or word.isdigit() else _CAMEL.findall(word)
    if 1 < len(parts) <= MAX_PARTS:
        yield from (part.lower() for part in parts)
    yield word.lower()


def _without_marks(text: str) -> str:
    """Return the text in compatibility forms, without accents, vowel signs and invisible signs."""
    decomposed = unicodedata.normalize("NFKD", text.replace("й", _SHORT_I).replace("Й", _SHORT_I))
    plain = "".join(char for char in decomposed if unicodedata.category(char) not in _MARKS)
    return unicodedata.normalize("NFC", plain).replace(_SHORT_I, "й")


def _unspaced(word: str) -> Iterator[str]:
    """Yield the character pairs of each unspaced run, a single character unchanged, and the other runs."""
    for run in filter(None, _UNSPACED.split(word)):
        if _UNSPACED.match(run):
            yield from (run[i : i + 2] for i in range(max(1, len(run) - 1)))
        else:
            yield run.lower()


@cache
def _variants() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the canonical words and the words of acronyms. The file has lines like `msg message` and `pr + pull
    request`.
    """
    text = (files("orchestrator") / "data" / "variants.txt").read_text(encoding="utf-8")
    entries = [line.split(" ", 1) for line in text.splitlines()]
    same = {word: meaning for word, meaning in entries if meaning[0] != "+"}
    return same, {word: meaning[2:] for word, meaning in entries if meaning[0] == "+"}


@cache
def _acronym() -> re.Pattern[str]:
    """Return a pattern for an acronym that is not part of a name, a path or an address."""
    return re.compile(rf"(?<![\w@./-])(?:{'|'.join(_variants()[1])})s?(?![\w@/-]|\.\w)", re.IGNORECASE)


def words_of(word: str) -> list[str]:
    """Return the words of a lower-case acronym."""
    return _of(_variants()[1], word).split()


def spelt_out(text: str) -> str:
    """Return the text with the words of each acronym behind it."""
    return _acronym().sub(lambda found: " ".join([found[0], *words_of(found[0].lower())]), text)


def _of(table: Mapping[str, str], word: str) -> str:
    """Look a word up, or the one that it is the plural of."""
    return table.get(word) or table.get(word.removesuffix("s"), "")


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Return the stem of a lower-case word, "" for a stop word."""
    if word in STOP_WORDS:
        return ""
    stemmer = _ENGLISH if word.isascii() else _OF_SCRIPT.get(unicodedata.name(word[0], "").partition(" ")[0], _ENGLISH)
    return str(stemmer.stemWord(_of(_variants()[0], word) or word))


def stemmed(word: str) -> str:
    """Return a word's stem. A stop word is unchanged."""
    return stem(word) or word


def named(tool: Tool) -> str:
    """Return a tool's name with the words of its title that the name lacks: of `inv_07` the title is all there is."""
    if not tool.title:
        return tool.name
    known = spaced(tool.name).lower().split()
    return " ".join([tool.name, *(word for word in spaced(tool.title).split() if word.lower() not in known)])


def fields(tool: Tool) -> list[tuple[str, str]]:
    """Return the fields that a tool is searched by, each name with its text."""
    return [
        ("server", tool.server),
        ("name", named(tool)),
        ("keywords", " ".join([*tool.keywords, *(relation.name for relation in tool.relations if relation.replaces)])),
        ("description", tool.description),
        ("parameters", parameter_text(tool.input_schema)),
    ]


def field_terms(field: str, text: str) -> list[str]:
    """Return a field's terms. Numbers count in a name ("office 365") but not in prose ("at most 50")."""
    found = terms(text)
    return found if field in NAMING else [term for term in found if not term.isdigit()]


def parameter_text(schema: dict[str, Any] | None, depth: int = 3) -> str:
    """Return names, descriptions and listed values of a schema's parameters, nested ones to the given depth."""
    if not isinstance(schema, dict) or depth == 0:
        return ""
    parts: list[str] = []
    properties = gathered(schema).get("properties")
    for name, value in properties.items() if isinstance(properties, dict) else ():
        parts.append(str(name))
        if not isinstance(value, dict):
            continue
        if isinstance(value.get("description"), str):
            parts.append(value["description"])
        if isinstance(value.get("enum"), list):
            parts.extend(item for item in value["enum"][:20] if isinstance(item, str))
        parts.append(parameter_text(value, depth - 1))
        parts.append(parameter_text(value.get("items"), depth - 1))
    return " ".join(part for part in parts if part)


_BREAKS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_\-./:{}]+")


def spaced(identifier: str) -> str:
    """Return an identifier as words: `getUser_profile-v2` is "get User profile v2"."""
    return " ".join(_BREAKS.sub(" ", identifier).split())


def card(tool: Tool) -> str:
    """Return the whole tool in one text, as an embedder reads it."""
    return ". ".join(text for text, _ in facets(tool) if text)


def facets(tool: Tool) -> tuple[tuple[str, float], ...]:
    """Return a tool's name, first sentence, further ones and parameters, each with its weight among them."""
    name = f"{spaced(tool.server)} {spaced(named(tool))} {', '.join(tool.keywords)}".strip()
    first, *rest = SENTENCE_END.split(tool.description.strip()[:1000])
    parameters = spaced(parameter_text(tool.input_schema, depth=1)[:600])
    return (name, 1.0), (first, 1.0), (" ".join(rest), 0.5), (parameters, 0.5)


def sentences(text: str) -> list[str]:
    """Return a description's sentences and lines."""
    return [part for part in SENTENCE_END.split(text.strip()) if part]


SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")


SHORTEST, LONGEST = 5, 30
"""The number of letters of words that are corrected. A single typing error makes too many shorter words equal."""
MOST = 12
"""The maximum number of a task's unknown words that are corrected. A text with more unknown words is in another
language than the catalogue."""


def nearest(word: str, known: Iterable[str]) -> Sequence[str]:
    """Return the known words one insertion, deletion, change or swap of neighbours away, at most five."""
    return [other for other, _, _ in islice(process.extract_iter(word, known, scorer=OSA.distance, score_cutoff=1), 5)]


def corrections(words: Iterable[str], known: Container[str]) -> dict[str, str]:
    """Return each misspelt lower-case word with the only similar word of the catalogue.

    A word that the shipped embedding model knows is not misspelt.

    Args:
        known: The catalogue's stems.
    """
    found: dict[str, str] = {}
    for word in [word for word in dict.fromkeys(words) if _may_be_slip(word) and stem(word) not in known][:MOST]:
        alike = (other for size in (-1, 0, 1) for other in _by_shape().get((word[0], len(word) + size), ()))
        near = nearest(word, (other for other in alike if stem(other) in known))
        if len({stem(other) for other in near}) == 1:
            found[word] = near[0]
    return found


def _may_be_slip(word: str) -> bool:
    return SHORTEST <= len(word) <= LONGEST and word.isascii() and word.isalpha() and word not in vocabulary()


@cache
def vocabulary() -> frozenset[str]:
    """Return the whole words that the shipped embedding model knows."""
    text = (files("orchestrator") / "data" / "embedder" / "tokenizer.json").read_text(encoding="utf-8")
    return frozenset(word for word in json.loads(text)["model"]["vocab"] if not word.startswith("##"))


@cache
def _by_shape() -> Mapping[tuple[str, int], Sequence[str]]:
    """Return the vocabulary by first letter and length."""
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    for word in sorted(vocabulary()):
        found[word[0], len(word)].append(word)
    return found
