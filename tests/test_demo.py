"""`make demo`, the first thing that anybody runs, and what the README shows of it."""

import subprocess
import sys

import pytest

from tests.catalogues import EXAMPLES


def _without_figures(text: str) -> set[str]:
    return {"".join("0" if sign.isdigit() else sign for sign in line).rstrip() for line in text.splitlines()}


@pytest.mark.slow
def test_the_demo_carries_out_a_task_and_prints_what_the_readme_shows() -> None:
    command = [sys.executable, "-m", "examples.demo"]
    ran = subprocess.run(command, cwd=EXAMPLES.parent, capture_output=True, text=True, timeout=240, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "agents, integrations, workflows and built-ins" in ran.stdout
    assert '"words": ' in ran.stdout
    readme = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    shown = readme.split("One of the tasks that `make demo` routes:")[1].split("```")[1].removeprefix("console")
    assert _without_figures(shown) <= _without_figures(ran.stdout)
