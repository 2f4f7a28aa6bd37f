"""Counts the tools that are named for reading and wait for approval: `python -m research.reading --data ../shared`."""

import argparse
from pathlib import Path

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.index.intent import READING_VERBS, name_words, reads_only
from research.actions import CATALOGUES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    data = parser.parse_args().data / "bench"
    tools = [tool for name in CATALOGUES for tool in Catalogue.read(data / name)]
    named = [tool for tool in tools if name_words(tool)[0] in READING_VERBS]
    waiting = sum(not reads_only(tool) for tool in named)
    print(f"{waiting:,} of {len(named):,} wait ({waiting / len(named):.0%})")


if __name__ == "__main__":
    main()
