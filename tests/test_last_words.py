"""The last output of a program: real standard error of real packages, and the lines that are shown of it."""

import asyncio
import sys
from pathlib import Path

import pytest

from orchestrator import Connections
from orchestrator.errors import ServerUnavailable
from orchestrator.mcp.transports.stderr import cause
from tests.servers.start import config

NODE = """\
node:internal/modules/esm/resolve:873
  throw new ERR_MODULE_NOT_FOUND(packageName, fileURLToPath(base), null);
        ^

Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /home/x/dist/index.js
    at packageResolve (node:internal/modules/esm/resolve:873:9)
    at ModuleJob._link (node:internal/modules/esm/module_job:168:49) {
  code: 'ERR_MODULE_NOT_FOUND'
}

Node.js v20.20.2
"""
OFFLINE = """\
npm error code ECONNREFUSED
npm error syscall connect
npm error errno ECONNREFUSED
npm error FetchError: request to http://127.0.0.1:9/some-pkg-x failed, reason: connect ECONNREFUSED 127.0.0.1:9
npm error     at ClientRequest.<anonymous> (/usr/lib/node_modules/npm/node_modules/minipass-fetch/lib/index.js:130:14)
npm error   code: 'ECONNREFUSED',
npm error   port: 9,
npm error }
npm error
npm error If you are behind a proxy, please make sure that the 'proxy' config is set properly.  See: 'npm help config'
npm error A complete log of this run can be found in: /home/x/.npm/_logs/2026-11-27T00_38_56_686Z-debug-0.log
"""
MISSING = """\
npm error code E404
npm error 404 Not Found - GET https://registry.npmjs.org/@modelcontextprotocol%2fserver-nosuch
npm error 404
npm error 404  The requested resource '@modelcontextprotocol/server-nosuch@*' could not be found
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.
"""
PYTHON = """\
Installed 31 packages in 40ms
Traceback (most recent call last):
  File "/home/x/server.py", line 173, in main
    @server.list_resources()
     ^^^^^^^^^^^^^^^^^^^^^
AttributeError: 'Server' object has no attribute 'list_resources'
"""
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/home/x/server.py", line 4, in <module>
  |     asyncio.run(main())
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/home/x/server.py", line 2, in main
    |     raise ValueError("no token")
    | ValueError: no token
    +------------------------------------
"""
UV = """\
error: No solution found when resolving tool dependencies
  cause: Because mcp-server-nosuch-thing was not found in the package registry we can conclude that it is unsatisfiable.
"""
UNTRUSTED = """\
error: Failed to fetch: https://pypi.org/simple/mcp-server-git/
  cause: error sending request for url (https://pypi.org/simple/mcp-server-git/)
  cause: client error (Connect)
  cause: invalid peer certificate: UnknownIssuer

hint: Consider enabling use of system TLS certificates with the `--system-certs` command-line flag
"""
DOCKER = """\
docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?

Run 'docker run --help' for more information
"""


@pytest.mark.parametrize(
    ("said", "first"),
    [
        (NODE, "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /home/x/dist/index.js"),
        (MISSING, "npm error code E404"),
        (PYTHON, "AttributeError: 'Server' object has no attribute 'list_resources'"),
        (GROUP, "ValueError: no token"),
        (UV, "error: No solution found when resolving tool dependencies"),
        (
            DOCKER,
            "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon runnin",
        ),
        ("Installed 1 package in 7ms\nPackage `six` does not provide any executables.\n", "Installed 1 package in 7ms"),
        ("one\nGITLAB_PERSONAL_ACCESS_TOKEN environment variable is not set\n", "one"),
        ("npm error could not determine executable to run\n", "npm error could not determine executable to run"),
    ],
)
def test_the_line_that_says_why_comes_first(said: str, first: str) -> None:
    assert cause(said.splitlines())[0].startswith(first)


@pytest.mark.parametrize(
    ("said", "line"),
    [(OFFLINE, "failed, reason: connect ECONNREFUSED"), (MISSING, "Not Found - GET"), (UV, "not found in the package")],
)
def test_what_follows_the_error_is_shown_without_stacks(said: str, line: str) -> None:
    shown = cause(said.splitlines())
    assert any(line in one for one in shown)
    assert not [one for one in shown if " at " in one or one.endswith(("{", "}"))]


def test_the_last_cause_of_a_chain_is_shown() -> None:
    assert cause(UNTRUSTED.splitlines()) == [
        "error: Failed to fetch: https://pypi.org/simple/mcp-server-git/",
        "cause: client error (Connect)",
        "cause: invalid peer certificate: UnknownIssuer",
    ]


@pytest.mark.parametrize(("code", "ended"), [("sys.exit(7)", "exit code 7"), ("os.abort()", "ended by signal 6")])
async def test_the_exit_code_is_named(code: str, ended: str) -> None:
    program = {"command": sys.executable, "args": ["-c", f"import os, sys; {code}"]}
    async with Connections(config(bad=program)) as servers:
        with pytest.raises(ServerUnavailable, match=f"{ended}$"):
            await asyncio.wait_for(servers.tools("bad"), 100)


OLD_PYTHON = """\
error: No solution found when resolving tool dependencies
  cause: Because the current Python version (3.11.7) does not satisfy Python>=3.12 and all of:
             postgres-mcp<=0.1.0rc1
"""
NPM_LOG = """\
7 verbose argv "exec" "--yes" "--" "mcp-server-sqlite-npx"
1336 info run sqlite3@5.1.7 install node_modules/sqlite3 prebuild-install -r napi || node-gyp rebuild
1337 info run sqlite3@5.1.7 install { code: 1, signal: null }
1348 verbose exit 1
"""


async def failure(folder: Path, program: str, script: str, *args: str) -> str:
    """Return the error of a server whose command is a shell script of this name."""
    command = folder / program
    command.write_text(f"#!/bin/sh\n{script}")
    command.chmod(0o755)
    server = {"command": str(command), "args": [*args], "env": {"npm_config_cache": str(folder)}}
    async with Connections(config(bad=server)) as servers:
        with pytest.raises(ServerUnavailable) as failed:
            await asyncio.wait_for(servers.tools("bad"), 100)
    return str(failed.value)


GIT_LOG = """\
7 verbose argv "exec" "--yes" "--" "discogs-mcp-server"
27 silly fetch manifest dotenv@github:cswkim/dotenv
1059 verbose exit 128
"""


@pytest.mark.parametrize(
    ("package", "content", "reason"),
    [
        (
            "mcp-server-sqlite-npx",
            NPM_LOG,
            "the script of sqlite3@5.1.7 install failed (prebuild-install -r napi || node-gyp rebuild;",
        ),
        ("discogs-mcp-server", GIT_LOG, "git could not fetch github:cswkim/dotenv, which the package needs;"),
    ],
)
async def test_a_failed_installation_is_explained_from_npms_log(
    tmp_path: Path, package: str, content: str, reason: str
) -> None:
    log = tmp_path / "_logs" / "2026-11-29T02_33_23_787Z-debug-0.log"
    log.parent.mkdir()
    script = f"echo >> {tmp_path}/starts; cat > {log} <<'END'\n{content}END\nexit 1"
    said = await failure(tmp_path, "npx", script, "-y", package)
    assert reason in said
    assert said.endswith(f"npm's log: {log}")
    assert (tmp_path / "starts").read_text() == "\n", "what failed once is not installed a second time"


async def test_a_python_that_is_too_old_gets_the_remedy(tmp_path: Path) -> None:
    said = await failure(tmp_path, "uvx", f"cat >&2 <<'END'\n{OLD_PYTHON}END\nexit 1", "postgres-mcp")
    assert "it needs Python 3.12 or newer: write `uvx --python 3.12 ...` in its entry" in said


async def test_no_terminal_code_is_left_in_an_error(tmp_path: Path) -> None:
    said = await failure(tmp_path, "server", r"printf '\033[1;31mError:\033[0m no \033]8;;http://a.example\007key' >&2")
    assert said.endswith("last stderr output: Error: no key")


async def test_a_failed_fetch_names_the_address_of_the_entry(tmp_path: Path) -> None:
    script = "echo 'TypeError: fetch failed' >&2; exit 1"
    said = await failure(tmp_path, "proxy", script, "--url", "https://ana:secret@api.example.com:8443/mcp?key=1")
    assert said.endswith("TypeError: fetch failed | its entry names https://api.example.com:8443")


async def test_an_event_stream_that_is_not_reached_is_named() -> None:
    async with Connections(config(old={"type": "sse", "url": "http://127.0.0.1:9/sse"})) as servers:
        with pytest.raises(ServerUnavailable, match=r"http://127\.0\.0\.1:9 cannot be reached"):
            await servers.tools("old")
