"""The mcpServers file: read as people have it, refused with a remedy."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Catalogue, McpConfig
from orchestrator.common.digests import same_server
from orchestrator.errors import InvalidCatalogue, InvalidConfig, InvalidInput
from orchestrator.experience.logs import read_past
from orchestrator.mcp.config import launch
from orchestrator.mcp.config.locate import find_config


def one(server: object, name: str = "it") -> Any:
    return McpConfig.parse({"mcpServers": {name: server}}, source="mcp.json").servers[name]


def test_the_usual_shapes_are_read(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    entries = {
        "git": {"command": "uvx", "args": ["mcp-server-git", 3], "env": {"DEBUG": True}, "cwd": "/srv"},
        "remote": {"type": "http", "url": "https://example.com/mcp", "headers": {"X-Team": 7}},
        "gemini": {"httpUrl": "https://example.com/mcp", "trust": True, "autoApprove": ["x"]},
        "windsurf": {"serverUrl": "http://localhost:1/mcp", "type": "streamable-http"},
        "off": {"command": "x", "disabled": True},
        "away": {"type": "sse", "url": "http://a", "enabled": False},
        "older": {"transport": "sse", "url": "http://a"},
        "slow": {"command": "x", "toolroute": {"call_timeout_s": 600}, "trust_annotations": False},
    }
    file.write_text(json.dumps({"mcpServers": entries}))
    servers = McpConfig.read(file).servers
    assert list(servers) == ["git", "remote", "gemini", "windsurf", "older", "slow"]
    launch = servers["git"].launch({})
    assert (launch.command, launch.args, launch.env) == ("uvx", ("mcp-server-git", "3"), {"DEBUG": "true"})
    assert (launch.cwd, servers["git"].source) == ("/srv", str(file))
    assert (servers["remote"].transport, servers["remote"].launch({}).headers) == ("http", {"X-Team": "7"})
    assert servers["older"].transport == "sse"
    assert (servers["slow"].limits.call_timeout_s, servers["slow"].trust_annotations) == (600, False)


def test_vs_codes_file_is_read_with_comments_and_last_commas(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text("""{
      // the servers of this project
      "servers": {
        "web": {"url": "https://example.com//mcp", /* "type": "sse", */ "headers": {"X": "a, ]// /* b */ \\" ,}",},},
        "local": {"command": "x", "args": ["--a", // why
          "/*", "*/", ] , },
      }, "inputs": []
    }""")
    servers = McpConfig.read(file).servers
    assert servers["web"].launch({}).url == "https://example.com//mcp"
    assert servers["web"].headers == {"X": 'a, ]// /* b */ " ,}'}
    assert servers["local"].args == ("--a", "/*", "*/")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("// one\n{'servers': {}}", r"not JSON \(.*line 2 column"),
        ("[]", 'no "mcpServers" object; give'),
        ("\udcff", "not UTF-8"),
        ('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "'a' is twice in one object"),
    ],
)
def test_broken_files_are_named_with_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "broken.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InvalidConfig, match=rf"broken\.json: .*{said}"):
        McpConfig.read(file)
    with pytest.raises(InvalidConfig, match="cannot be read"):
        McpConfig.read(tmp_path / "none.json")


def test_an_env_file_gives_variables_beneath_those_of_the_entry(tmp_path: Path) -> None:
    lines = "\ufeff# keys\r\n\nAPI_KEY=s3cret-1\nexport ZONE = Europe/Berlin # home\nNOTE='a # b ${X}'\nLEVEL=info\n"
    (tmp_path / "server.env").write_text(lines, encoding="utf-8")
    entry = {"command": "x", "envFile": "${HOME}/server.env", "env": {"LEVEL": "debug"}}
    launch = one(entry).launch({"HOME": str(tmp_path)})
    assert launch.env == {"API_KEY": "s3cret-1", "ZONE": "Europe/Berlin", "NOTE": "a # b ${X}", "LEVEL": "debug"}
    assert launch.secrets.redact("the key is s3cret-1") == "the key is ***"


@pytest.mark.parametrize("line", ["s3cret-2", "A='s3cret-2", "=s3cret-2"])
def test_a_line_that_is_no_variable_is_named_without_its_text(tmp_path: Path, line: str) -> None:
    (tmp_path / "server.env").write_text(f"A=b\n{line}\n")
    spec = one({"command": "x", "envFile": str(tmp_path / "server.env")})
    with pytest.raises(InvalidConfig, match=r"mcp.json: server 'it': envFile .*server.env', line 2: give") as caught:
        spec.launch({})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "warns"),
    [
        ("http://tools.example/mcp", True),
        ("http://127.0.0.1:80/mcp", False),
        ("http://localhost/mcp", False),
        ("https://tools.example/mcp", False),
    ],
)
def test_credentials_that_travel_in_clear_are_named(url: str, caplog: pytest.LogCaptureFixture, *, warns: bool) -> None:
    one({"url": url}).launch({})
    assert not caplog.records
    one({"url": url, "headers": {"Authorization": "Bearer ${TOKEN}"}}).launch({"TOKEN": "s3cret-1"})
    assert ("its credentials are sent unencrypted" in caplog.text, "s3cret" in caplog.text) == (warns, False)


def test_variables_are_replaced_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    entry = {
        "command": "${BIN}/run",
        "args": ["--key=${KEY}", "${env:KEY}", "${EMPTY:-fallback}", "${NONE:-}", "$KEY", "${workspaceFolder}/src"],
        "env": {"A": "x-${KEY}"},
    }
    launch = one(entry).launch({"BIN": "/opt", "KEY": "k1", "EMPTY": ""})
    assert launch.command == "/opt/run"
    assert launch.args == ("--key=k1", "k1", "fallback", "", "$KEY", f"{tmp_path}/src")
    assert launch.env == {"A": "x-k1"}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (
            {"command": "x", "args": ["${A}"], "env": {"K": "${B}"}, "envFile": "${C}", "cwd": "${D}"},
            "not set in the environment: A (in args[0]), C (in envFile), B (in env.K), D (in cwd); set it",
        ),
        ({"url": "https://${HOST}/mcp", "headers": {"X": "${T}"}}, "HOST (in url), T (in headers.X)"),
        ({"command": "x", "env": {"K": "${input:key}"}}, "${input:key} (in env.K) is not understood; write"),
        ({"command": "x", "envFile": "nowhere.env"}, "'nowhere.env': cannot be read (No such file or directory); give"),
        ({"url": "http://a", "headers": {"A": "s3cret\nX: y"}}, "headers.A has characters"),
    ],
)
def test_what_is_missing_stops_its_server_alone_and_all_of_it_is_named(entry: object, said: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        one(entry).launch({})
    assert str(caught.value).startswith("mcp.json: server 'it': ")
    assert said in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, 'give either "command"'),
        ({"url": "ftp://a"}, "begins with http"),
        ({"url": "http://a", "type": "ws"}, r"type 'ws' is not supported: give .* streamable HTTP url \(type http\)$"),
        ({"command": "x", "type": "sse"}, "does not fit: give stdio with a command"),
        ({"command": "x", "type": "carrier-pigeon"}, "give stdio with a command"),
        ({"url": "http://a", "type": "stdio"}, "does not fit"),
        ({"command": "x", "args": "y"}, "args: Input should be a list, but it is a text$"),
        ({"command": ["x"]}, "command: Input should be a valid string, but it is a list$"),
        ({"command": "x", "env": {"A": None}}, "env.A: "),
        ({"url": "http://a", "envFile": ".env"}, "envFile is for a command"),
        ("npx server", "an entry is an object"),
        ({"command": "x", "toolroute": {"call_timeout_s": 0}}, "greater than 0"),
        ({"command": "x", "toolroute": {"timeout": 1}}, "toolroute.timeout"),
        ({"comand": "x"}, "unknown setting 'comand': did you mean 'command'?"),
        ({"command": "x", "trust_anotations": False}, "did you mean 'trust_annotations'?"),
    ],
)
def test_unknown_shapes_are_refused_by_file_and_server_when_it_is_started(entry: object, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message) as caught:
        one(entry).launch({})
    assert str(caught.value).startswith("mcp.json: server 'it': ")
    for name in ("a:b", " "):
        with pytest.raises(InvalidConfig, match="rename"):
            one({"command": "x"}, name).launch({})


def test_the_working_folders_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_config() is None
    (tmp_path / "mcp.json").write_text("{}")
    assert find_config() == tmp_path / "mcp.json"
    (tmp_path / ".mcp.json").write_text("{}")
    assert find_config() == tmp_path / ".mcp.json"


BASE: dict[str, Any] = {"command": "uvx", "args": ["mcp-db", "--verbose"], "env": {"API_KEY": "s3cret-1"}}


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ({"args": ["mcp-db"]}, False),
        ({"env": {}}, False),
        ({"envFile": ".env"}, False),
        ({"env": {"API_KEY": "${WORK_KEY}"}}, False),
        ({"env": {"API_KEY": "s3cret-2"}}, True),
        ({"toolroute": {"call_timeout_s": 600}, "icon": "x"}, True),
        ({"disabledTools": ["drop"]}, True),
        ({"trust_annotations": False}, True),
    ],
)
def test_another_server_is_another_identity_and_another_secret_is_not(other: dict[str, Any], same: bool) -> None:
    base, changed = one(BASE).identity, one({**BASE, **other}).identity
    assert same_server(base, changed) is same
    assert (base == changed) is (same and not {"disabledTools", "trust_annotations"} & other.keys())


def test_a_path_from_the_working_folder_is_another_server_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        (folder / "server.py").touch()
        monkeypatch.chdir(folder)
        seen.append(
            [one({"command": "python", "args": [word]}).identity for word in ("server.py", "-m", "/x/server.py")]
        )
    assert [first == second for first, second in zip(*seen, strict=True)] == [False, True, True]


@pytest.mark.parametrize(
    ("form", "same"), [("https://h/mcp?team={}", False), ("https://h/?key={}-s3cret", True), ("https://u:{}@h", True)]
)
def test_of_an_address_all_but_its_secrets_counts(form: str, same: bool) -> None:
    first, second = (one({"url": form.format(value)}).identity for value in ("abc1", "abc2"))
    assert (first == second) is same


def test_a_home_folder_is_written_as_in_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    entry = {"command": "~/bin/server", "args": ["~/notes", "--root=~/x", "a~b"], "cwd": "~"}
    started = McpConfig.parse({"mcpServers": {"a": entry}}).servers["a"].launch()
    assert started.command == "/home/me/bin/server"
    assert started.args == ("/home/me/notes", "--root=~/x", "a~b")
    assert started.cwd == "/home/me"


def test_variables_of_gemini_are_replaced_where_its_file_is_read(tmp_path: Path) -> None:
    text = json.dumps({"mcpServers": {"a": {"command": "x", "args": ["$HOME", "${HOME}/b", "costs $5", "$$"]}}})
    for folder, first in ((".gemini", "/home/me"), ("other", "$HOME")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "settings.json").write_text(text)
        started = McpConfig.read(tmp_path / folder / "settings.json").servers["a"].launch({"HOME": "/home/me"})
        assert started.args == (first, "/home/me/b", "costs $5", "$$")


def test_other_clients_spellings_of_how_a_server_starts_are_read() -> None:
    entry = {"command": "x", "environment": {"A": "1"}, "working_directory": "/srv", "env_vars": ["B"]}
    started = McpConfig.parse({"mcpServers": {"a": entry}}).servers["a"].launch({"B": "2"})
    assert (started.env["A"], started.env["B"], started.cwd) == ("1", "2", "/srv")


def test_what_a_server_would_not_start_without_is_refused_by_name() -> None:
    entries = {
        "a": {"url": "https://x.example", "headersHelper": "/bin/token"},
        "b": {"command": "x", "env_keys": ["K"]},
    }
    config = McpConfig.parse({"mcpServers": entries})
    assert (
        'headersHelper: toolroute runs no program for headers: write them in "headers"' in config.servers["a"].problem
    )
    assert 'name variables of the environment in "env_pass"' in config.servers["b"].problem


def test_an_unknown_setting_is_named_when_the_server_starts(caplog: pytest.LogCaptureFixture) -> None:
    entry = {"command": "x", "shellWrapper": "zsh", "autoApprove": ["a"], "icon": "i.png", "//": "a comment"}
    McpConfig.parse({"mcpServers": {"a": entry}}).servers["a"].launch()
    assert caplog.messages == ["mcpServers: server 'a': unknown fields ignored: shellWrapper"]


def test_a_node_in_toolroutes_own_environment_comes_behind_the_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, machine = tmp_path / "venv", tmp_path / "machine"
    for program in (own / "node", own / "npx", own / "tool", machine / "npx", machine / "tool"):
        program.parent.mkdir(exist_ok=True)
        program.write_text("")
        program.chmod(0o700)
    monkeypatch.setattr(launch, "_FOLDER_OF_PYTHON", own)
    monkeypatch.setenv("PATH", f"{own}:{machine}")
    runner, other = launch.Launch(command="npx"), launch.Launch(command="tool")
    assert (runner.executable, other.executable) == (str(machine / "npx"), str(own / "tool"))
    assert runner.path == f"{machine}:{own}"
    assert launch.Launch(command="npx", env={"PATH": "/entrys"}).path == "/entrys"


@pytest.mark.parametrize("kind", ["FIFO", "/dev/zero", "/proc/kmsg", "hole"])
def test_a_configuration_that_is_no_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "hole":
        path.write_bytes(b"")
        os.truncate(path, 200_000_000)
    else:
        path.symlink_to(kind)
    with pytest.raises(InvalidConfig, match=r"mcp\.json: cannot be read|mcp\.json: not JSON"):
        McpConfig.read(path)
    if kind == "/proc/kmsg":  # It is a regular file, with any text or none.
        return
    with pytest.raises(InvalidConfig, match="envFile"):
        one({"command": "x", "envFile": str(path)}).launch({})
    with pytest.raises(InvalidCatalogue, match=r"mcp\.json: cannot be read"):
        Catalogue.read(path)
    with pytest.raises(InvalidInput, match=r"mcp\.json: cannot be read|more than"):
        read_past(path)


def test_json_without_an_end_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("[" * 1_000_000)
    with pytest.raises(InvalidConfig, match="not JSON"):
        McpConfig.read(path)


@pytest.mark.parametrize("entry", [{"command": "npx", "args": ["-y", "a-server"]}, {"command": "a-server"}])
def test_a_file_named_as_a_program_makes_no_new_server(
    entry: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = one(entry).identity
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a-server").touch()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert one(entry).identity == before


def test_a_file_that_the_server_creates_makes_no_new_server(tmp_path: Path) -> None:
    entry = {"command": "x", "args": ["--db-path", "notes.db"], "cwd": str(tmp_path)}
    before = one(entry).identity
    (tmp_path / "notes.db").touch()
    assert one(entry).identity == before


def test_a_header_with_a_blank_at_its_end_is_named() -> None:
    with pytest.raises(InvalidConfig, match=r"headers\.X-Team begins or ends with a blank"):
        one({"url": "https://a.example", "headers": {"X-Team": "blue "}}).launch({})
