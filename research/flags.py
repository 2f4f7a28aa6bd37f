"""Count how often each form of flag occurs: `python -m research.flags [--data FOLDER] [--labelled FILE ...]`.

The public MCP catalogues of the development sets count as honest, each as one tenant's catalogue. A labelled file has a
tool a line, as in a catalogue file, and `label`: 1 for an attack, 0 for an honest tool. The labelled tools are other
people's work and no part of this repository. The rules were written against 53 attacks and 245 honest tools from the
public repositories damn-vulnerable-MCP-server, Vulnerable-MCP-Server, DevSecOps_Arena, mcp-injection-experiments,
MCPSecBench, MSB, safe-mcp, mcp-scan, hijack-agentic-ai and pipelock.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator import Tool
from orchestrator.index.flags import mentions, suspects

CATALOGUES = ("mcp_catalog_docker", "mcp_catalog_toolsdk", "mcp_catalog_toucan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared"))
    parser.add_argument("--labelled", type=Path, nargs="*", default=[])
    given = parser.parse_args()
    for name in CATALOGUES:
        tools = [_tool(row) for row in _rows(given.data / "bench" / name / "tools.jsonl")]
        flagged = suspects(tools)
        forms = Counter(
            " ".join(reason.split()[:2]) for reasons in flagged.values() for reason in reasons
        )
        mentioning = sum(bool(mentions(tool)) for tool in tools if tool.key not in flagged)
        print(
            f"{name}: {len(tools):,} tools, {len(flagged)} flagged {dict(forms)}, {mentioning} mention a phrase"
        )
    for file in given.labelled:
        counts = Counter((row["label"], bool(suspects([_tool(row)]))) for row in _rows(file))
        attacks, honest = (
            sum(counts[label, is_flagged] for is_flagged in (True, False)) for label in (1, 0)
        )
        print(
            f"{file}: {counts[1, True]} of {attacks} attacks flagged, {counts[0, True]} of {honest} honest tools"
        )


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _tool(row: dict[str, Any]) -> Tool:
    return Tool(
        server=row.get("server", "x"),
        name=row["name"],
        description=row["description"] or "",
        input_schema=row.get("input_schema") or {},
    )


if __name__ == "__main__":
    main()
