"""The test file of `docs/how-to/temporal-testing.md` passes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import python_of


@pytest.mark.slow
def test_the_test_file_of_the_page_passes(temporal_address: str, tmp_path: Path) -> None:
    [workflow, tests] = python_of("docs/how-to/temporal-testing.md")
    (tmp_path / "refunds.py").write_text(workflow, encoding="utf-8")
    (tmp_path / "test_refunds.py").write_text(tests, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "TEMPORAL_ADDRESS": temporal_address, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert "3 passed" in done.stdout, done.stdout
