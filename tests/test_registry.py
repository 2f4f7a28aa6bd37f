"""`toolroute servers search` and `servers add` against a registry on loopback and files of its form."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from orchestrator import McpConfig
from tests.command_line import Run, at_terminal

NOTES: dict[str, Any] = {
    "name": "io.github.acme/notes",
    "description": "Notes of a team.\u001b[31m",
    "version": "1.2.0",
    "packages": [
        {
            "registryType": "npm",
            "identifier": "@acme/notes",
            "version": "1.2.0",
            "transport": {"type": "stdio"},
            "packageArguments": [
                {"type": "positional", "value": "serve"},
                {"type": "named", "name": "--folder", "valueHint": "folder", "isRequired": True},
            ],
            "environmentVariables": [
                {"name": "NOTES_KEY", "description": "The key.", "isRequired": True, "isSecret": True},
                {"name": "NOTES_REGION", "default": "eu"},
            ],
        }
    ],
}
REMOTE = {
    "name": "com.example/docs",
    "remotes": [
        {
            "type": "streamable-http",
            "url": "https://{tenant}.example/mcp",
            "variables": {"tenant": {"isRequired": True}},
            "headers": [
                {
                    "name": "Authorization",
                    "value": "Bearer {token}",
                    "variables": {"token": {"isRequired": True, "isSecret": True}},
                }
            ],
        }
    ],
}
SERVERS = {server["name"]: server for server in (NOTES, REMOTE)}


class _Registry(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/v0.1/servers":
            words = parse_qs(parts.query)["search"][0]
            found = [server for name, server in SERVERS.items() if words in str(name)]
            self._answer(200, {"servers": [{"server": server, "_meta": {}} for server in found], "metadata": {}})
        elif parts.path == "/notes.json":
            self._answer(200, NOTES)
        elif parts.path == "/deep.json":
            self._send(200, b"[" * 100_000)
        else:
            server = SERVERS.get(unquote(parts.path).removeprefix("/v0.1/servers/").removesuffix("/versions/latest"))
            self._answer(200 if server else 404, {"server": server} if server else {})

    def _answer(self, status: int, content: object) -> None:
        self._send(status, json.dumps(content).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    """The address of a registry with two servers."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Registry) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An mcpServers file with a comment, in the working folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mcp.json"
    path.write_text('{\n  // mine\n  "mcpServers": {\n    "other": {"command": "x"}\n  }\n}\n')
    return path


def test_a_search_lists_the_servers(registry: str, toolroute: Run) -> None:
    shown = toolroute("servers", "search", "notes", "--registry", registry)
    assert shown.exit_code == 0, shown.stderr
    assert "io.github.acme/notes  1.2.0    npm: @acme/notes" in shown.stdout
    assert "\u001b" not in shown.stdout


def test_a_search_without_a_hit_ends_with_3(registry: str, toolroute: Run) -> None:
    assert toolroute("servers", "search", "nothing", "--registry", registry).exit_code == 3


def test_the_command_and_the_variables_are_shown(registry: str, toolroute: Run, file: Path) -> None:
    shown = toolroute("servers", "add", "io.github.acme/notes", "--registry", registry)
    assert "will run: npx -y @acme/notes@1.2.0 serve --folder ${FOLDER}" in shown.stdout
    assert "needs NOTES_KEY (required, a secret): The key." in shown.stdout
    assert "needs NOTES_REGION (optional, default eu)" in shown.stdout


def test_without_a_terminal_nothing_is_written(registry: str, toolroute: Run, file: Path) -> None:
    before = file.read_text()
    refused = toolroute("servers", "add", "io.github.acme/notes", "--registry", registry)
    assert refused.exit_code == 2
    assert "nothing was trusted: run this command in a terminal" in refused.stderr
    assert file.read_text() == before


def digest_shown(*command: str) -> str:
    """Return the digest that a terminal shows to a person who then answers no."""
    _, shown = at_terminal("n", "[y/N]: ", "servers", "add", *command)
    return shown.partition("--yes ")[2].split()[0]


@pytest.mark.parametrize("source", ["io.github.acme/notes", "file", "url"])
def test_an_entry_is_written_beside_the_others(source: str, registry: str, toolroute: Run, file: Path) -> None:
    (file.parent / "server.json").write_text(json.dumps(NOTES))
    named = {"file": "server.json", "url": f"{registry}/notes.json"}.get(source, source)
    digest = digest_shown(named, "--registry", registry)
    added = toolroute("servers", "add", named, "--registry", registry, "--yes", digest)
    assert added.exit_code == 0, added.stderr
    assert "// mine" in file.read_text()
    servers = McpConfig.read(file).servers
    assert list(servers) == ["other", "notes"]
    assert servers["notes"].args == ("-y", "@acme/notes@1.2.0", "serve", "--folder", "${FOLDER}")
    assert servers["notes"].env == {"NOTES_KEY": "${NOTES_KEY}", "NOTES_REGION": "${NOTES_REGION:-eu}"}


def test_a_remote_server_is_written_by_its_address(registry: str, toolroute: Run, file: Path) -> None:
    command = ("com.example/docs", "--registry", registry)
    assert toolroute("servers", "add", *command, "--yes", digest_shown(*command)).exit_code == 0
    spec = McpConfig.read(file).servers["docs"]
    assert (spec.url, spec.headers) == ("https://${TENANT}.example/mcp", {"Authorization": "Bearer ${TOKEN}"})


def test_a_person_confirms_at_a_terminal(registry: str, file: Path) -> None:
    code, shown = at_terminal("n", "[y/N]: ", "servers", "add", "io.github.acme/notes", "--registry", registry)
    assert code == 130, shown
    assert list(McpConfig.read(file).servers) == ["other"]


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("no.such/server", (), "has no such server: `toolroute servers search WORDS` finds names"),
        ("io.github.acme/notes", ("--as", "other"), "has a server 'other': give another name with --as"),
        ("io.github.acme/notes", ("--yes", "0123456789ab"), "what is shown above has another digest"),
        ("missing.json", (), "missing.json: cannot be read"),
    ],
)
def test_a_server_that_cannot_be_added_is_refused(
    source: str, options: tuple[str, ...], message: str, registry: str, toolroute: Run, file: Path
) -> None:
    refused = toolroute("servers", "add", source, "--registry", registry, *options)
    assert (refused.exit_code, message in refused.stderr) == (2, True), refused.stderr


def test_a_server_json_nested_too_deep_is_refused(registry: str, toolroute: Run, file: Path) -> None:
    refused = toolroute("servers", "add", f"{registry}/deep.json")
    assert (refused.exit_code, "its answer is not JSON" in refused.stderr) == (2, True), refused.stderr


def test_a_registry_that_does_not_answer_is_named(toolroute: Run) -> None:
    refused = toolroute("servers", "search", "x", "--registry", "http://127.0.0.1:9")
    assert refused.exit_code == 1
    assert "127.0.0.1:9 cannot be reached" in refused.stderr
