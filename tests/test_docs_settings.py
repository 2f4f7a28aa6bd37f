"""The page of settings names every setting. Its Python runs, and so does the Python of the page of catalogue files."""

import json
import re
from dataclasses import fields
from pathlib import Path

from orchestrator import Catalogue, Kind, Options
from orchestrator.options import _VARIABLES
from tests.pages import ROOT, printed, python_of


def test_the_page_names_every_variable_and_field() -> None:
    text = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    named = {*_VARIABLES.values(), "QDRANT_API_KEY", "OPENAI_API_KEY"}
    assert all(f"`{name}`" in text for name in named | {setting.name for setting in fields(Options)})


def test_the_python_of_both_pages_runs(tmp_path: Path) -> None:
    [settings], [catalogue] = python_of("docs/reference/settings.md"), python_of("docs/reference/catalogue.md")
    assert printed(f"{settings}\nprint(router.options.gate)", tmp_path) == "0.8\n"
    route = 'import asyncio\nprint(asyncio.run(router.route("review my code")).recommended)'
    assert printed(f"{catalogue}\n{route}", tmp_path) == "('agents:code_review_agent',)\n"


def test_the_example_tool_is_read() -> None:
    example, *_ = re.findall(
        r"```json\n(.*?)```", (ROOT / "docs/reference/catalogue.md").read_text(encoding="utf-8"), re.DOTALL
    )
    [tool] = Catalogue([json.loads(example)])
    assert (tool.key, tool.kind, tool.annotations.destructive) == ("stripe:refund_charge", Kind.INTEGRATION, True)
