"""The mcpServers file: read as people have it, refused with a remedy."""

import json
from pathlib import Path

import pytest

from orchestrator import Connections
from orchestrator.errors import InvalidConfig, UnknownTool
from orchestrator.mcp.config import McpConfig, find_config
from orchestrator.mcp.states import State
from tests.servers.start import config, entry

QUICK = entry("quick.py")


def one(server: object) -> McpConfig:
    return McpConfig.parse({"mcpServers": {"it": server}}, source="mcp.json")


def test_the_usual_shapes_are_read(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(
        json.dumps(
            {
                "mcpServers": {
                    "git": {"command": "uvx", "args": ["mcp-server-git", 3], "env": {"DEBUG": True}, "cwd": "/srv"},
                    "remote": {"type": "http", "url": "https://example.com/mcp", "headers": {"X-Team": "a"}},
                    "gemini": {"httpUrl": "https://example.com/mcp", "trust": True, "autoApprove": ["x"]},
                    "windsurf": {"serverUrl": "http://localhost:1/mcp", "type": "streamable-http"},
                    "off": {"command": "x", "disabled": True},
                    "away": {"command": "x", "enabled": False},
                    "slow": {"command": "x", "toolroute": {"call_timeout_s": 600}},
                }
            }
        )
    )
    servers = McpConfig.read(file).servers
    assert list(servers) == ["git", "remote", "gemini", "windsurf", "slow"]
    launch = servers["git"].launch({})
    assert (launch.command, launch.args, launch.env, launch.cwd) == (
        "uvx",
        ("mcp-server-git", "3"),
        {"DEBUG": "true"},
        "/srv",
    )
    assert servers["remote"].transport == "http"
    assert servers["slow"].call_timeout_s == 600
    assert servers["git"].source == str(file)


def test_vs_codes_key_is_read() -> None:
    assert list(McpConfig.parse({"servers": {"a": {"command": "x"}}, "inputs": []}).servers) == ["a"]


def test_comments_and_last_commas_are_read_as_editors_write_them(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text("""{
      // the servers of this project
      "servers": {
        "web": {"url": "https://example.com//mcp", /* "type": "sse", */ "headers": {"X": "a, ]// /* b */ \\" ,}",},},
        "local": {"command": "x", "args": ["--a", // why
          "/*", "*/", ] , },
      },
    }""")
    servers = McpConfig.read(file).servers
    assert servers["web"].launch({}).url == "https://example.com//mcp"
    assert servers["web"].headers == {"X": 'a, ]// /* b */ " ,}'}
    assert servers["local"].args == ("--a", "/*", "*/")


@pytest.mark.parametrize("text", ['{"servers": {} /* no end', '{"servers": {},,}', "{'servers': {}}"])
def test_what_is_no_json_with_comments_is_told_by_its_place(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(f"// one\n{text}")
    with pytest.raises(InvalidConfig, match=r"mcp\.json: not JSON \(.*line 2 column"):
        McpConfig.read(file)


def test_an_env_file_gives_variables_beneath_those_of_the_entry(tmp_path: Path) -> None:
    file = tmp_path / "server.env"
    file.write_text(
        "\ufeff# keys\r\n\nAPI_KEY=s3cret-1\nexport ZONE = Europe/Berlin # home\nNOTE='a # b ${X}'\n"
        "EMPTY=\nURL=https://h/#top\nQUOTED=\"x='y'\"\nLEVEL=info\n",
        encoding="utf-8",
    )
    entry = {"command": "x", "envFile": "${HOME}/server.env", "env": {"LEVEL": "debug"}}
    launch = one(entry).servers["it"].launch({"HOME": str(tmp_path)})
    assert launch.env == {
        "API_KEY": "s3cret-1",
        "ZONE": "Europe/Berlin",
        "NOTE": "a # b ${X}",
        "EMPTY": "",
        "URL": "https://h/#top",
        "QUOTED": "x='y'",
        "LEVEL": "debug",
    }
    assert launch.secrets.scrub_result("s3cret-1 in Europe/Berlin") == "*** in Europe/Berlin"


@pytest.mark.parametrize("line", ["s3cret-2", "A='s3cret-2", "A-B C=s3cret-2", '"A"=s3cret-2', "=s3cret-2"])
def test_a_line_that_is_no_variable_is_told_without_its_text(tmp_path: Path, line: str) -> None:
    (tmp_path / "server.env").write_text(f"A=b\n{line}\n")
    spec = one({"command": "x", "envFile": str(tmp_path / "server.env")}).servers["it"]
    with pytest.raises(InvalidConfig, match=r"mcp.json: server 'it': envFile .*server.env', line 2: give") as caught:
        spec.launch({})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nowhere.env", "envFile 'nowhere.env' cannot be read (No such file or directory): give"),
        ("${projectFolder}/.env", "not set in the environment: projectFolder (in envFile); set it"),
        ("${input:file}", "${input:file} (in envFile) is not understood"),
    ],
)
def test_an_env_file_that_cannot_be_had_stops_its_server_alone(path: str, said: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        one({"command": "x", "envFile": path}).servers["it"].launch({})
    assert said in str(caught.value)


def test_variables_are_replaced_everywhere() -> None:
    spec = one(
        {
            "command": "${BIN}/run",
            "args": ["--key=${KEY}", "${env:KEY}", "${EMPTY:-fallback}", "${NONE:-}", "$KEY", "a${{b"],
            "env": {"A": "x-${KEY}"},
        }
    ).servers["it"]
    launch = spec.launch({"BIN": "/opt", "KEY": "k1", "EMPTY": ""})
    assert launch.command == "/opt/run"
    assert launch.args == ("--key=k1", "k1", "fallback", "", "$KEY", "a${{b")
    assert launch.env == {"A": "x-k1"}


def test_the_folders_that_editors_put_in_are_the_working_folder_and_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    args = ["${workspaceFolder}/src", "${userHome}/notes", "${workspaceFolderBasename}", "${userHome:-none}"]
    spec = one({"command": "x", "args": args}).servers["it"]
    assert spec.launch({}).args == (f"{tmp_path}/src", "/home/me/notes", tmp_path.name, "none")
    assert spec.launch({"userHome": "/else"}).args[1] == "/else/notes"


def test_all_missing_variables_are_named_when_the_server_starts() -> None:
    spec = one({"url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}).servers["it"]
    with pytest.raises(InvalidConfig, match=r"mcp.json: server 'it'.*HOST \(in url\), TOKEN \(in headers.Auth"):
        spec.launch({})
    spec = one({"command": "x", "args": ["${A}"], "env": {"K": "${B}"}, "envFile": "${C}", "cwd": "${D}"}).servers["it"]
    with pytest.raises(InvalidConfig, match=r"A \(in args.0.\), C \(in envFile\), B \(in env.K\), D \(in cwd\)"):
        spec.launch({})


def test_what_other_programs_would_ask_for_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"\$\{input:key\} \(in env.K\) is not understood; write"):
        one({"command": "x", "env": {"K": "${input:key}"}}).servers["it"].launch({})


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, 'give either "command"'),
        ({"command": "x", "url": "http://a"}, 'give either "command"'),
        ({"url": "ftp://a"}, "begins with http"),
        ({"url": "http://a", "type": "sse"}, "streamable HTTP url .*, or reach it through a bridge: .*mcp-remote"),
        ({"command": "x", "type": "carrier-pigeon"}, "give stdio or http"),
        ({"command": "x", "type": "http"}, "needs url"),
        ({"url": "http://a", "type": "stdio"}, "needs command"),
        ({"command": ["x"]}, "command: Input should be a valid string, but it is a list$"),
        ({"command": 5}, "command: Input should be a valid string, but it is a number$"),
        ({"command": "x", "args": "-v"}, "args: Input should be a valid list, but it is a text$"),
        ({"command": "x", "env": ["A=b"]}, "env: "),
        ({"command": "x", "env": {"A": None}}, "env.A: "),
        ({"command": "x", "envFile": [".env"]}, "envFile: "),
        ({"url": "http://a", "envFile": ".env"}, "envFile is for a command"),
        ("npx server", "an entry is an object"),
        ({"command": "x", "toolroute": {"call_timeout_s": 0}}, "above 0"),
        ({"command": "x", "toolroute": {"timeout": 1}}, "toolroute.timeout"),
    ],
)
def test_unknown_shapes_are_refused_by_file_and_server_when_it_is_started(entry: object, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message) as caught:
        one(entry).servers["it"].launch({})
    assert str(caught.value).startswith("mcp.json: server 'it': ")


@pytest.mark.parametrize("name", ["a:b", "", " "])
def test_names_that_cannot_be_part_of_a_key_are_refused(name: str) -> None:
    with pytest.raises(InvalidConfig, match="rename"):
        McpConfig.parse({"mcpServers": {name: {"command": "x"}}}).servers[name].launch({})


def test_a_broken_entry_takes_no_other_server_away() -> None:
    servers = config(good=QUICK, old={"type": "sse", "url": "http://a"}, web={"url": "http://a", "headers": {"X": 7}})
    parsed = McpConfig.parse(servers)
    assert list(parsed.servers) == ["good", "old", "web"]
    assert parsed.servers["good"].launch({}).command
    assert parsed.servers["web"].launch({}).headers == {"X": "7"}


@pytest.mark.parametrize("off", [{"disabled": True}, {"enabled": False}])
@pytest.mark.parametrize("entry", [{}, {"type": "sse", "url": "http://a"}, {"command": ["x"]}])
def test_what_is_switched_off_need_not_be_right(entry: dict[str, object], off: dict[str, object]) -> None:
    assert McpConfig.parse(config(**{"it": {**entry, **off}, "a:b": off})).servers == {}


async def test_a_broken_entry_is_told_before_and_after_its_server_is_tried() -> None:
    async with Connections(config(good=QUICK, old={"type": "sse", "url": "http://a"})) as servers:
        for _ in range(3):
            state = servers.states()[1]
            assert (state.state, state.transport) == (State.FAILED, "")
            assert "'sse' is not supported" in state.last_error
            with pytest.raises(InvalidConfig, match="server 'old': type 'sse' is not supported"):
                await servers.call("old:it")
        assert (await servers.call("good:add", {"a": 1, "b": 2})).text == "3"


@pytest.mark.parametrize("text", ["", "[]", '{"mcpServers": []}', "{", '{"other": {}}', "\udcff"])
def test_broken_files_are_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "broken.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InvalidConfig, match=r"broken\.json"):
        McpConfig.read(file)


def test_a_name_that_stands_twice_is_refused_where_json_would_keep_the_last(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}')
    with pytest.raises(InvalidConfig, match=r"mcp\.json: 'a' stands twice in one object"):
        McpConfig.read(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="cannot be read"):
        McpConfig.read(tmp_path / "none.json")


def test_no_secret_stands_in_a_repr_or_an_error() -> None:
    config = one({"command": "x", "args": ["--token", "s3cret-9"], "env": {"API_KEY": "s3cret-1"}})
    launch = config.servers["it"].launch({})
    assert "s3cret" not in f"{config!r} {launch!r} {launch.secrets!r}"
    with pytest.raises(InvalidConfig) as caught:
        one({"url": "http://a", "headers": {"Authorization": ["Bearer s3cret-2"]}}).servers["it"].launch({})
    assert "s3cret" not in str(caught.value)
    with pytest.raises(InvalidConfig) as caught:
        one({"url": "http://a", "headers": {"Authorization": "s3cret-3\nX: y"}}).servers["it"].launch({})
    assert "s3cret" not in str(caught.value)


def test_the_working_folders_file_is_found(tmp_path: Path) -> None:
    assert find_config(tmp_path) is None
    (tmp_path / "mcp.json").write_text("{}")
    assert find_config(tmp_path) == tmp_path / "mcp.json"
    (tmp_path / ".mcp.json").write_text("{}")
    assert find_config(tmp_path) == tmp_path / ".mcp.json"


@pytest.mark.parametrize(
    ("slip", "meant"), [({"comand": "x"}, "command"), ({"command": "x", "disabled_tools": ["a"]}, "disabledTools")]
)
def test_a_setting_that_is_nearly_one_is_told(slip: dict[str, object], meant: str) -> None:
    problem = one(slip).servers["it"].problem
    assert problem == f"mcp.json: server 'it': {list(slip)[-1]!r} is no setting: did you mean {meant!r}?"


def test_a_setting_of_another_client_is_left_beside_ours() -> None:
    assert (
        not one({"command": "x", "commands": [], "alwaysAllow": [], "timeout": 5, "trust": True}).servers["it"].problem
    )


async def test_who_calls_a_server_that_is_switched_off_hears_so() -> None:
    async with Connections({"mcpServers": {"it": {**QUICK, "disabled": True}, "on": QUICK}}) as servers:
        with pytest.raises(UnknownTool, match="server 'it' is switched off in mcpServers: leave out"):
            await servers.call("it:echo", {})
        servers.add({"mcpServers": {"it": QUICK}})
        assert await servers.tools("it")
