"""`toolroute ui`: pages on loopback for a person."""

import logging

import click

from orchestrator.cli.runs.runs import open_run_client
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.long_running import collect_in_small_steps
from orchestrator.cli.shared.output import log, note
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.options import Options


@click.command()
@taking("catalogue", "listed", "sources", "calibration", "temporal server")
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=0,
    help="The port. 0: any free port.",
)
async def ui(workspace: Workspace, options: Options, port: int) -> None:
    """Show decisions, tools, servers, experience and runs in the browser.

    The pages are served on this machine only, for anyone who has the printed link. Ctrl-C ends the server.
    """
    from orchestrator.mcp.extra import require_mcp

    require_mcp()
    from orchestrator.server.http.app import serve_http
    from orchestrator.server.http.bearer_tokens import new_token
    from orchestrator.ui.app import make_app
    from orchestrator.ui.scope import Scope

    log(logging.WARNING)
    async with await workspace.open_router(options) as router:
        await router.engine.index(workspace.tenant)  # An error in the tools is reported here.
        scope = Scope(
            router=router,
            tenant=workspace.tenant,
            options=options,
            stores=() if router.store is None else workspace.stores,
            servers=workspace.servers,
            run_client=lambda: open_run_client(workspace, options),
        )
        collect_in_small_steps()
        # Other users of this machine can reach the port, too.
        token = new_token()
        app = make_app(scope, token)
        await serve_http(
            app, "127.0.0.1", port, lambda at: note(f"open {at}?token={token}"), path="/"
        )
