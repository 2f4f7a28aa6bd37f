"""The pages are true: commands with their options, JSON, and Python that a test runs."""

import json
import re
import shlex
from contextlib import suppress
from pathlib import Path

import click
import pytest

from orchestrator.cli import cli
from orchestrator.client_setup.client_file import ClientFile
from orchestrator.client_setup.products import CLIENTS
from tests.pages import ROOT, printed, python_of
from tests.test_docs_links import PAGES

CURRENT = [page for page in PAGES if page.name != "CHANGELOG.md"]
"""A changelog names commands that are gone, too."""
ROUTED = 'import asyncio\nfrom orchestrator import Router\nrouter = Router("examples/tools.jsonl")\n'


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: page.name)
def test_every_command_of_a_page_is_there_with_its_options(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    blocks = "".join(re.findall(r"```.*?```", text, re.DOTALL))
    shown = re.findall(r"^(?:\$ )?(?:\.venv/bin/)?toolroute (.*)", blocks, re.MULTILINE)
    for line in [*shown, *re.findall(r"`toolroute ([^`]+)`", prose)]:
        _parse(shlex.split(re.sub(r"\s[|>].*", "", line), comments=True))


def _parse(words: list[str]) -> None:
    """Parse the words like the command line. An unknown word fails, and a missing one does not."""
    command: click.Command = cli
    while words and not words[0].isupper():
        context = click.Context(command)
        with suppress(click.BadOptionUsage):
            _, words, _ = command.make_parser(context).parse_args(words)
        if not isinstance(command, click.Group) or not words:
            return
        for name in words[0].split("|"):
            found = command.get_command(context, name)
            assert found, f"there is no command {name!r}"
        command, words = found, words[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_json_of_a_page_is_json(page: Path) -> None:
    for block in re.findall(r"```json\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        try:
            json.loads(block)
        except ValueError:
            assert [json.loads(line) for line in block.splitlines()]


def test_every_page_with_python_is_run_by_a_test() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("tests/test_*.py"))
    pages = [page.relative_to(ROOT).as_posix() for page in PAGES if "```python\n" in page.read_text(encoding="utf-8")]
    made_from_docstrings = "docs/reference/api.md"  # tests/test_docstrings.py runs its examples.
    pages.remove(made_from_docstrings)
    assert [page for page in pages if f'python_of("{page}")' not in tests] == []


@pytest.mark.parametrize(
    ("code", "last", "shown"),
    [
        (python_of("docs/how-to/conversation.md")[0], "print(again.recommended)", "('github:list_pull_requests',)\n"),
        (python_of("docs/how-to/append-tools.md")[0], 'print(len((await offer("refund a charge"))[1]))', "1\n"),
        (python_of("docs/how-to/learning.md")[0], "print(decision.query)", "friday thing for the board\n"),
    ],
)
def test_what_a_page_does_with_a_router_runs(code: str, last: str, shown: str, tmp_path: Path) -> None:
    body = "".join(f"    {line}\n" for line in f"{code}\n{last}".splitlines())
    assert printed(f"{ROUTED}async def main():\n{body}asyncio.run(main())", tmp_path) == shown


def test_the_agent_of_the_page_can_be_made(tmp_path: Path) -> None:
    [code] = python_of("docs/how-to/integrations.md")
    assert printed(f"{code}\nprint(assistant.__name__)", tmp_path) == "assistant\n"


def test_a_server_of_the_page_is_called(tmp_path: Path) -> None:
    [code] = python_of("docs/how-to/connections.md")
    head, body = code.replace("mcp.json", "examples/mcp.json").split("\n\n")
    block = "".join(f"    {line}\n" for line in body.splitlines())
    assert '"timezone": "UTC"' in printed(
        f"import asyncio\n{head}\nasync def main():\n{block}asyncio.run(main())", tmp_path
    )


@pytest.mark.parametrize(
    ("heading", "client"),
    [
        ("Claude Desktop, Cursor and most other clients", "cursor"),
        ("VS Code", "vscode"),
        ("Codex", "codex"),
        ("Zed", "zed"),
        ("opencode", "opencode"),
        ("Goose", "goose"),
    ],
)
def test_an_entry_of_the_page_is_read_as_the_clients_own(heading: str, client: str, tmp_path: Path) -> None:
    part = (ROOT / "docs/how-to/clients-by-hand.md").read_text(encoding="utf-8").split(f"## {heading}\n")[1]
    [kind] = [each for each in CLIENTS if each.name == client]
    path = tmp_path / "settings"
    path.write_text(part.split("```")[1].partition("\n")[2], encoding="utf-8")
    assert "serve" in str(ClientFile.read(kind, path).entries["toolroute"])
