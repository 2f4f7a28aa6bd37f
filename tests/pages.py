"""The Python of the README and of the documentation's pages, and what it prints."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).parents[1]


def python_of(page: str) -> list[str]:
    """The page's blocks of Python, in order."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def printed(code: str, folder: Path, environ: Mapping[str, str] = MappingProxyType({})) -> str:
    """What the code prints as a script of its own, run where the page says: at the top of the repository."""
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
