"""What is shipped: one import name, a short door, imports that go one way, stages that do not know each other."""

import ast
import re
import zipfile
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import orchestrator
import orchestrator.language
from tests.check_types import build_wheel

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    with zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("wheel"))) as wheel:
        return wheel.namelist()


def test_the_wheel_ships_one_import_name(wheel_names: list[str]) -> None:
    tops = {name.partition("/")[0] for name in wheel_names if ".dist-info/" not in name}
    assert tops == {"orchestrator"}


def test_the_wheel_holds_the_model_and_the_fitted_maps(wheel_names: list[str]) -> None:
    wanted = {
        "calibration.json",
        "coverage.json",
        "embedder/config.json",
        "embedder/tokenizer.json",
        "embedder/model.safetensors",
    }
    assert {f"orchestrator/data/{name}" for name in wanted} <= set(wheel_names)
    assert {"orchestrator/py.typed", "orchestrator/__init__.pyi"} <= set(wheel_names)
    assert "orchestrator/activities/routing.py" in wheel_names


def test_the_public_names_are_these() -> None:
    assert orchestrator.__all__ == [
        "Catalogue",
        "Connections",
        "Decision",
        "Limits",
        "Options",
        "OrchestratorPlugin",
        "RouteRequest",
        "Router",
        "RunRequest",
        "RunResult",
        "Tool",
        "ToolRouter",
        "ToolrouteError",
        "Turn",
    ]
    for name in orchestrator.__all__:
        assert getattr(orchestrator, name).__name__ == name


def test_people_and_type_checkers_see_the_public_names() -> None:
    assert dir(orchestrator) == orchestrator.__all__
    stub = ast.parse(Path(orchestrator.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    homes = {
        alias.asname: getattr(import_module(str(node.module)), alias.name) for node in imports for alias in node.names
    }
    assert homes == {name: getattr(orchestrator, name) for name in orchestrator.__all__}


LAYERS = {
    "records": "bounded digests errors forms reading definitions toolfiles names tenants models route_requests "
    "completions schemas exports decision limits plans calls run_records payloads held budget",
    "workflow side": "runs workflow workflows",
    "words and settings": "options credentials scrub endpoints variants text language safety tokens catalogue embed "
    "sparse",
    "stages and services": "stages features confidence coverage retrieval fit answer context store storage mcp "
    "connections sync planning planner structured replies llm deciding completing threads executors devserver",
    "router": "router measuring",
    "faces": "activities resources plugin serve scripted testing",
    "command line": "cli __main__",
}
"""Each may import from its own layer and from those before it, except that only faces see the workflow side."""


def test_imports_go_one_way() -> None:
    layer_of = {unit: layer for layer, units in enumerate(LAYERS.values()) for unit in units.split()}
    for path, own, imported in _imports_of_units():
        where = f"{path.relative_to(ROOT)} imports orchestrator.{imported}"
        assert {own, imported} <= layer_of.keys(), f"{where}: name it in LAYERS"
        assert layer_of[imported] <= layer_of[own], where
        assert layer_of[imported] != 1 or layer_of[own] in (1, 5, 6), where


def test_no_files_or_folders_import_each_other_in_a_circle() -> None:
    before: dict[str, set[str]] = {}
    for _, own, imported in _imports_of_units():
        before.setdefault(own, set()).add(imported)
    TopologicalSorter(before).prepare()


def test_the_map_of_the_code_names_every_file_and_folder() -> None:
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    for path in (ROOT / "orchestrator").glob("[!_]*"):
        assert f"`{path.name}{'/' if path.is_dir() else '`'}" in text or path.name == "py.typed", path.name


def test_the_map_of_the_language_names_every_module() -> None:
    named = re.findall(r"(?m)^    (\w+)", orchestrator.language.__doc__ or "")
    assert sorted(named) == sorted(path.stem for path in (ROOT / "orchestrator" / "language").glob("[!_]*.py"))


@pytest.mark.parametrize("folder", ["benchmarks", "examples", "research"])
def test_scripts_import_what_the_package_has(folder: str) -> None:
    """Some run once in months, and no checker of types reads them."""
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("orchestrator"):
                exec(compile(ast.Module([node], type_ignores=[]), path, "exec"), {})


def test_stages_never_import_each_other() -> None:
    for path in (ROOT / "orchestrator" / "stages").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "orchestrator.stages" not in text or path.name == "__init__.py", path.name


def _imports_of_units() -> Iterator[tuple[Path, str, str]]:
    """Each file, the unit that it is of (a module of orchestrator or a folder), and another one that it imports."""
    folders = {"activities": ROOT / "activities", "workflows": ROOT / "workflows", "": ROOT / "orchestrator"}
    for name, folder in folders.items():
        for path in folder.rglob("*.py"):
            own = name or path.relative_to(folder).parts[0].removesuffix(".py")
            for imported in _imports(path) - {own, "__init__"} if own != "__init__" else ():
                yield path, own, imported


def _imports(path: Path) -> set[str]:
    """The modules of orchestrator that a file imports at its top."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("orchestrator"):
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
    return found
