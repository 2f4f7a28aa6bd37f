"""Short texts in eleven languages with their English text, from translation catalogues of permissively licensed Python
packages (names, actions, messages, as people also write to tools) and from tldr.
"""

import gettext
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from research import sources

LANGUAGES = frozenset("de es fr it ja ko nl pl pt ru zh".split())
CATALOGUES = ("django", "oscar", "wagtail", "indico")  # packages with gettext catalogues
_PLACEHOLDER = re.compile(r"<[^>]+>|%\([^)]*\)[sdr]|%[sd]|\{[^}]*\}|\[%.*?%\]")
_SPACE = re.compile(r"\s+")
_LIMIT = 200  # characters


@dataclass(frozen=True, slots=True)
class Translation:
    text: str
    english: str


def package(name: str) -> Path:
    """Return the folder of an installed package without importing it."""
    found = find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"package {name!r} is missing: see research/README.md")
    return Path(found.submodule_search_locations[0])


def plain(text: str) -> str:
    return _SPACE.sub(" ", _PLACEHOLDER.sub(" ", text)).strip()


def _language(code: str) -> str:
    return re.split(r"[-_@.]", code)[0].lower()


def of_emoji() -> Iterator[Translation]:
    """Names of things, places and activities: the `emoji` package, each once (not again by skin tone)."""
    folder = package("emoji") / "unicode_codes"
    english = {
        symbol: entry["en"]
        for symbol, entry in json.loads((folder / "emoji.json").read_text("utf-8")).items()
    }
    for path in sorted(folder.glob("emoji_*.json")):
        if path.stem.removeprefix("emoji_") in LANGUAGES:
            for symbol, name in json.loads(path.read_text("utf-8")).items():
                if "skin_tone" not in english[symbol]:
                    yield Translation(
                        name.strip(":").replace("_", " "),
                        english[symbol].strip(":").replace("_", " "),
                    )


def _leaves(
    tree: dict[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, key))
        elif isinstance(value, str):
            yield (*path, key), value


def of_home_assistant() -> Iterator[Translation]:
    """Services, devices and states of about 1,200 integrations: the `homeassistant` package."""
    for path in sorted((package("homeassistant") / "components").glob("*/translations/en.json")):
        english = dict(_leaves(json.loads(path.read_text("utf-8"))))
        for other in sorted(path.parent.glob("*.json")):
            if _language(other.stem) in LANGUAGES:
                for key, text in _leaves(json.loads(other.read_text("utf-8"))):
                    yield Translation(text, english.get(key, ""))


def of_gettext(name: str) -> Iterator[Translation]:
    """Return a package's compiled message catalogues. The English text is the message's key."""
    for path in sorted(package(name).rglob("LC_MESSAGES/*.mo")):
        if _language(path.parts[-3]) in LANGUAGES:
            with path.open("rb") as file:
                catalogue: dict[Any, str] = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined] # noqa: SLF001
            for message, text in catalogue.items():
                key = message if isinstance(message, str) else message[0]
                yield Translation(text, key.rsplit("\4", 1)[-1])


def of_tldr(data: Path) -> Iterator[Translation]:
    """Tasks and descriptions of pages that have as many tasks in both languages (their order is the same)."""
    pages = list(sources.rows(data / "train/tldr/pages.jsonl"))
    english = {
        (page["platform"], page["command"]): page for page in pages if page["language"] == "en"
    }
    for page in pages:
        original = english.get((page["platform"], page["command"]))
        if original and page["language"] in LANGUAGES:
            yield Translation(page["description"], original["description"])
            if len(page["tasks"]) == len(original["tasks"]):
                for task, wording in zip(page["tasks"], original["tasks"], strict=True):
                    yield Translation(task["task"], wording["task"])


def translations(data: Path) -> list[Translation]:
    """All of them, cleaned, each once."""
    raw = [*of_emoji(), *of_home_assistant(), *of_tldr(data)]
    for name in CATALOGUES:
        raw += of_gettext(name)
    cleaned = (Translation(plain(one.text), plain(one.english)) for one in raw)
    unique = dict.fromkeys(one for one in cleaned if one.text.lower() != one.english.lower())
    return [one for one in unique if 1 < len(one.english) <= _LIMIT and 0 < len(one.text) <= _LIMIT]
