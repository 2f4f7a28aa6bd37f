"""The reference names each command, option, JSON field, public name, durable name, metric and key of an entry."""

import inspect
import re
from dataclasses import fields
from typing import Any

import click
import pytest

import orchestrator
from docs import api_page
from orchestrator import telemetry
from orchestrator.cli import cli
from orchestrator.mcp.config.parse import _FIELD_OF
from orchestrator.records import durable_names
from tests.pages import ROOT

PAGES = {page.name: page.read_text(encoding="utf-8") for page in (ROOT / "docs/reference").glob("*.md")}
PRINTED = (
    "Decision Match Rejected Related Edge Gives Tokens CatalogueVersion About Entity Usage Choice Plan Step RunResult "
    "StepOutcome BudgetReport ToolResult Progress StepProgress"
)
NOT_PRINTED = {"named_servers", "leans"}


def commands(group: click.Group, path: str = "") -> dict[str, click.Command]:
    """Return all commands without subcommands, by their words."""
    found: dict[str, Any] = {}
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        words = f"{path} {name}".strip()
        found |= commands(command, words) if isinstance(command, click.Group) else {words: command}
    return found


@pytest.mark.parametrize("words", sorted(commands(cli)))
def test_the_page_of_commands_names_the_command_and_its_options(words: str) -> None:
    text = PAGES["commands.md"]
    given = {name for one in commands(cli)[words].params if isinstance(one, click.Option) for name in one.opts}
    assert f"`{words}`" in text
    assert [name for name in sorted(given) if not re.search(rf"`{name}[` ]", text)] == []


@pytest.mark.parametrize("record", PRINTED.split())
def test_the_page_of_json_names_the_fields(record: str) -> None:
    names = {own.name for own in fields(getattr(orchestrator, record))} - NOT_PRINTED
    assert [name for name in sorted(names) if not re.search(rf"[`\"]{name}[`\"]", PAGES["json.md"])] == []


def test_the_page_of_python_names_every_public_name() -> None:
    headings = re.findall(r"^### (\w+)$", PAGES["api.md"], re.MULTILINE)
    assert set(orchestrator.__all__) - set(headings) == set()


def test_the_pages_import_public_names_from_the_short_entrance() -> None:
    deep = re.compile(r"^from orchestrator\.(?!errors|integrations|testing)[\w.]+ import .+", re.MULTILINE)
    imports = {page.name: deep.findall(page.read_text("utf-8")) for page in ROOT.glob("docs/**/*.md")}
    assert {page: lines for page, lines in imports.items() if lines} == {}


def test_the_page_of_python_is_what_the_docstrings_say() -> None:
    assert PAGES["api.md"] == api_page.page(), "run `make reference`"


def test_the_pages_name_every_durable_name_and_metric() -> None:
    durable = {name for key, name in vars(durable_names).items() if key.isupper() and "." in name}
    assert {name for name in durable if f"`{name}`" not in PAGES["temporal.md"]} == set()
    assert {name for name in telemetry._METRICS if f"`{name}`" not in PAGES["telemetry.md"]} == set()


def test_the_pages_name_every_key_of_an_entry_and_every_argument_of_connections() -> None:
    keys = {key for key in _FIELD_OF if not re.search(rf"`{key}[`:]", PAGES["mcp-file.md"])}
    arguments = inspect.signature(orchestrator.Connections).parameters
    assert keys == set()
    assert {name for name in arguments if f"`{name}`" not in PAGES["mcp-behaviour.md"]} == set()
