"""Tasks of our own over real servers, `research/written/tasks`: the maps are fitted to them, too.

`CATALOGUE.NAME.jsonl` names tools of `bench/CATALOGUE`. The embedder is not trained on them.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from orchestrator import Catalogue
from research.sources import WRITTEN, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """One file: records with `query`, `relevant` and `category`, and all tools of the servers that they name.

    Attributes:
        source: The public catalogue of the tools.
    """

    name: str
    source: str
    catalogue: Catalogue
    records: list[dict[str, Any]]


def tasks(data: Path) -> list[Tasks]:
    """The files in the order of their names."""
    files = sorted((WRITTEN / "tasks").glob("*.jsonl"))
    return [_read(path, data / "bench") for path in files]


def _read(path: Path, bench: Path) -> Tasks:
    records, (source, name) = list(rows(path)), path.stem.split(".")
    servers = {key.partition(":")[0] for record in records for key in record["relevant"]}
    catalogue = Catalogue(
        [tool for tool in _catalogue(bench / source).tools if tool.server in servers]
    )
    return Tasks(name=f"tasks {name}", source=source, catalogue=catalogue, records=records)


def abroad(one: Tasks) -> dict[str, list[dict[str, Any]]]:
    """A file's tasks in other languages, by language: written/abroad.jsonl translates some, and the labels stay."""
    known = {record["id"]: record for record in one.records}
    found: dict[str, list[dict[str, Any]]] = {}
    for line in rows(WRITTEN / "abroad.jsonl"):
        if (record := known.get(line["id"])) is not None:
            for language in line.keys() - {"id"}:
                found.setdefault(language, []).append({**record, "query": line[language]})
    return dict(sorted(found.items()))


@cache
def _catalogue(folder: Path) -> Catalogue:
    return Catalogue.read(folder)
