"""Converts text to indexed and searched terms, for tools and queries alike.

Identifiers are split at camelCase, snake_case and kebab-case and also kept whole ("GitHub" gives github, git, hub).
Scripts without spaces between words give character pairs. Words are stemmed with Snowball's stemmer for their script.
Synonyms with different stems share one term, and an acronym also has the terms of its words (`data/variants.txt`). The
list has no words with another meaning in a tool, a name or another language: "app", "temp", "os". An unknown word in a
task is read as a word of the catalogue if only that word is one edit away.
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
"""A placeholder for the Cyrillic short i while diacritics are removed. It is a letter of its own, and the
stemmer needs it."""

MAX_PARTS = 8
"""The maximum number of parts of an identifier. A longer one is not a name but noise, such as base64 or a hash."""

MAX_REMEMBERED, MOST_REMEMBERED = 60, 40_000
"""The maximum number of characters of a word whose terms are cached, and the number of cached words."""

NAMING = frozenset(("server", "name", "keywords"))
"""The fields with names of the tool. The other fields describe what it does."""


def terms(text: str) -> list[str]:
    """Return the stemmed terms of a text in order, stop words left out."""
    return [term for run in _runs(text) for term in _KNOWN[run][0]]


def terms_and_words(text: str) -> list[tuple[str, str]]:
    """Return each of `terms` with the word that it is the stem of."""
    return [pair for run in _runs(text) for pair in _KNOWN[run][1]]


def split_words(text: str) -> list[str]:
    """Return lower-case words, identifiers whole and in parts, and character pairs for scripts without spaces."""
    return list(chain.from_iterable(map(_cut, _runs(text))))


def _runs(text: str) -> list[str]:
    return _WORD.findall(text if text.isascii() else _without_marks(text))


_Terms = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]


class _TermsOfWords(dict[str, _Terms]):
    """The terms of each written word, and those with the words that they are stems of."""

    def __missing__(self, run: str) -> _Terms:
        pairs = tuple(_terms_of(run))
        entry = tuple(term for term, _ in pairs), pairs
        if len(run) <= MAX_REMEMBERED:
            if len(self) >= MOST_REMEMBERED:
                self.clear()
            self[run] = entry
        return entry


def _terms_of(run: str) -> Iterator[tuple[str, str]]:
    """Yield each term of a written word with the word that it is the stem of, those of an acronym's words, too."""
    for word in _cut(run):
        for part in (word, *words_of(word)):
            term = stem(part)
            if term:
                yield term, part


_KNOWN = _TermsOfWords()


def _cut(word: str) -> Iterator[str]:
    """Yield the parts of an identifier in lower case, and the whole word. Yield character pairs of unspaced scripts."""
    if not word.isascii() and _UNSPACED.search(word):
        yield from _unspaced(word)
        return
    if "'" in word or "’" in word:
        word = word.replace("’", "'").partition("'")[0]
    if word.islower():
        yield word
        return
    if not (word.istitle() or word.isdigit()):
        parts = _CAMEL.findall(word)
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
    """Return the canonical words and the words of acronyms.

    The file has lines like `msg message` and `pr + pull request`.
    """
    text = (files("orchestrator") / "data" / "variants.txt").read_text(encoding="utf-8")
    canonical: dict[str, str] = {}
    acronyms: dict[str, str] = {}
    for line in text.splitlines():
        word, meaning = line.split(" ", 1)
        if meaning.startswith("+ "):
            acronyms[word] = meaning[2:]
        else:
            canonical[word] = meaning
    return canonical, acronyms


@cache
def _acronym() -> re.Pattern[str]:
    """Return a pattern for an acronym that is not part of a name, a path or an address."""
    return re.compile(
        rf"(?<![\w@./-])(?:{'|'.join(_variants()[1])})s?(?![\w@/-]|\.\w)", re.IGNORECASE
    )


def words_of(word: str) -> list[str]:
    """Return the words of a lower-case acronym."""
    return _of(_variants()[1], word).split()


def spelt_out(text: str) -> str:
    """Return the text with the words of each acronym behind it."""
    return _acronym().sub(
        lambda acronym: " ".join([acronym[0], *words_of(acronym[0].lower())]), text
    )


def _of(table: Mapping[str, str], word: str) -> str:
    """Look a word up, or the one that it is the plural of."""
    return table.get(word) or table.get(word.removesuffix("s"), "")


@lru_cache(maxsize=MOST_REMEMBERED)
def stem(word: str) -> str:
    """Return the stem of a lower-case word, "" for a stop word."""
    if word in STOP_WORDS:
        return ""
    stemmer = _ENGLISH
    if not word.isascii():
        script = unicodedata.name(word[0], "").partition(" ")[0]
        stemmer = _OF_SCRIPT.get(script, _ENGLISH)
    canonical = _of(_variants()[0], word) or word
    return str(stemmer.stemWord(canonical))


def stemmed(words: Iterable[str]) -> list[str]:
    """Return the stem of each word. A stop word is unchanged."""
    return [stem(word) or word for word in words]


def plain_stems(text: str) -> list[str]:
    """Return the stem of each word of a text in order, stop words included."""
    return list(_ENGLISH.stemWords(_runs(text.lower())))


@cache
def stop_stems() -> frozenset[str]:
    """Return the stems of the stop words, as `plain_stems` has them."""
    return frozenset(plain_stems(" ".join(STOP_WORDS)))


def described(tool: Tool) -> str:
    """Return a tool's description, or its title if it has no description."""
    return tool.description or tool.title


def named(tool: Tool) -> str:
    """Return a tool's name with the words of its title that the name lacks, unless the title is its description."""
    if not tool.title or not tool.description:
        return tool.name
    name_words = spaced(tool.name).lower().split()
    further = [word for word in spaced(tool.title).split() if word.lower() not in name_words]
    return " ".join([tool.name, *further])


def fields(tool: Tool) -> list[tuple[str, str]]:
    """Return the fields that a tool is searched by, each name with its text."""
    former_names = [relation.name for relation in tool.relations if relation.replaces]
    return [
        ("server", tool.server),
        ("name", named(tool)),
        ("keywords", " ".join([*tool.keywords, *former_names])),
        ("description", described(tool)),
        ("parameters", parameter_text(tool.input_schema)),
    ]


def field_terms(field: str, text: str) -> list[str]:
    """Return a field's terms. Numbers count in a name ("office 365") but not in prose ("at most 50")."""
    if field in NAMING:
        return terms(text)
    return [term for term in terms(text) if not term.isdigit()]


def parameter_text(schema: dict[str, Any] | None, depth: int = 3) -> str:
    """Return names, descriptions and listed values of a schema's parameters, nested ones to the given depth."""
    if not isinstance(schema, dict) or depth == 0:
        return ""
    properties = gathered(schema).get("properties")
    if not isinstance(properties, dict):
        return ""
    parts: list[str] = []
    for name, value in properties.items():
        parts.append(str(name))
        if isinstance(value, dict):
            parts += _value_texts(value)
            parts.append(parameter_text(value, depth - 1))
            parts.append(parameter_text(value.get("items"), depth - 1))
    return " ".join(part for part in parts if part)


def _value_texts(shape: dict[str, Any]) -> list[str]:
    """Return a parameter's description and its first listed values."""
    texts = []
    description = shape.get("description")
    if isinstance(description, str):
        texts.append(description)
    values = shape.get("enum")
    if isinstance(values, list):
        texts += [value for value in values[:20] if isinstance(value, str)]
    return texts


_BREAKS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_\-./:{}]+")


@lru_cache(maxsize=20_000)
def spaced(identifier: str) -> str:
    """Return an identifier as words: `getUser_profile-v2` is "get User profile v2"."""
    return identifiers_spaced(identifier)


def identifiers_spaced(text: str) -> str:
    """Return a text with its identifiers as words. A text may be long, so it is not remembered as `spaced` is."""
    return " ".join(_BREAKS.sub(" ", text).split())


def card(tool: Tool) -> str:
    """Return the whole tool in one text, as an embedder reads it."""
    return ". ".join(filter(None, facets(tool)))


FACET_WEIGHTS = (1.0, 1.0, 0.5, 0.5)
"""The weights of a tool's name, first sentence, further sentences and parameters in its vector."""


def facets(tool: Tool) -> tuple[str, str, str, str]:
    """Return a tool's name, first sentence, further sentences and parameters."""
    name = f"{spaced(tool.server)} {spaced(named(tool))} {', '.join(tool.keywords)}"
    first, *further = SENTENCE_END.split(described(tool).strip()[:1000])
    parameters = spaced(parameter_text(tool.input_schema, depth=1)[:600])
    return name.strip(), first, " ".join(further), parameters


def sentences(text: str) -> list[str]:
    """Return a description's sentences and lines."""
    return [part for part in SENTENCE_END.split(text.strip()) if part]


SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")


SHORTEST, LONGEST = 5, 30
"""The number of letters of words that are corrected. A single typing error makes too many shorter words equal."""
MOST = 12
"""The maximum number of a task's unknown words that are corrected."""


def nearest(word: str, known: Iterable[str]) -> Sequence[str]:
    """Return the known words one insertion, deletion, change or swap of neighbours away, at most five."""
    # Imported here, because most tasks have no unknown word, and 47 modules take a new process 8 ms.
    from rapidfuzz import process
    from rapidfuzz.distance import OSA

    matches = process.extract_iter(word, known, scorer=OSA.distance, score_cutoff=1)
    return [other for other, _, _ in islice(matches, 5)]


def corrections(words: Iterable[str], stems_of_catalogue: Container[str]) -> dict[str, str]:
    """Return each misspelt lower-case word with the only similar word of the catalogue.

    A word that the shipped embedding model knows is not misspelt.

    Args:
        words: The words of the task.
        stems_of_catalogue: The catalogue's stems.
    """
    unique = [word for word in dict.fromkeys(words) if word.isalpha()]
    corrected: dict[str, str] = {}
    for word in strange_words(unique, stems_of_catalogue)[:MOST]:
        if not SHORTEST <= len(word) <= LONGEST or not word.isascii():
            continue
        spellings = [
            spelling for spelling in _similar_shape(word) if stem(spelling) in stems_of_catalogue
        ]
        nearest_spellings = nearest(word, spellings)
        stems = {stem(spelling) for spelling in nearest_spellings}
        if len(stems) == 1:
            corrected[word] = nearest_spellings[0]
    return corrected


def strange_words(words: Iterable[str], known: Container[str]) -> list[str]:
    """Return those of the lower-case words that neither a tool nor the shipped embedding model has."""
    familiar = vocabulary()
    return [
        word
        for word in words
        if stem(word) not in known and word not in STOP_WORDS and word not in familiar
    ]


def _similar_shape(word: str) -> Iterator[str]:
    """Yield the words of the vocabulary with the same first letter and nearly the same length."""
    for length in (len(word) - 1, len(word), len(word) + 1):
        yield from _by_shape().get((word[0], length), ())


@cache
def vocabulary() -> frozenset[str]:
    """Return the whole words that the shipped embedding model knows."""
    text = (files("orchestrator") / "data" / "embedder" / "tokenizer.json").read_text(
        encoding="utf-8"
    )
    return frozenset(
        word for word in json.loads(text)["model"]["vocab"] if not word.startswith("##")
    )


@cache
def _by_shape() -> Mapping[tuple[str, int], Sequence[str]]:
    """Return the vocabulary by first letter and length."""
    by_shape: dict[tuple[str, int], list[str]] = defaultdict(list)
    for word in sorted(vocabulary()):
        by_shape[word[0], len(word)].append(word)
    return by_shape
