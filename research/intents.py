"""How far the example questions of orchestrator/data/intents.json carry, and how often a task is taken for a question.

Run: python -m research.intents --data FOLDER. Each example is read by the others alone (one left out); a task with a
name put into it in two ways is none of a question.
"""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from orchestrator.index.embed import embedder_for
from orchestrator.options import Options
from orchestrator.pipeline.legs.about import OF_SERVERS, OF_TOOLS
from orchestrator.pipeline.legs.lexicon import Lexicon
from orchestrator.records.about import GENERAL

SHIPPED = Path(__file__).parents[1] / "orchestrator" / "data" / "intents.json"
SETS = ("api_bank", "azure_mcp", "bfcl", "metatool", "restbench", "seal_tools", "toolalpaca")
EVERY = 7
"""Of a set every so many tasks are read."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    examples, embedder = json.loads(SHIPPED.read_text(encoding="utf-8")), embedder_for(Options())
    ends = {"right": 0, "general": 0, "wrong": 0}
    with TemporaryDirectory() as folder:
        for intent, text in ((i, t) for i, own in examples.items() if i != GENERAL for t in own):
            file = Path(folder) / "others.json"
            file.write_text(json.dumps({i: [t for t in own if t != text] for i, own in examples.items()}))
            found = Lexicon(str(file), "", lambda: embedder).intent(_plain(text), _among(intent))
            ends["right" if found == intent else "general" if found == GENERAL else "wrong"] += 1
    print(f"of {sum(ends.values())} questions, each left out: {ends}")
    shipped, tasks, misread = Lexicon("", "", lambda: embedder), 0, 0
    for name in SETS:
        lines = (given.data / "bench" / name / "queries.jsonl").read_text(encoding="utf-8").splitlines()[::EVERY]
        for query in (json.loads(line)["query"] for line in lines):
            for text in (query, f"use to {query}", f"{query} with"):
                found = [shipped.intent(text, among) for among in (OF_TOOLS, OF_SERVERS)]
                tasks, misread = tasks + len(found), misread + sum(own != GENERAL for own in found)
    print(f"of {tasks:,} readings of tasks {misread} were taken for a question")


def _plain(text: str) -> str:
    return " ".join(word for word in text.split() if word != "X")


def _among(intent: str) -> tuple[str, ...]:
    return OF_SERVERS if intent in OF_SERVERS else OF_TOOLS


if __name__ == "__main__":
    main()
