"""The folder of a person who has used toolroute for a while: tools, servers (one is broken) and past tasks."""

import asyncio
import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from orchestrator import Catalogue, Kind, Router, Store, Tool, Use
from tests.catalogues import EXAMPLES
from tests.servers.start import config, entry
from tests.stores import shipped
from tests.ui_pages import started

PAST = {
    "refund order {n}, it was charged twice": ["stripe:refund_charge"],
    "tell the #ops channel that build {n} is out": ["slack:post_message"],
    "what did we earn in week {n}, and put it into the sheet": ["snowflake:run_query", "google_sheets:append_rows"],
    "the usual for joiner {n}": ["workflows:onboard_employee"],
    "open a bug for the crash in release {n}": ["jira:create_issue", "slack:post_message"],
    "who is late paying invoice {n}": ["quickbooks:list_overdue_invoices"],
    "find the patient of case {n} and book a slot": ["ehr:find_patient", "ehr:book_appointment"],
    "apollo figures of week {n}": ["snowflake:run_query"],
}
"""Past tasks and the tools that they used."""
HOSTILE = Tool(
    server="bad",
    kind=Kind.INTEGRATION,
    name="<img src=x onerror=alert(1)>",
    description='<script>alert(1)</script><a href="javascript:alert(1)">the weather of Mars</a>',
    input_schema={"type": "object", "properties": {"</td><script>alert(2)</script>": {"type": "string"}}},
)
_START = 1_790_000_000.0


async def furnish(folder: Path, rounds: int = 2) -> None:
    """Fill the folder with `mcp.json` and the store `kept` of org:1. Every past task comes once per round."""
    servers = config(quick=entry("quick.py"), broken={"command": "/nowhere/mcp-server"})
    (folder / "mcp.json").write_text(json.dumps(servers))
    tenant, store = "org:1", Store(str(folder / "kept"), embedder=shipped())
    tools = Catalogue([*Catalogue.read(EXAMPLES / "tools.jsonl").tools, HOSTILE])
    store.replace_servers(tenant, {server: tools.of_server(server) for server in tools.places})
    async with Router(store=store) as router:
        for number in range(rounds):
            await asyncio.gather(*(_record(router, tenant, number, place) for place in range(len(PAST))))
    store.close()


async def _record(router: Router, tenant: str, number: int, place: int) -> None:
    task, keys = list(PAST.items())[place]
    used = [Use(tool=key, ok=number + place != 7, ms=40.0 + 9 * number + 30 * place) for key in keys]
    at, actor = _START + 86_400 * (3 * number + place / 10), f"user{number % 3}"
    text = task.format(n=100 + number)
    await router.record(text, used=used, tenant=tenant, name=f"{number}-{place}", actor=actor, at=at)


def ui(folder: Path, *options: str) -> AbstractAsyncContextManager[tuple[str, asyncio.subprocess.Process]]:
    """`toolroute ui` on that folder: its link, and the process."""
    return started(folder, "--store", "kept", "--organization", "1", *options)
