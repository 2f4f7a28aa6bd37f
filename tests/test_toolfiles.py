"""Files of tools: what they hold tells their form, and whose the tools are that name no server."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.files import read_tools
from orchestrator.errors import InvalidCatalogue

ADD = {"server": "notes", "name": "add"}
EDIT = {"server": "notes", "name": "edit"}
LINES = json.dumps(ADD) + "\n" + json.dumps(EDIT) + "\n"


def keys(path: Path, server: str | None = "") -> list[str]:
    return [tool.key for tool in read_tools(path, server)]


@pytest.mark.parametrize("name", ["tools.jsonl", "tools.json", "TOOLS.JSON", "tools.txt", "tools"])
@pytest.mark.parametrize(
    "text",
    [
        LINES,
        "\r\n" + LINES.replace("\n", "\r\n\r\n"),
        json.dumps([ADD, EDIT]),
        json.dumps([ADD, EDIT], indent=2),
        json.dumps({"tools": [ADD, EDIT]}),
        json.dumps({"name": "my server", "tools": [ADD, EDIT]}, indent=2),
    ],
)
def test_what_a_file_holds_tells_its_form_whatever_it_is_called(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert keys(tmp_path / name) == ["notes:add", "notes:edit"]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("more", [{}, {"tools": ["search", "edit"]}])
def test_one_tool_alone_is_a_catalogue_of_one(tmp_path: Path, indent: int | None, more: dict[str, Any]) -> None:
    (tmp_path / "one.json").write_text(json.dumps({**ADD, **more}, indent=indent))
    assert keys(tmp_path / "one.json") == ["notes:add"]


def test_a_path_that_cannot_even_be_looked_at_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidCatalogue, match=r"x: cannot be read \(File name too long\); give a UTF-8 file"):
        keys(tmp_path / ("x" * 300))


def test_a_list_comes_from_a_pipe_as_from_a_file(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, json.dumps([ADD]).encode())
    os.close(write)
    assert keys(Path(f"/dev/fd/{read}")) == ["notes:add"]
    os.close(read)


def test_a_folder_is_its_tools_json_else_all_its_files_whatever_the_case_of_their_ends(tmp_path: Path) -> None:
    (tmp_path / "one.JSONL").write_text(json.dumps(ADD))
    (tmp_path / "two.json").write_text(json.dumps([EDIT]))
    (tmp_path / "notes.md").write_text("no tools")
    assert keys(tmp_path) == ["notes:add", "notes:edit"]
    (tmp_path / "tools.json").write_text(json.dumps([{"name": "own"}]))
    assert keys(tmp_path) == [":own"]
    (tmp_path / "tools.jsonl").write_text(LINES)
    assert keys(tmp_path) == ["notes:add", "notes:edit"]


def test_two_tools_of_one_key_are_told_with_both_places(tmp_path: Path) -> None:
    other = {**ADD, "description": "else"}
    (tmp_path / "a.json").write_text(json.dumps([EDIT, ADD, other]))
    twice = r"a\.json: tool 3: the key 'notes:add' stands in .*a\.json: tool 2 already"
    with pytest.raises(InvalidCatalogue, match=twice):
        Catalogue.read(tmp_path / "a.json")
    (tmp_path / "a.json").write_text(json.dumps([EDIT, ADD]))
    (tmp_path / "b.jsonl").write_text("\n" + json.dumps(other) + "\n" + json.dumps(EDIT))
    with pytest.raises(InvalidCatalogue, match=r"b\.jsonl:2: the key 'notes:add' stands in .*a\.json: tool 2 already"):
        Catalogue.read(tmp_path)


def test_tools_that_name_no_server_have_none_or_one_given_or_one_called_as_their_file(tmp_path: Path) -> None:
    (tmp_path / "mail.json").write_text(json.dumps([{"name": "send"}, {"server": "", "name": "read"}, ADD]))
    (tmp_path / "files.jsonl").write_text(json.dumps({"name": "send"}))
    assert keys(tmp_path / "mail.json") == [":send", ":read", "notes:add"]
    assert keys(tmp_path / "mail.json", "post") == ["post:send", "post:read", "notes:add"]
    assert sorted(keys(tmp_path, None)) == ["files:send", "mail:read", "mail:send", "notes:add"]
    with pytest.raises(InvalidCatalogue, match="server 'a:b' holds a colon"):
        keys(tmp_path, "a:b")


def test_what_comes_from_a_pipe_has_no_file_to_be_called_as() -> None:
    read, write = os.pipe()
    os.write(write, b'{"name": "send"}')
    os.close(write)
    with pytest.raises(
        InvalidCatalogue, match="names no server, and there is no file to call one after: give --server"
    ):
        keys(Path(f"/dev/fd/{read}"), None)
    os.close(read)
