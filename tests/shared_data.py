"""The development query sets next to the checkout. Tests on them are skipped without them, and fail where CI is set."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "bench"


def skip_or_fail(missing: str) -> NoReturn:
    """Skip a test because of a part that a machine may lack. With CI=true the test fails instead."""
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)


@pytest.fixture(scope="session")
def bench() -> Path:
    """Return the folder of the query sets."""
    if not FOLDER.is_dir():
        skip_or_fail(f"no query sets at {FOLDER}")
    return FOLDER


def query_sets(folder: Path) -> list[Path]:
    """The sets that have both tools and queries."""
    return sorted(path.parent for path in folder.glob("*/queries.jsonl") if (path.parent / "tools.jsonl").is_file())


def queries(folder: Path, step: int = 1) -> Iterator[dict[str, Any]]:
    """Every `step`th query of a set."""
    with (folder / "queries.jsonl").open(encoding="utf-8") as lines:
        yield from (json.loads(line) for number, line in enumerate(lines) if number % step == 0)
