"""What is shipped: one import name and a short door."""

import ast
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

import orchestrator
from tests.check_types import build_wheel

ROOT = Path(__file__).parents[1]


def test_the_wheel_holds_every_module_and_the_shipped_data_under_one_name(tmp_path: Path) -> None:
    with zipfile.ZipFile(build_wheel(tmp_path)) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    folders = {"orchestrator": "", "activities": "orchestrator/", "workflows": "orchestrator/"}
    ours = {
        path: f"{under}{path.relative_to(ROOT)}" for top, under in folders.items() for path in (ROOT / top).rglob("*")
    }
    kept = {name for path, name in ours.items() if path.is_file() and "__pycache__" not in path.parts}
    assert names == kept


def test_the_public_names_are_these() -> None:
    names = (
        "Catalogue Connections Decision Limits Options OrchestratorPlugin RouteRequest Router RunRequest RunResult "
        "Source Tool ToolRouter ToolrouteError Turn"
    )
    assert dir(orchestrator) == orchestrator.__all__ == names.split()
    for name in orchestrator.__all__:
        assert getattr(orchestrator, name).__name__ == name


def test_type_checkers_see_the_public_names_at_their_homes() -> None:
    tree = ast.parse(Path(orchestrator.__file__).read_text(encoding="utf-8"))
    nodes = [
        node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and "orchestrator." in str(node.module)
    ]
    homes = {
        alias.asname: getattr(import_module(str(node.module)), alias.name) for node in nodes for alias in node.names
    }
    assert homes == {name: getattr(orchestrator, name) for name in orchestrator.__all__}


@pytest.mark.parametrize("folder", ["benchmarks", "examples", "research"])
def test_scripts_import_what_the_package_has(folder: str) -> None:
    """Some run once in months, and no checker of types reads them."""
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("orchestrator"):
                exec(compile(ast.Module([node], type_ignores=[]), path, "exec"), {})
