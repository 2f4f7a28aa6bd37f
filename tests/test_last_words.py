"""The last output of a program: real standard error of real packages, and the lines that are shown of it."""

import asyncio
import sys

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


@pytest.mark.parametrize(("code", "ended"), [("sys.exit(7)", "exit code 7"), ("os.abort()", "ended by signal 6")])
async def test_the_exit_code_is_named(code: str, ended: str) -> None:
    program = {"command": sys.executable, "args": ["-c", f"import os, sys; {code}"]}
    async with Connections(config(bad=program)) as servers:
        with pytest.raises(ServerUnavailable, match=f"{ended}$"):
            await asyncio.wait_for(servers.tools("bad"), 100)
