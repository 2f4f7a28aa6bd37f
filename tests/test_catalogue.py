"""Reading catalogues: what is accepted, and what is refused with its place."""

import json
import random
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.definitions import tool_from, tool_to_json
from orchestrator.catalogue.export import Provider, export
from orchestrator.errors import InvalidCatalogue, InvalidInput, UnknownTool
from orchestrator.records.tool import Annotations, Kind, Tool
from tests.catalogues import sample, tool


def written(folder: Path, *lines: object, name: str = "tools.jsonl") -> Path:
    file = folder / name
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    file.write_text("\n".join(texts), encoding="utf-8")
    return file


def record(name: str, **more: Any) -> dict[str, Any]:
    return {"server": "notes", "name": name, **more}


def test_a_catalogue_is_ordered_and_its_fingerprint_does_not_depend_on_the_order_given() -> None:
    tools = list(sample())
    shuffled = random.Random(1).sample(tools, len(tools))
    assert Catalogue(shuffled).tools == tuple(tools)
    assert Catalogue(shuffled).fingerprint == sample().fingerprint
    assert [tool.key for tool in tools] == [f"{s}:{n}" for s, n in sorted((t.server, t.name) for t in tools)]


def test_records_in_memory_are_a_catalogue_as_those_of_a_file_are(tmp_path: Path) -> None:
    records = [
        {"type": "function", "function": {"name": "send", "parameters": {"type": "object"}}},
        {"server": "mail", "name": "read", "inputSchema": {"type": "object"}},
        record("add"),
    ]
    found = Catalogue([*records, tool("mail:drop")])
    assert [own.key for own in found] == [":send", "mail:drop", "mail:read", "notes:add"]
    assert Catalogue(records).fingerprint == Catalogue.read(written(tmp_path, *records)).fingerprint


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({"nam": "read"}, "'nam' is no field: did you mean 'name'?"),
        ({"server": "a"}, "name: missing"),
        ("read", "the record is no JSON object: 'read'"),
        (None, "the record is no JSON object: None"),
    ],
)
def test_an_item_that_is_no_tool_is_named(item: Any, reason: str) -> None:
    with pytest.raises(InvalidCatalogue, match=f"^tool 2: {re.escape(reason)}"):
        Catalogue([tool("a:b"), item])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"description": None}, "description=None: give a text"),
        ({"server": None}, 'server=None: give whose tool it is, "" for'),
        ({"name": 3}, "name=3: give a text"),
        ({"input_schema": "x"}, "input_schema='x': give a JSON Schema"),
        ({"keywords": "mail"}, "keywords='mail': give a tuple of texts"),
        ({"labels": None}, "labels=None: give a dict"),
        ({"annotations": {}}, "annotations={}: give Annotations"),
        ({"kind": "robot"}, "kind='robot': give one of mcp, agent, integration"),
    ],
)
def test_a_tool_with_a_field_of_another_type_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{re.escape(reason)}"):
        Tool(**{"server": "a", "name": "b", **given})


def test_a_tools_kind_may_be_given_as_text() -> None:
    assert Tool(server="a", name="b", kind="agent") == tool("a:b", kind=Kind.AGENT)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("descripton", "description"),
        ("Description", "description"),
        ("input-schema", "inputSchema"),
        ("sever", "server"),
    ],
)
def test_a_field_that_is_nearly_a_known_one_is_refused_where_it_would_be_lost(name: str, meant: str) -> None:
    with pytest.raises(InvalidCatalogue, match=f"'{name}' is no field: did you mean '{meant}'?"):
        tool_from({"name": "a", name: "x"})
    assert tool_from({**record("a", description="said"), "descripton": "x"}).description == "said"


def test_fields_that_others_add_are_left() -> None:
    others = ("title", "outputSchema", "icons", "_meta", "type", "strict", "tags", "version", "examples", "execution")
    assert tool_from({"name": "a", **dict.fromkeys(others, "x")}) == tool(":a")


def test_any_change_of_a_definition_changes_the_fingerprint() -> None:
    before = Catalogue([tool("a:b", "one")]).fingerprint
    for changed in (
        tool("a:b", "two"),
        tool("a:c", "one"),
        tool("a:b", "one", annotations=Annotations(read_only=True)),
    ):
        assert Catalogue([changed]).fingerprint != before


def test_a_tool_is_found_by_its_key_and_a_wrong_key_is_named() -> None:
    assert Catalogue([tool("a:b")])["a:b"].name == "b"
    with pytest.raises(UnknownTool, match=r"no tool 'a:x'.*tools list"):
        Catalogue([tool("a:b")])["a:x"]


def test_the_same_tool_twice_is_one_tool(tmp_path: Path) -> None:
    assert len(Catalogue.read(written(tmp_path, record("add"), record("add"), ""))) == 1


def test_two_different_tools_of_one_key_are_refused_with_both_lines(tmp_path: Path) -> None:
    file = written(tmp_path, record("add"), "", record("add", description="else"))
    with pytest.raises(InvalidCatalogue, match=r"tools\.jsonl:3: the key 'notes:add' stands on line 1 already"):
        Catalogue.read(file)


def test_two_different_tools_of_one_key_are_refused_across_files(tmp_path: Path) -> None:
    written(tmp_path, record("add"), name="a.jsonl")
    written(tmp_path, record("add", description="else"), name="b.jsonl")
    with pytest.raises(InvalidCatalogue, match=r"b\.jsonl:1: the key 'notes:add' stands in .*a\.jsonl:1 already"):
        Catalogue.read(tmp_path)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"name": "add"', "not JSON"),
        ("[" * 5_000, "not JSON"),
        ("1" * 5_000, "not JSON"),
        ('{"name": "a", "input_schema": {"maximum": NaN}}', "NaN is no JSON number"),
        ('{"name": "a", "description": "x", "description": "y"}', "'description' stands twice in one object"),
        ('"add"', "the record is no JSON object: 'add'"),
        ("[]", r"the record is no JSON object: \[\]"),
        ("{}", r"name: missing in \{\}"),
        ('{"name": ""}', "name: .*at least 1 character"),
        ('{"name": 7}', "name: .*but it is 7"),
        ('{"name": "a", "input_schema": []}', r"input_schema: .*but it is \[\]"),
        ('{"name": "a", "input_schema": "text"}', "input_schema"),
        ('{"name": "a", "description": {}}', "description"),
        ('{"name": "a", "kind": "robot"}', "kind: .*'mcp', 'agent', 'integration', 'workflow' or 'builtin'"),
        (
            '{"name": "a", "annotations": {"readonlyhint": true}}',
            "annotations: 'readonlyhint' is no hint: did you mean 'read_only_hint'",
        ),
        ('{"name": "a", "annotations": {"readOnlyHint": "yes"}}', "readOnlyHint: .*valid boolean, but it is 'yes'"),
        ('{"name": "a", "server": "x:y"}', "server 'x:y' holds a colon"),
        ('{"name": "a", "input_schema": ' + '{"a":' * 200 + "1" + "}" * 201, "nested deeper than 64 levels"),
    ],
)
def test_a_broken_line_is_named_with_its_file_its_number_and_the_reason(tmp_path: Path, line: str, reason: str) -> None:
    file = written(tmp_path, record("add"), line, record("edit"))
    with pytest.raises(InvalidCatalogue, match=rf"tools\.jsonl:2: .*{reason}"):
        Catalogue.read(file)


def test_a_field_of_null_says_nothing() -> None:
    fields = ("server", "description", "input_schema", "kind", "keywords", "labels", "annotations")
    assert tool_from({"name": "a", **dict.fromkeys(fields)}) == tool(":a")


def test_what_is_exported_for_any_provider_is_read_again() -> None:
    given = tool(":send", "Send a mail", input_schema={"type": "object", "properties": {"to": {"type": "string"}}})
    for provider in get_args(Provider):
        read = [tool_from({"server": "mail", **shape}) for shape in export([given], provider)]
        assert [(one.name, one.description, one.input_schema) for one in read] == [
            ("send", "Send a mail", given.input_schema)
        ]


def test_a_name_may_hold_colons_since_a_server_may_not(tmp_path: Path) -> None:
    catalogue = Catalogue.read(written(tmp_path, {"server": "s", "name": "a:b"}, {"name": ":c"}))
    assert [found.key for found in catalogue] == ["::c", "s:a:b"]
    assert (catalogue["s:a:b"].server, catalogue["s:a:b"].name) == ("s", "a:b")
    assert (catalogue["::c"].server, catalogue["::c"].name) == ("", ":c")


def test_lone_surrogates_are_replaced_everywhere(tmp_path: Path) -> None:
    line = (
        r'{"name": "a\ud800", "description": "\udfff!", "keywords": ["\ud800"], "labels": {"k\ud800": "\ud800"},'
        r' "input_schema": {"properties": {"p\ud800": {"enum": ["\udc00"]}}}}'
    )
    (found,) = Catalogue.read(written(tmp_path, line))
    assert found.name == "a\ufffd"
    json.dumps(tool_to_json(found), ensure_ascii=False).encode("utf-8")


def test_a_pair_of_surrogates_is_one_character(tmp_path: Path) -> None:
    (found,) = Catalogue.read(written(tmp_path, r'{"name": "\ud83d\ude80"}'))
    assert found.name == "🚀"


def test_a_mark_at_the_files_start_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    file = tmp_path / "tools.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + b'{"name": "a"}\r\n\r\n{"name": "b"}\r\n')
    assert [found.name for found in Catalogue.read(file)] == ["a", "b"]


def test_a_line_separator_within_a_text_ends_no_line(tmp_path: Path) -> None:
    (found,) = Catalogue.read(written(tmp_path, '{"name": "a", "description": "one\u2028two\x85"}'))
    assert found.description == "one\u2028two\x85"


@pytest.mark.parametrize("content", [[record("a")], {"tools": [record("a")]}])
def test_a_json_file_holds_a_list_or_an_object_with_one(tmp_path: Path, content: object) -> None:
    assert [t.key for t in Catalogue.read(written(tmp_path, content, name="x.json"))] == ["notes:a"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [({"tool": []}, "list of tools"), (3, "list of tools"), ([{"name": "a"}, {}], "tool 2: name"), ("{", "not JSON")],
)
def test_a_broken_json_file_is_named(tmp_path: Path, content: object, reason: str) -> None:
    with pytest.raises(InvalidCatalogue, match=rf"x\.json: .*{reason}"):
        Catalogue.read(written(tmp_path, content, name="x.json"))


def test_a_folder_is_its_tools_jsonl_else_all_of_its_jsonl(tmp_path: Path) -> None:
    written(tmp_path, record("a"), name="one.jsonl")
    written(tmp_path, record("b"), name="two.jsonl")
    assert [t.name for t in Catalogue.read(tmp_path)] == ["a", "b"]
    written(tmp_path, record("c"))
    assert [t.name for t in Catalogue.read(tmp_path)] == ["c"]


def test_what_cannot_be_read_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(InvalidCatalogue, match=r"no tools\.jsonl and no other \.jsonl"):
        Catalogue.read(tmp_path)
    with pytest.raises(InvalidCatalogue, match=r"nowhere\.jsonl does not exist: give a tools\.jsonl, or a folder"):
        Catalogue.read(tmp_path / "nowhere.jsonl")
    with pytest.raises(InvalidCatalogue, match=r"x: cannot be read \(File name too long\); give a UTF-8 file"):
        Catalogue.read(tmp_path / ("x" * 300))
    (tmp_path / "latin.jsonl").write_bytes(b'{"name": "caf\xe9"}')
    with pytest.raises(InvalidCatalogue, match=r"latin\.jsonl: cannot be read \(not UTF-8\); give a UTF-8 file"):
        Catalogue.read(tmp_path / "latin.jsonl")


def test_an_empty_file_is_an_empty_catalogue(tmp_path: Path) -> None:
    catalogue = Catalogue.read(written(tmp_path, ""))
    assert len(catalogue) == 0
    assert catalogue.version.tools == 0


def test_the_spellings_of_mcp_and_of_function_definitions_are_read() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    for spelling in ("input_schema", "inputSchema", "parameters"):
        assert tool_from({"name": "a", spelling: schema}).input_schema == schema
    hints = tool_from({"name": "a", "annotations": {"readOnlyHint": True, "title": "A", "idempotentHint": False}})
    assert hints.annotations == Annotations(read_only=True, idempotent=False)


def test_labels_that_are_numbers_or_truths_become_text() -> None:
    assert tool_from({"name": "a", "labels": {"usage": 12, "beta": True}}).labels == {"usage": "12", "beta": "True"}


def test_a_tool_written_and_read_again_is_the_same_tool() -> None:
    for known in sample():
        assert tool_from(json.loads(json.dumps(tool_to_json(known)))) == known
    assert {known.kind for known in sample()} >= {Kind.AGENT, Kind.BUILTIN, Kind.INTEGRATION, Kind.WORKFLOW}


def test_what_a_field_should_be_is_said_in_the_words_of_json() -> None:
    with pytest.raises(InvalidCatalogue, match=r"^keywords: Input should be a valid list, but it is 'refund'$"):
        tool_from({"name": "refund", "keywords": "refund"})


def test_a_field_that_is_no_text_is_left_like_any_other() -> None:
    assert tool_from({"name": "refund", 5: "x"}).name == "refund"
