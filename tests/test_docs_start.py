"""The pages that begin somebody's first five minutes print what they show."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT, printed, python_of

BIN = Path(sys.executable).parent


def _environment(home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "XDG_DATA_HOME": f"{home}/.local/share",
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
    }


def _lines(text: str) -> list[str]:
    """Return the lines without their figures and columns, which may change."""
    return [re.sub(r"\d", "0", " ".join(line.split())) for line in text.splitlines()]


def _commands(page: str) -> list[tuple[str, list[str]]]:
    """Return the page's toolroute commands that show their output, with its lines."""
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    commands = (part.partition("\n") for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE))
    return [(first, _lines(shown)) for first, _, shown in commands if first.startswith("toolroute ") and shown]


def _hold(page: str, environment: dict[str, str]) -> None:
    commands = _commands(page)
    assert commands
    for command, shown in commands:
        ran = subprocess.run(
            ["bash", "-c", command],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert set(shown) - {"..."} <= set(_lines(ran.stdout)), command


def test_the_prepass_prints_what_its_page_shows(tmp_path: Path) -> None:
    [code] = python_of("docs/tutorials/python-agent.md")
    shown = (
        (ROOT / "docs/tutorials/python-agent.md")
        .read_text(encoding="utf-8")
        .split("prints\n\n```\n")[1]
        .split("```")[0]
    )
    assert _lines(printed(code, tmp_path)) == _lines(shown)
    _hold("docs/tutorials/python-agent.md", _environment(tmp_path))


@pytest.mark.slow
def test_servers_are_listed_called_and_served_as_the_page_shows(tmp_path: Path) -> None:
    environment = _environment(tmp_path)
    _hold("docs/tutorials/ai-client.md", environment)
    [code] = python_of("docs/tutorials/ai-client.md")
    assert _lines(printed(code, tmp_path, environment)) == ["files:count_words 000"]


@pytest.mark.slow
def test_a_task_runs_on_temporal_as_the_page_shows(tmp_path: Path, temporal_address: str) -> None:
    environment = _environment(tmp_path) | {"TEMPORAL_ADDRESS": temporal_address}
    _hold("docs/tutorials/temporal-workflow.md", environment)
    [code] = python_of("docs/tutorials/temporal-workflow.md")
    ran = printed(code.replace("localhost:7233", temporal_address), tmp_path, environment)
    assert ran.startswith('s1 done\n{\n  "lines": ')
