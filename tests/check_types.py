"""`make types`: builds the wheel and type-checks what is in it, as a user's own checker would see it."""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
USER = """
from orchestrator import Misspelt  # type: ignore[attr-defined]
from orchestrator import Router, RouteRequest

async def main(router: Router) -> str:
    RouteRequest(qurey="refund")  # type: ignore[call-arg]
    return (await router.route("refund")).nothing  # type: ignore[attr-defined, no-any-return]
"""
"""A user's module: each remark that is not needed, as the names were Any, is an error."""


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout, built into the folder."""
    shutil.rmtree(ROOT / "build", ignore_errors=True)  # Left by another build: the wheel would hold modules since gone.
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the wheel cannot be built:\n{done.stdout}\n{done.stderr}")
    return next(folder.glob("*.whl"))


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with zipfile.ZipFile(build_wheel(folder / "dist")) as wheel:
            wheel.extractall(folder / "site")
        (folder / "site" / "user.py").write_text(USER)
        options = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
        command = [sys.executable, "-m", "mypy", *options, "-p", "orchestrator", "-m", "user"]
        environment = {**os.environ, "MYPYPATH": str(folder / "site")}
        return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
