"""Reading catalogues: the accepted forms, and errors that name the place."""

import json
import os
import random
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from orchestrator import Annotations, Catalogue, Kind, Provider, Tool
from orchestrator.catalogue.formats import tool_to_json
from orchestrator.errors import InvalidCatalogue, InvalidInput, UnknownTool
from tests.catalogues import sample, tool
from tests.decisions import export

ADD = {"server": "notes", "name": "add"}
EDIT = {"server": "notes", "name": "edit"}
LINES = json.dumps(ADD) + "\n" + json.dumps(EDIT) + "\n"


def tool_from(record: Any) -> Tool:
    [found] = Catalogue([record])
    return found


def written(folder: Path, *lines: object, name: str = "tools.jsonl") -> Path:
    file = folder / name
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    file.write_text("\n".join(texts), encoding="utf-8")
    return file


def keys(path: Path, server: str | None = "") -> list[str]:
    return [tool.key for tool in Catalogue.read(path, server)]


def test_a_catalogue_is_ordered_and_its_fingerprint_depends_on_no_order_and_on_every_definition() -> None:
    tools = list(sample())
    shuffled = random.Random(1).sample(tools, len(tools))
    assert Catalogue(shuffled).tools == tuple(tools)
    assert Catalogue(shuffled).fingerprint == sample().fingerprint
    assert [tool.key for tool in tools] == [f"{s}:{n}" for s, n in sorted((t.server, t.name) for t in tools)]
    one = tool("a:b", "one")
    others = [one, tool("a:b", "two"), tool("a:c", "one"), tool("a:b", "one", annotations=Annotations(read_only=True))]
    assert len({Catalogue([each]).fingerprint for each in others}) == len(others)


def test_records_in_memory_are_a_catalogue_as_those_of_a_file_are(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"type": "function", "function": {"name": "send", "parameters": {"type": "object"}}},
        {"server": "mail", "name": "read", "inputSchema": {"type": "object"}},
        ADD,
    ]
    found = Catalogue([*records, tool("mail:drop")])
    assert [own.key for own in found] == ["send", "mail:drop", "mail:read", "notes:add"]
    assert Catalogue(records).fingerprint == Catalogue.read(written(tmp_path, *records)).fingerprint


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({"nam": "read"}, "unknown field 'nam': did you mean 'name'?"),
        ({"name": "a", "descripton": "x"}, "unknown field 'descripton': did you mean 'description'?"),
        ({"name": "a", "input-schema": {}}, "unknown field 'input-schema': did you mean 'inputSchema'?"),
        ({"server": "a"}, "name: missing"),
        (None, "the record is not a JSON object: None"),
    ],
)
def test_an_item_that_is_no_tool_is_named(item: Any, reason: str) -> None:
    with pytest.raises(InvalidCatalogue, match=f"^tool 2: {re.escape(reason)}"):
        Catalogue([tool("a:b"), item])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"description": None}, "description=None: give a text"),
        ({"name": 3}, "name=3: give a text"),
        ({"keywords": "mail"}, "keywords='mail': give a tuple of texts"),
        ({"annotations": {}}, "annotations={}: give Annotations"),
        ({"kind": "robot"}, "kind='robot': give one of mcp, agent, integration"),
    ],
)
def test_a_tool_with_a_field_of_another_type_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{re.escape(reason)}"):
        Tool(**{"server": "a", "name": "b", **given})


def test_fields_that_others_add_and_fields_of_null_are_left() -> None:
    others = ("outputSchema", "icons", "_meta", "type", "strict", "tags", "version", "execution", 5)
    assert tool_from({**ADD, "description": "said", "descripton": "x"}).description == "said"
    assert tool_from({"name": "a", **dict.fromkeys(others, "x")}) == tool(":a")
    assert tool_from({"name": "a", **dict.fromkeys(("server", "input_schema", "kind", "labels"))}) == tool(":a")


def test_a_tool_given_twice_is_one_and_two_of_one_key_are_refused_with_both_places(tmp_path: Path) -> None:
    other = {**ADD, "description": "else"}
    assert len(Catalogue.read(written(tmp_path, ADD, ADD, ""))) == 1
    with pytest.raises(InvalidCatalogue, match=r"tools\.jsonl:3: the key 'notes:add' is also at .*jsonl:1"):
        Catalogue.read(written(tmp_path, ADD, "", other))
    (tmp_path / "tools.jsonl").unlink()
    written(tmp_path, [EDIT, ADD], name="a.json")
    written(tmp_path, "", other, EDIT, name="b.jsonl")
    with pytest.raises(InvalidCatalogue, match=r"b\.jsonl:2: the key 'notes:add' is also at .*a\.json: tool 2"):
        Catalogue.read(tmp_path)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"name": "add"', "not JSON"),
        ("[" * 5_000, "not JSON"),
        ('{"name": "a", "input_schema": {"maximum": NaN}}', "NaN is not a JSON number"),
        ('{"name": "a", "description": "x", "description": "y"}', "'description' is twice in one object"),
        ('"add"', "the record is not a JSON object: 'add'"),
        ("{}", r"name: missing in \{\}"),
        ('{"name": ""}', "name: .*at least 1 character"),
        ('{"name": "a", "input_schema": []}', r"input_schema: .*but it is \[\]"),
        ('{"name": "a", "keywords": "refund"}', "keywords: Input should be a valid list, but it is 'refund'"),
        ('{"name": "a", "kind": "robot"}', "kind: .*'mcp', 'agent', 'integration', 'workflow', 'builtin' or 'skill'"),
        (
            '{"name": "a", "annotations": {"readonlyhint": true}}',
            "annotations: unknown hint 'readonlyhint': did you mean 'read_only_hint'",
        ),
        ('{"name": "a", "annotations": {"readOnlyHint": "yes"}}', "readOnlyHint: .*valid boolean, but it is 'yes'"),
        ('{"name": "a", "server": "x:y"}', "server 'x:y' contains a colon"),
        ('{"name": "a", "input_schema": ' + '{"a":' * 200 + "1" + "}" * 201, "nested deeper than 64 levels"),
    ],
)
def test_a_broken_line_is_named_with_its_file_its_number_and_the_reason(tmp_path: Path, line: str, reason: str) -> None:
    with pytest.raises(InvalidCatalogue, match=rf"tools\.jsonl:2: .*{reason}"):
        Catalogue.read(written(tmp_path, ADD, line, EDIT))


@pytest.mark.parametrize(
    ("content", "reason"), [({"tool": []}, "list of tools"), ([{"name": "a"}, {}], "tool 2: name"), ("{", "not JSON")]
)
def test_a_broken_json_file_is_named(tmp_path: Path, content: object, reason: str) -> None:
    with pytest.raises(InvalidCatalogue, match=rf"x\.json: .*{reason}"):
        Catalogue.read(written(tmp_path, content, name="x.json"))


def test_what_cannot_be_read_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(InvalidCatalogue, match=r"no tools\.jsonl and no other \.jsonl"):
        Catalogue.read(tmp_path)
    with pytest.raises(InvalidCatalogue, match=r"nowhere\.jsonl: there is no such file or folder; give a tools\.jsonl"):
        Catalogue.read(tmp_path / "nowhere.jsonl")
    with pytest.raises(InvalidCatalogue, match=r"x: cannot be read \(File name too long\); give a tools"):
        Catalogue.read(tmp_path / ("x" * 300))
    (tmp_path / "latin.jsonl").write_bytes(b'{"name": "caf\xe9"}')
    with pytest.raises(InvalidCatalogue, match=r"latin\.jsonl: cannot be read \(not UTF-8\); give a tools"):
        Catalogue.read(tmp_path / "latin.jsonl")


@pytest.mark.parametrize("name", ["tools.jsonl", "TOOLS.JSON", "tools"])
@pytest.mark.parametrize(
    "text",
    [
        LINES,
        "\r\n" + LINES.replace("\n", "\r\n\r\n"),
        json.dumps([ADD, EDIT]),
        json.dumps([ADD, EDIT], indent=2),
        json.dumps({"name": "my server", "tools": [ADD, EDIT]}, indent=2),
    ],
)
def test_what_a_file_holds_tells_its_form_whatever_it_is_called(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert keys(tmp_path / name) == ["notes:add", "notes:edit"]


@pytest.mark.parametrize("more", [{}, {"tools": ["search", "edit"]}])
def test_one_tool_alone_is_a_catalogue_of_one_and_an_empty_file_one_of_none(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    assert keys(written(tmp_path, json.dumps({**ADD, **more}, indent=2))) == ["notes:add"]
    assert Catalogue.read(written(tmp_path, "")).version.tools == 0


def test_a_folder_is_its_tools_jsonl_else_its_tools_json_else_all_its_files(tmp_path: Path) -> None:
    written(tmp_path, ADD, name="one.JSONL")
    written(tmp_path, [EDIT], name="two.json")
    written(tmp_path, "no tools", name="notes.md")
    assert keys(tmp_path) == ["notes:add", "notes:edit"]
    written(tmp_path, [{"name": "own"}], name="tools.json")
    assert keys(tmp_path) == ["own"]
    written(tmp_path, LINES)
    assert keys(tmp_path) == ["notes:add", "notes:edit"]


def test_tools_that_name_no_server_have_none_or_one_given_or_one_called_as_their_file(tmp_path: Path) -> None:
    mail = written(tmp_path, [{"name": "send"}, {"server": "", "name": "read"}, ADD], name="mail.json")
    written(tmp_path, {"name": "send"}, name="files.jsonl")
    assert keys(mail) == ["read", "send", "notes:add"]
    assert keys(mail, "post") == ["notes:add", "post:read", "post:send"]
    assert keys(tmp_path, None) == ["files:send", "mail:read", "mail:send", "notes:add"]


def test_a_list_comes_from_a_pipe_which_has_no_name_to_call_a_server_after() -> None:
    for server in ("mail", None):
        read, write = os.pipe()
        os.write(write, b'[{"name": "send"}]')
        os.close(write)
        if server:
            assert keys(Path(f"/dev/fd/{read}"), server) == ["mail:send"]
        else:
            with pytest.raises(
                InvalidCatalogue, match="has no server, and its file has no name for one: give --server"
            ):
                keys(Path(f"/dev/fd/{read}"), server)
        os.close(read)


def test_lone_surrogates_are_replaced_everywhere_and_pairs_are_one_character(tmp_path: Path) -> None:
    line = (
        r'{"name": "a\ud800", "description": "\udfff! \ud83d\ude80", "keywords": ["\ud800"],'
        r' "labels": {"k\ud800": "\ud800"}, "input_schema": {"properties": {"p\ud800": {"enum": ["\udc00"]}}}}'
    )
    (found,) = Catalogue.read(written(tmp_path, line))
    assert (found.name, found.description) == ("a\ufffd", "\ufffd! 🚀")
    json.dumps(tool_to_json(found), ensure_ascii=False).encode("utf-8")


def test_line_separators_and_colons_within_texts_separate_nothing(tmp_path: Path) -> None:
    line = '{"server": "s", "name": "a:b", "description": "one\u2028two\x85"}'
    catalogue = Catalogue.read(written(tmp_path, line, {"name": ":c"}))
    assert catalogue["s:a:b"] == tool("s:a:b", "one\u2028two\x85")
    assert (catalogue["::c"].server, catalogue["::c"].name) == ("", ":c")


def test_the_spellings_of_mcp_and_of_function_definitions_are_read() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    for spelling in ("input_schema", "inputSchema", "parameters"):
        assert tool_from({"name": "a", spelling: schema}).input_schema == schema
    hints = tool_from({"name": "a", "annotations": {"readOnlyHint": True, "title": "A", "idempotentHint": False}})
    assert hints.annotations == Annotations(read_only=True, idempotent=False)
    assert tool_from({"name": "a", "labels": {"usage": 12, "beta": True}}).labels == {"usage": "12", "beta": "True"}


def test_what_is_exported_for_any_provider_is_read_again() -> None:
    given = tool(":send", "Send a mail", input_schema={"type": "object", "properties": {"to": {"type": "string"}}})
    for provider in get_args(Provider):
        [read] = [tool_from({"server": "mail", **shape}) for shape in export([given], provider)]
        assert (read.name, read.description, read.input_schema) == ("send", "Send a mail", given.input_schema)


def test_a_tool_written_and_read_again_is_the_same_tool() -> None:
    hinted = tool("a:b", labels={"team": "x"}, annotations=Annotations(read_only=True, open_world=False))
    for known in (*sample(), hinted):
        assert tool_from(json.loads(json.dumps(tool_to_json(known)))) == known
    assert tool("a:b", kind="agent") == tool("a:b", kind=Kind.AGENT)


def test_tools_are_found_by_key_and_by_server() -> None:
    catalogue = Catalogue([tool("b:x"), tool("a:y"), tool("b:z"), tool("a:w")])
    assert catalogue["b:z"].name == "z"
    with pytest.raises(UnknownTool, match=r"unknown tool 'a:x'.*tools list"):
        catalogue["a:x"]
    found = {server: [own.name for own in catalogue.of_server(server)] for server in ("a", "b", "c")}
    assert found == {"a": ["w", "y"], "b": ["x", "z"], "c": []}
