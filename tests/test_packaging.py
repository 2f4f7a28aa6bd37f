"""The shipped package: one import name and a short public interface."""

import ast
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import fields, is_dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import orchestrator
from orchestrator.extras import PACKAGES, install_command
from tests.check_types import build_wheel

ROOT = Path(__file__).parents[1]
PUBLIC = """
About Action Annotations AnswerInvalid Appended Approval Approve BudgetReport Busy Calibration Capability Catalogue
CatalogueChanged CatalogueVersion Checkpoint Choice Claim CompleteRequest Completion Connections Context
DEFAULT_CAPABILITIES Decision Delta Edge Embedder EmbedderUnavailable Entity Executor Filled Fit Fusion Gate Gives
HttpExecutor InvalidArguments InvalidCatalogue InvalidConfig InvalidInput Kind Limits Match McpConfig MissingExtra
ModelFailed ModelRefused ModelUnavailable Models NamedServer Near NoCredit Offer OpenApiExecutor Options
OrchestratorPlugin Outcome OutcomeUnknown PayloadTooLarge Pipeline PipelineStage Plan PlanRequest Progress Provider
Purpose Registered Rejected Related Relation ResolvedCall ResultPage RouteHint RouteRequest Router RunRequest
RunResult Select ServerConfig ServerUnavailable Source Stage State Step StepOutcome StepProgress StepStatus
StepsFailed Store StoreBusy StoreUnavailable Task Tokens Tool ToolCall ToolChanged ToolFailed ToolResult ToolRouter
ToolrouteError ToolrouteService Turn Unauthorised Unavailable UnknownSetting UnknownTenant UnknownTool Usage Use
Vectors
build_context choose_action decision_context external_storage failed_result make_plan preset schedule_sync
"""


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
    assert dir(orchestrator) == orchestrator.__all__ == PUBLIC.split()
    assert orchestrator.__version__ == version("toolroute")
    errors = {name for name, own in vars(orchestrator.errors).items() if isinstance(own, type)} - {"Usage"}
    assert errors <= set(orchestrator.__all__)


def test_the_types_of_public_fields_are_public() -> None:
    public = [getattr(orchestrator, name) for name in orchestrator.__all__]
    inside = {
        (record.__name__, kind)
        for record in public
        if is_dataclass(record) and record.__module__.startswith("orchestrator.records")
        for own in fields(record)
        for kind in _classes(get_type_hints(record)[own.name])
    }
    assert {(name, kind) for name, kind in inside if kind not in public} == set()


def _classes(hint: Any) -> set[type]:
    """The classes of this package in a type."""
    inside = set().union(*map(_classes, get_args(hint))) if get_args(hint) else set()
    return inside | ({hint} if getattr(hint, "__module__", "").startswith("orchestrator") else set())


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


@pytest.mark.slow
def test_the_sdist_has_the_changelog_and_no_tests(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(command, capture_output=True, check=True, timeout=120)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert "CHANGELOG.md" in names
    assert not [name for name in names if name.startswith("tests")]


def test_errors_name_the_packages_of_each_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {name: tuple(packages) for name, packages in project["optional-dependencies"].items()} == PACKAGES
    assert install_command("s3") == "pip install 'aioboto3>=13' 'types-aioboto3[s3]>=13'"
