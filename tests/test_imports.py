"""Imports go one way, no two files import each other in a circle, and the deterministic side loads no engine."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.imported import loaded

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "orchestrator": "orchestrator",
    "activities": "orchestrator.activities",
    "workflows": "orchestrator.workflows",
}
LAYERS = (
    "errors extras records common",
    "options",
    "telemetry",
    "catalogue",
    "index",
    "experience",
    "store",
    "trust",
    "client_setup mcp",
    "pipeline",
    "runtime",
    "planning",
    "llm",
    "temporal activities workflows",
    "server",
    "evaluate",
    "testing",
    "integrations",
    "ui",
    "cli __main__",
)
"""Each package imports from its own line and from those above it, also within functions."""
WHEN_CALLED = {
    ("orchestrator.records.decision", "orchestrator.catalogue.export"),
    ("orchestrator.records.decision", "orchestrator.catalogue.resolve"),
    ("orchestrator.records.delta", "orchestrator.catalogue.export"),
    ("orchestrator.records.delta", "orchestrator.catalogue.resolve"),
    ("orchestrator.runtime.engine", "orchestrator.llm.client"),
}
"""A Decision's and a Delta's own methods give their tools in a provider's shape; a Router opens the models that its
options name."""
ENGINES = {"numpy", "qdrant_client", "openai", "mcp", "rank_bm25", "jsonschema", "httpx2"}


def imports() -> Iterator[tuple[str, str]]:
    """Yield each module of ours with one that it imports: as it loads, within a function, or for type checkers only."""
    files = {
        ".".join([name, *path.relative_to(ROOT / folder).with_suffix("").parts]).removesuffix(".__init__"): path
        for folder, name in FOLDERS.items()
        for path in (ROOT / folder).rglob("*.py")
    }
    for module, path in files.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "orchestrator":
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    yield module, whole if whole in files else str(node.module)


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_imports_go_one_way() -> None:
    layer_of = {package: number for number, line in enumerate(LAYERS) for package in line.split()}
    found = {pair for pair in imports() if all(map(package_of, pair))}
    assert {package_of(name) for pair in found for name in pair} == layer_of.keys()
    wrong = {pair for pair in found if layer_of[package_of(pair[0])] < layer_of[package_of(pair[1])]}
    assert wrong == WHEN_CALLED


def test_workflows_import_no_package_with_input_or_output() -> None:
    used = {package_of(name) for module, name in imports() if module.startswith("orchestrator.temporal.workflow.")}
    assert used - {"temporal"} == {"records", "errors", "common", "catalogue", "planning", "trust"}


def test_no_files_import_each_other_in_a_circle() -> None:
    before: dict[str, set[str]] = {}
    for module, imported in imports():
        before.setdefault(module, set()).add(imported)
    TopologicalSorter(before).prepare()


PLUGIN = "from orchestrator import OrchestratorPlugin as P; P(catalogue='tools.jsonl', mcp_servers={'mcpServers': {}})"


@pytest.mark.parametrize(
    ("code", "needed"),
    [
        ("import orchestrator, orchestrator.temporal.workflow.tool_router, orchestrator.workflows.execution", set()),
        (PLUGIN, {"numpy", "httpx2", "jsonschema"}),
    ],
)
def test_workflows_and_plugins_load_no_engine(code: str, needed: set[str]) -> None:
    assert not (ENGINES - needed) & loaded(code)


def test_a_text_of_the_environment_is_read_without_pydantic() -> None:
    setting = "import os; os.environ.clear(); os.environ['TOOLROUTE_STORE'] = 's'"
    assert "pydantic" not in loaded(f"{setting}; from orchestrator import Options; Options.from_env()")
