"""The pages of `toolroute ui`, in the test's process. A test visits them as a browser does."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
from temporalio.client import Client

from orchestrator import Options, Router
from orchestrator.errors import Unavailable
from orchestrator.temporal.client.run_client import RunClient
from orchestrator.ui.app import make_app
from orchestrator.ui.scope import Scope

TOKEN, BASE = "a-token-of-the-tests", "http://127.0.0.1:4000"
TENANT = "org:1"


async def away() -> RunClient:
    raise Unavailable("no Temporal server answers at <nowhere>")


def pages(router: Router, run_client: Callable[[], Awaitable[RunClient]] = away) -> Any:
    """Return the app of a tenant's pages."""
    scope = Scope(router=router, tenant=TENANT, options=Options(), run_client=run_client)
    return make_app(scope, TOKEN)


def pages_of_runs(router: Router, client: Client) -> Any:
    """Return the app whose runs are those of a Temporal server."""

    async def run_client() -> RunClient:
        return RunClient(client, TENANT)

    return pages(router, run_client)


def visiting(app: Any, **settings: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), **{"base_url": BASE, **settings})
