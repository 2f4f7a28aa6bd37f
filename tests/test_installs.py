"""toolroute installs next to the frameworks that its users have: resolved at today's newest versions, not installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BOTH = ("langchain", "pydantic-ai", "openai-agents", "fastmcp", "strands-agents", "llama-index-core")
CORE_ONLY = ("crewai", "langchain-mcp-adapters")
"""They need mcp 1, so they go with `toolroute` and not with `toolroute[mcp]`."""


def resolved(*wanted: str) -> dict[str, str]:
    """Return the versions that a resolver finds, or {} if there are none. Without a registry the test skips, or fails
    in CI.
    """
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "-"]
    done = subprocess.run(command, input="\n".join(wanted), capture_output=True, text=True, timeout=150, check=False)
    if done.returncode and "No solution found" not in done.stderr:
        reason = f"no package registry: {done.stderr.strip()[:300]}"
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)
    pairs = [line.partition("==")[::2] for line in done.stdout.splitlines() if "==" in line]
    return {name: version.split(" ")[0] for name, version in pairs}


@pytest.mark.slow
@pytest.mark.parametrize("framework", BOTH + CORE_ONLY)
def test_it_resolves_next_to_the_newest(framework: str) -> None:
    newest = resolved(framework)[framework]
    assert resolved(f"{framework}=={newest}", f"toolroute @ {ROOT.as_uri()}")[framework] == newest
    whole = resolved(f"{framework}=={newest}", f"toolroute[mcp] @ {ROOT.as_uri()}")
    assert bool(whole) == (framework in BOTH)


WITHOUT_MCP = """
import sys
for name in ("mcp", "mcp_types", "uvicorn"):
    sys.modules[name] = None
import asyncio
from orchestrator import Connections, Router
from orchestrator.errors import MissingExtra
from orchestrator.integrations.toolbox import Toolbox

print(asyncio.run(Router("examples/tools.jsonl").route("refund charge ch_3PqX")).recommended)


async def call():
    async with Connections({"mcpServers": {"a": {"command": "false"}}}) as connections:
        await connections.tools("a")


try:
    asyncio.run(call())
except MissingExtra as error:
    print(error)
"""


def test_without_the_extra_mcp_tasks_are_routed_and_a_connection_names_it() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_MCP], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    routed, message = done.stdout.splitlines()
    assert routed == "('stripe:refund_charge',)"
    assert "pip install 'mcp>=2.1'" in message


WITHOUT_STARLETTE = """
import sys
for name in ("mcp", "mcp_types", "uvicorn", "starlette"):
    sys.modules[name] = None
from orchestrator.cli import main

sys.argv = ["toolroute", "explain", "refund a charge", "--catalogue", "examples/tools.jsonl", "--html", sys.argv[1]]
main()
"""


def test_explain_writes_its_page_without_the_extras(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    command = [sys.executable, "-c", WITHOUT_STARLETTE, str(page)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "stripe:refund_charge" in page.read_text()
