"""Flagged tools among real ones: `python -m benchmarks.flagged --data ../shared`."""

import argparse
from pathlib import Path

from orchestrator.catalogue.files import read_tools
from orchestrator.index.suspicion import suspects


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    given = parser.parse_args()
    tools = flagged = 0
    for file in sorted((given.data / "bench").glob("*/tools.jsonl")):
        read = read_tools(file)
        found = suspects(read)
        tools, flagged = tools + len(read), flagged + len(found)
        print(f"{file.parent.name}: {len(found)} of {len(read):,}")
        for key, reasons in found.items():
            print(f"    {key}: {'; '.join(reasons)}")
    print(f"all: {flagged} of {tools:,} ({flagged / max(tools, 1):.2%})")


if __name__ == "__main__":
    main()
