"""The texts that the teacher embeds, in named lists: the student learns to put them where the teacher does."""

from collections.abc import Iterable
from pathlib import Path

from research import sources, views
from research.sources import Tool
from research.translations import Translation


def _unique(texts: Iterable[str]) -> list[str]:
    return sorted({text for text in texts if text})


def tasks(data: Path) -> list[str]:
    """Return people's requests: the training queries, never a benchmark's."""
    return _unique(
        q.text
        for path in sorted((data / "train").glob("*/queries.jsonl"))
        for q in sources.queries(path.parent)
    )


def requests(data: Path) -> list[str]:
    """Return everyday messages to tools and to nobody."""
    parts = (text for story in sources.stories(data) for text, _ in story)
    said = [*(text for text, _ in sources.requests(data)), *parts, *sources.idle()]
    return _unique(text for text in said if _latin(text))


def _latin(text: str) -> bool:
    """Return True if the teacher, which reads English, knows the text's letters."""
    return sum(letter > "\u024f" for letter in text if letter.isalpha()) * 4 <= len(text)


def commands(data: Path) -> list[str]:
    """English tldr tasks and page descriptions."""
    pages = [
        page for page in sources.rows(data / "train/tldr/pages.jsonl") if page["language"] == "en"
    ]
    return _unique(
        text
        for page in pages
        for text in (page["description"], *(task["task"] for task in page["tasks"]))
    )


def apis(data: Path) -> list[str]:
    return _unique(
        f"{row['name']}: {row['description']}"
        for row in sources.rows(data / "train/public_apis/apis.jsonl")
    )


def collections(
    data: Path, catalogue: list[Tool], translated: list[Translation]
) -> dict[str, list[str]]:
    """Name -> texts."""
    return {
        "first sentences": _unique(map(views.first, catalogue)),
        "tasks": tasks(data),
        "requests": requests(data),
        "cards": _unique(map(views.card, catalogue)),
        "commands": commands(data),
        "apis": apis(data),
        "names": _unique(map(views.name, catalogue)),
        "translated": _unique(one.english for one in translated),
    }
