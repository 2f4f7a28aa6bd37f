"""The development query sets beside the checkout. Tests on them are skipped without them, and fail where CI is set."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "bench"


@pytest.fixture(scope="session")
def bench() -> Path:
    """The folder of the query sets."""
    if not FOLDER.is_dir():
        missing = f"the query sets are not there: {FOLDER}"
        pytest.fail(missing) if os.environ.get("CI") == "true" else pytest.skip(missing)
    return FOLDER


def query_sets(folder: Path) -> list[Path]:
    """The sets that have both tools and queries."""
    return sorted(path.parent for path in folder.glob("*/queries.jsonl") if (path.parent / "tools.jsonl").is_file())


def queries(folder: Path, step: int = 1) -> Iterator[dict[str, Any]]:
    """Every `step`th query of a set."""
    with (folder / "queries.jsonl").open(encoding="utf-8") as lines:
        yield from (json.loads(line) for number, line in enumerate(lines) if number % step == 0)
