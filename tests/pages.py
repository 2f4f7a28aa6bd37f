"""The Python code of the README and the documentation's pages, and its output."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[1]


def python_of(page: str) -> list[str]:
    """The page's blocks of Python, in order."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def printed(code: str, folder: Path, environ: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the output of the code as a script at the top of the repository, as the page describes."""
    script = folder / "page.py"
    script.write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def fresh_home(home: Path) -> dict[str, str]:
    """Return the environment of a user who has just installed toolroute."""
    return {
        "HOME": str(home),
        "XDG_DATA_HOME": f"{home}/.local/share",
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
    }


def lines(text: str) -> list[str]:
    """The lines without their figures and columns, which may change."""
    return [re.sub(r"\d+", "0", " ".join(line.split())) for line in text.splitlines()]


def with_cursor(home: Path) -> dict[str, str]:
    """The environment of a user of Cursor with the example servers."""
    servers = (ROOT / "examples/mcp.json").read_text(encoding="utf-8").replace("${toolroutePython}", sys.executable)
    servers = servers.replace("examples", str(ROOT / "examples")).replace(".toolroute", str(home))
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text(servers, encoding="utf-8")
    return fresh_home(home)


def _commands(page: str, only: str) -> list[tuple[str, list[str]]]:
    """The page's commands that show their output, with the lines of it."""
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    commands = (part.partition("\n") for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE))
    return [(first, lines(shown)) for first, _, shown in commands if f"{first}\n".startswith(only) and shown]


def prints_what_it_shows(page: str, environment: Mapping[str, str], only: str = "toolroute ") -> None:
    """Run the page's commands that show their output. Each line that the page shows must be printed."""
    commands = _commands(page, only)
    assert commands
    for command, shown in commands:
        ran = subprocess.run(
            ["bash", "-c", command],
            cwd=ROOT,
            env=dict(environment),  # Nothing of the tester's: `setup` writes into the folders that variables name.
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        printed = f"{ran.stdout}\n{ran.stderr}".replace(environment.get("HOME", "~"), "~")
        assert {*shown} - {"..."} <= {*lines(printed)}, command
