"""Counts the words that begin tasks and tools: `python -m research.actions --data ../shared`.

Writes `data/actions.txt`. A word is an action if two of three sources agree: at least two servers name and describe a
tool by it, at least two labelled tasks begin with it, or at least three command pages have a task that begins with it.
"""

import argparse
import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from orchestrator import Catalogue
from orchestrator.index.intent import name_words
from orchestrator.index.text import STOP_WORDS, stem

CATALOGUES = ("mcp_catalog_toucan", "mcp_catalog_toolsdk", "mcp_catalog_docker")
TASKS = ("metatool", "seal_tools", "apibench")
_LEAD = re.compile(
    r"(?i)(?:please|(?:can|could|would|will) you|help me|i (?:want|need|would like)(?: you)? to|[\"'\s,])+"
)
_WORD = re.compile(r"[a-z]+")


def first_word(text: str) -> str:
    lead = _LEAD.match(text)
    found = _WORD.match(text[lead.end() if lead else 0 :].lower())
    return found.group() if found else ""


def of_tools(data: Path) -> Counter[str]:
    pairs = {
        (tool.server, name_words(tool)[0])
        for name in CATALOGUES
        for tool in Catalogue.read(data / "bench" / name)
        if stem(name_words(tool)[0])
        and stem(name_words(tool)[0]) == stem(first_word(tool.description))
    }
    return Counter(word for _, word in pairs)


def of_tasks(data: Path) -> Counter[str]:
    files = (data / "train" / name / "queries.jsonl" for name in TASKS)
    return Counter(first_word(record["query"]) for file in files for record in _records(file))


def of_commands(data: Path) -> Counter[str]:
    pages = (
        page
        for page in _records(data / "train" / "tldr" / "pages.jsonl")
        if page["language"] == "en"
    )
    return Counter(
        word for page in pages for word in {first_word(task["task"]) for task in page["tasks"]}
    )


def _records(path: Path) -> Iterator[dict[str, object]]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="the folder that holds bench/ and train/"
    )
    parser.add_argument("--out", type=Path, default=Path("orchestrator/data/actions.txt"))
    arguments = parser.parse_args()
    sources = [
        (of_tools(arguments.data), 2),
        (of_tasks(arguments.data), 2),
        (of_commands(arguments.data), 3),
    ]
    votes = Counter(
        word for counted, least in sources for word, times in counted.items() if times >= least
    )
    actions = sorted(
        word
        for word, times in votes.items()
        if times > 1 and len(word) > 2 and word not in STOP_WORDS
    )
    arguments.out.write_text(textwrap.fill(" ".join(actions), 118) + "\n", encoding="utf-8")
    print(f"{len(actions)} actions")


if __name__ == "__main__":
    main()
