"""The examples work unchanged: both servers, the server configuration, the catalogue and the tasks."""

import asyncio
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.types import CallToolResult, TextContent

from examples.servers import files_server, notes_server
from orchestrator import Connections, Router

EXAMPLES = Path(__file__).parents[1] / "examples"
CATALOGUE = [json.loads(line) for line in (EXAMPLES / "tools.jsonl").read_text("utf-8").splitlines()]


def files_client(root: Path) -> Client:
    return Client(files_server.build_server(root))


def notes_client(file: Path) -> Client:
    return Client(notes_server.build_server(file))


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def text(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


async def answer(client: Client, tool: str, **arguments: Any) -> str:
    """Return the text of a call that succeeds."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text(result)
    return text(result)


async def data(client: Client, tool: str, **arguments: Any) -> Any:
    """Return the structured content of a call that succeeds."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text(result)
    return result.structured_content


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    """Return the message of a call that is refused."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, text(result)
    return text(result)


async def test_files_and_notes_do_what_their_tools_say(tmp_path: Path) -> None:
    file = tmp_path / "new" / "notes.sqlite"
    async with files_client(tmp_path) as client:
        await answer(client, "write_file", path="letters/ada.txt", text="Dear Ada,\nthe engine runs.\n")
        await answer(client, "replace_text", path="letters/ada.txt", old="engine runs", new="engine stands")
        await answer(client, "move_path", path="letters/ada.txt", destination="sent/ada.txt")
        first = await answer(client, "read_file", path="sent/ada.txt", max_lines=1)
        assert first == "Dear Ada,\n[1 more lines; continue with start_line=2]"
        assert await answer(client, "search_text", text="STANDS") == "sent/ada.txt:2: the engine stands."
        assert "there is no 'nope.txt'" in await refusal(client, "read_file", path="nope.txt")
        assert "set recursive" in await refusal(client, "delete_path", path="sent")
    async with notes_client(file) as client:
        idea = await data(client, "add_note", title="Garden", body="Plant TULIPS", tags=["Home"], due="2020-02-29")
        assert (idea["id"], idea["tags"]) == (1, ["home"])
        assert [note["title"] for note in (await data(client, "list_due"))["notes"]] == ["Garden"]
        await data(client, "mark_done", note_id=1)
    async with notes_client(file) as one, notes_client(file) as two:
        assert (await data(one, "list_due"))["total"] == 0
        assert [note["id"] for note in (await data(one, "search_notes", text="tulip"))["notes"]] == [1]
        await asyncio.gather(*(data(c, "append_to_note", note_id=1, text="more") for c in (one, two) for _ in range(5)))
        assert (await data(two, "read_note", note_id=1))["body"].count("more") == 10


@pytest.mark.parametrize("path", ["../outside/secret.txt", "link", "folder/secret.txt", "x/../../outside/secret.txt"])
async def test_a_path_outside_the_root_is_refused_by_every_file_tool(tmp_path: Path, path: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    secret = outside / "secret.txt"
    secret.write_text("secret")
    (root / "link").symlink_to(secret)
    (root / "folder").symlink_to(outside)
    (root / "own.txt").write_text("own")
    calls: dict[str, dict[str, str]] = {"read_file": {}, "delete_path": {}, "write_file": {"text": "gone"}}
    async with files_client(root) as client:
        for named in (path, str(secret)):
            for tool, more in calls.items():
                assert "outside the root" in await refusal(client, tool, path=named, **more)
            assert "outside the root" in await refusal(client, "diff_files", path="own.txt", other=named)
        assert "outside the root" in await refusal(client, "copy_path", path="own.txt", destination="../copy.txt")
        assert "outside the root" in await refusal(client, "search_text", text="secret", folder="..")
        assert await answer(client, "search_text", text="secret") == "'secret' was not found"
    assert secret.read_text() == "secret"
    assert entries(tmp_path) == ["outside", "root"]


async def test_every_configured_server_starts_from_the_root_of_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)  # No .venv is there: the servers run in the Python that toolroute runs in.
    async with Connections(tmp_path / "examples" / "mcp.json") as servers:
        assert set(servers.config.servers) == {"files", "notes", "time"}
        assert all(await asyncio.gather(*map(servers.tools, servers.config.servers)))
    assert (tmp_path / ".toolroute" / "notes.sqlite").is_file()


def test_the_catalogue_holds_enough_tools_of_every_other_kind_each_complete_and_with_a_key_of_its_own() -> None:
    assert 170 <= len(CATALOGUE) <= 200
    kinds = Counter(tool["kind"] for tool in CATALOGUE)
    assert set(kinds) == {"agent", "integration", "workflow", "builtin"}
    assert min(kinds["agent"], kinds["workflow"]) >= 15
    assert {tool["name"] for tool in CATALOGUE if tool["kind"] == "builtin"} == {
        *("workspace_rag_query", "web_search", "ask_user", "memory_recall")
    }
    assert {tool["labels"]["maturity"] for tool in CATALOGUE} == {"stable", "emerging", "deprecated"}
    assert len({(tool["server"], tool["name"]) for tool in CATALOGUE}) == len(CATALOGUE)
    assert len({tool["description"] for tool in CATALOGUE}) == len(CATALOGUE)
    fields = {"server", "name", "description", "input_schema", "kind", "keywords", "labels", "annotations"}
    for tool in CATALOGUE:
        at, schema = f"{tool['server']}:{tool['name']}", tool["input_schema"]
        assert set(tool) == fields, at
        assert tool["keywords"], at
        assert set(tool["labels"]) == {"maturity", "domain", "usage"}, at
        assert set(tool["annotations"]) == {"readOnlyHint", "destructiveHint", "idempotentHint"}, at
        Draft202012Validator.check_schema(schema)
        assert set(schema.get("required", [])) <= set(schema["properties"]), at
        assert all(parameter["description"] for parameter in schema["properties"].values()), at


SETTLED = {
    "search my documents for the travel policy": ("always", "builtin:workspace_rag_query"),
    "use jira to create a bug for the broken login page": ("explicit", "jira:create_issue"),
    "refund charge ch_3PqX, the customer paid twice": ("keyword", "stripe:refund_charge"),
    "a fresh hire joins our staff on Monday": ("semantic", "workflows:onboard_employee"),
    "the boardroom is ice cold, warm it up": ("semantic", "facilities:set_room_climate"),
    "which customers are late with their bills": ("semantic", "quickbooks:list_overdue_invoices"),
    "book an appointment for the patient Mrs Lee": ("keyword", "ehr:book_appointment"),
    "sing me a song about the sea": ("none", ""),
}
"""The tasks whose tools the sample catalogue has, with the stage and the tool that the demo says."""


async def test_the_tasks_settle_as_the_demo_says() -> None:
    tasks = json.loads((EXAMPLES / "tasks.json").read_text("utf-8"))
    assert len({task["task"] for task in tasks}) == len(tasks) == 11
    assert all(set(task) == {"task", "shows"} for task in tasks)
    assert SETTLED.keys() < {task["task"] for task in tasks}
    async with Router(EXAMPLES / "tools.jsonl") as router:
        decisions = [await router.route(task) for task in SETTLED]
    found = {decision.query: (decision.stage, "".join(decision.recommended[:1])) for decision in decisions}
    assert found == SETTLED
