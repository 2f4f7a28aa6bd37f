"""What is shipped: one import name, a short door, imports in one direction, and no engine behind the workflow door."""

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import orchestrator
from tests.check_types import build_wheel

ROOT = Path(__file__).parents[1]
ENGINES = {"numpy", "qdrant_client", "openai", "mcp", "rank_bm25", "tokenizers", "safetensors", "Stemmer", "rich"}


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    with zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("wheel"))) as wheel:
        return wheel.namelist()


def test_the_wheel_ships_one_import_name(wheel_names: list[str]) -> None:
    tops = {name.partition("/")[0] for name in wheel_names if ".dist-info/" not in name}
    assert tops == {"orchestrator"}


def test_the_wheel_holds_the_model_and_the_fitted_maps(wheel_names: list[str]) -> None:
    wanted = {"calibration.json", "embedder/config.json", "embedder/tokenizer.json", "embedder/model.safetensors"}
    assert {f"orchestrator/data/{name}" for name in wanted} <= set(wheel_names)
    assert "orchestrator/py.typed" in wheel_names
    assert "orchestrator/activities/routing.py" in wheel_names


def test_the_public_names_are_these() -> None:
    assert orchestrator.__all__ == [
        "Catalogue",
        "Connections",
        "Decision",
        "Options",
        "OrchestratorPlugin",
        "RouteRequest",
        "Router",
        "Tool",
        "ToolRouter",
        "ToolrouteError",
        "Turn",
    ]
    for name in orchestrator.__all__:
        assert getattr(orchestrator, name).__name__ == name


@pytest.mark.parametrize("door", ["orchestrator", "orchestrator.workflow", "orchestrator.workflows.execution"])
def test_the_workflow_door_loads_no_engine(door: str) -> None:
    code = f"import sys, {door}; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not ENGINES & {name.partition(".")[0] for name in loaded}


RANKS = (
    {"errors", "names", "models", "exports", "decision", "plans", "budget", "durable", "running"},
    {"options", "text", "tokens", "everyday", "spelling", "wording", "catalogue", "embed"},
    {"stages", "features", "confidence", "index", "search", "explain", "outcome", "store", "indexes"},
    {"router", "planner"},
)
"""Each may import from its own rank and from those before it."""


def test_routing_imports_go_one_way() -> None:
    rank_of = {module: rank for rank, modules in enumerate(RANKS) for module in modules}
    for path in (ROOT / "orchestrator").rglob("*.py"):
        own = path.relative_to(ROOT / "orchestrator").parts[0].removesuffix(".py")
        for imported in _imports(path):
            if own in rank_of and imported != own:
                assert imported in rank_of, f"{path.name} imports orchestrator.{imported}"
                assert rank_of[imported] <= rank_of[own], f"{path.name} imports orchestrator.{imported}"


def test_stages_never_import_each_other() -> None:
    for path in (ROOT / "orchestrator" / "stages").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "orchestrator.stages" not in text or path.name == "__init__.py", path.name


def _imports(path: Path) -> set[str]:
    """The modules of orchestrator that a file imports at its top."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("orchestrator"):
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
    return found
