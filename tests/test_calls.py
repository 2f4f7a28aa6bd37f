"""A route's work, counted in calls of this package's functions, which a busy machine does not change."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STORED = {"keyword": 1_774, "semantic": 2_281}
"""What `python -m benchmarks.calls` printed for the sample tools when a route last became cheaper or dearer."""
MORE, LESS = 1.1, 0.8


@pytest.fixture(scope="module")
def counted() -> dict[str, dict[str, int]]:
    """Count in a separate process, because modules that other tests have loaded may call further functions."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.calls"], cwd=ROOT, capture_output=True, check=True)
    found: dict[str, dict[str, int]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("hint", STORED)
def test_a_route_calls_as_many_functions_as_stored(counted: dict[str, dict[str, int]], hint: str) -> None:
    share = counted["sample"][hint] / STORED[hint]
    assert LESS < share < MORE, f"{hint}: {counted['sample'][hint]} calls, {STORED[hint]} stored: mend it, or store it"


@pytest.mark.parametrize("hint", STORED)
def test_a_route_among_eight_times_the_tools_calls_hardly_more(counted: dict[str, dict[str, int]], hint: str) -> None:
    assert counted["many"][hint] < MORE * counted["sample"][hint]
