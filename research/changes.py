"""Counts the changed definitions that would wait, between releases of public servers, tool by tool.

    python -m research.changes FOLDER

FOLDER has a folder for each server, with one file for each release, named by the version. The file is the output of
`toolroute tools list -o jsonl` after a sync of that release.
"""

import re
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

from orchestrator import Catalogue, Tool
from orchestrator.trust.definition_changes import differences


def _version(file: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", file.stem)]


def count(before: Tool, now: Tool) -> Counter[str]:
    """Return the counted properties of a tool in two releases."""
    found = Counter(tools=1, changed=before.hash != now.hash)
    if risks := [one.risk for one in differences(before, now) if one.risk]:
        found += Counter(
            waiting=1, parameters_alone=all("further parameter" in risk for risk in risks)
        )
    return found


def main(folder: Path) -> None:
    """Print the counts of each server, and of all."""
    total = Counter[str]()
    for server in sorted(folder.iterdir()):
        releases = [
            {tool.name: tool for tool in Catalogue.read(file, "server")}
            for file in sorted(server.glob("*.jsonl"), key=_version)
        ]
        steps = [
            count(before[name], now[name])
            for before, now in pairwise(releases)
            for name in before.keys() & now.keys()
        ]
        own = sum(steps, Counter[str]())
        total += own + Counter(servers=1, steps=max(0, len(releases) - 1))
        print(server.name, len(releases), dict(own))
    print("all", dict(total))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
