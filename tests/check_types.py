"""`make types`: type-checks the package, and programs that use it as users do.

mypy (strict) reads the package that `make setup` installed. Pyright reads that and the wheel. Both check a user's
module and the programs of the pages about models.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tests.pages import python_of

ROOT = Path(__file__).parents[1]
PAGES = [f"docs/how-to/{name}.md" for name in ("models", "functions", "second-stage", "model-plan", "scripted-model")]
USER = """
from datetime import timedelta

from temporalio.client import Client

from orchestrator import Misspelt  # type: ignore[attr-defined]
from orchestrator import Catalogue, Decision, HttpExecutor, Limits, Models, Options, OrchestratorPlugin, Outcome
from orchestrator import RouteRequest, Router, RunRequest, Tool, ToolRouter, Use, schedule_sync
from orchestrator.integrations.langchain import ToolRouterMiddleware

RunRequest(task="refund", approve="never")
RouteRequest(query="refund", route_hint="keyword", fusion="rrf")

async def main(router: Router, client: Client, decision: Decision) -> str:
    RouteRequest(qurey="refund")  # type: ignore[call-arg]
    RouteRequest(query="refund", route_hint="keywords")  # type: ignore[arg-type]
    RunRequest(task="refund", approve="sometimes")  # type: ignore[arg-type]
    RunRequest(task="refund", limits=20_000)  # type: ignore[arg-type]
    Limits(max_tokens=20_000)  # type: ignore[call-arg]
    await router.route("refund", limt=3)  # type: ignore[call-arg]
    router.route_sync("refund", limt=3)  # type: ignore[call-arg]
    router.route_sync("refund", limit="three")  # type: ignore[arg-type]
    await router.record(decision, use=["a:b"])  # type: ignore[call-arg]
    await router.warm(["local"])  # type: ignore[arg-type]
    Router("tools.jsonl", pipline="koi")  # type: ignore[call-arg]
    Router(options={"gate": 0.9})  # type: ignore[arg-type]
    Options(gate="high")  # type: ignore[arg-type]
    Models(model="gpt-5")  # type: ignore[call-arg]
    OrchestratorPlugin(mcp_server="mcp.json")  # type: ignore[call-arg]
    OrchestratorPlugin(executors=[main])  # type: ignore[arg-type]
    ToolRouter(tenent="org:1")  # type: ignore[call-arg]
    await ToolRouter("org:1").run("refund", aprove="never")  # type: ignore[call-arg]
    await ToolRouter("org:1").call(decision, "a:b", ["x"])  # type: ignore[arg-type]
    await schedule_sync(client, "org:1", evry=timedelta(hours=1))  # type: ignore[call-arg]
    Catalogue.of(main, readonly=[main])  # type: ignore[call-arg]
    HttpExecutor("https://example.com", header={})  # type: ignore[call-arg]
    Tool(server="a", name="b", read_only=True)  # type: ignore[call-arg]
    ToolRouterMiddleware(limt=3)  # type: ignore[call-arg]
    return (await router.route("refund")).nothing  # type: ignore[attr-defined, no-any-return]
"""
"""A user's module: each remark that is not needed, as the names were Any, is an error."""
PYRIGHT = ROOT / "tests" / "node" / "node_modules" / "pyright" / "index.js"


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
        (folder / "outside").mkdir()
        pages = write_programs(folder / "outside")
        write_programs(folder / "site")
        return _mypy(folder / "outside", pages) or _pyright(folder / "site", pages) or _pyright(folder / "outside", [])


def write_programs(folder: Path) -> list[str]:
    """Write a user's module and the programs of the pages. Return the names of these programs."""
    (folder / "user.py").write_text(USER)
    names = list[str]()
    for page in PAGES:
        for code in python_of(page):
            names.append(f"page_{len(names)}")
            (folder / f"{names[-1]}.py").write_text(code)
    return names


def _mypy(folder: Path, pages: Sequence[str]) -> int:
    """Have mypy check the package that `make setup` installed, and the programs that import it from outside the clone.

    This is the one run of mypy, because each new place of the package costs a minute. Pyright reads both places.
    """
    options = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    modules = [word for module in ("user", *pages) for word in ("-m", module)]
    command = [sys.executable, "-m", "mypy", *options, "-p", "orchestrator", *modules]
    return subprocess.run(command, cwd=folder, check=False).returncode


def _pyright(site: Path, pages: Sequence[str]) -> int:
    """Have pyright check the programs of the pages, and a user's module of which it must refuse every marked line."""
    if not PYRIGHT.exists():
        raise SystemExit("pyright is not installed: run `make node-servers`")
    (site / "user.py").write_text(re.sub(r"  # type: ignore\[.*", "  # pyright: ignore", USER))
    rules = {"reportUnnecessaryTypeIgnoreComment": "error", "typeCheckingMode": "standard", "pythonVersion": "3.11"}
    config = {**rules, "include": [f"{name}.py" for name in ("user", *pages)]}
    (site / "pyrightconfig.json").write_text(json.dumps(config))
    command = ["node", str(PYRIGHT), "--project", str(site), "--pythonpath", sys.executable]
    return subprocess.run(command, cwd=site, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
