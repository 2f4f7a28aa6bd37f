"""`toolroute login` and `logout`: sign-ins to servers that want one."""

import asyncio
import os
import sys
import threading
import time
import webbrowser
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import note, present, print_table, warn
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.cli.trust.audit import audited
from orchestrator.errors import InvalidConfig, ToolrouteError
from orchestrator.mcp.config.parse import McpConfig, ServerSpec

if TYPE_CHECKING:
    from orchestrator.mcp.signin.files import SignIn

_PASTE = (
    "If the browser then shows that the page cannot be reached, copy its address (http://localhost:...) from there, "
    "paste it here and press Enter."
)


@click.command()
@click.argument("server", required=False)
@taking("config", "owner", "output")
@click.option("--no-browser", is_flag=True, help="Print the link instead of opening a browser.")
async def login(workspace: Workspace, server: str | None, no_browser: bool, output: str) -> int:
    """Sign in to a server, or list your sign-ins.

    A browser opens if there is one. Otherwise the link is printed. The sign-in belongs to the tenant alone. It is kept
    in a file that only you can read, and renews itself as long as the server allows.
    """
    from orchestrator.mcp.extra import require_mcp

    require_mcp()
    config = workspace.required_servers
    if server is None:
        rows = [
            _sign_in_row(workspace.tenant, spec)
            for spec in config.servers.values()
            if spec.transport != "stdio"
        ]
        present(output, rows, lambda: _print_sign_ins(rows))
        return 0
    from orchestrator.mcp.signin.oauth import login as sign_in

    spec = _remote_server(config, server)
    launch = spec.launch()
    if not launch.signs_in:
        raise InvalidConfig(
            f"server {server!r} has an Authorization header: remove it from the entry to sign in"
        )
    prompt = _LinkPrompt(server, opens=not no_browser and _has_browser())
    kept = await sign_in(workspace.tenant, spec, launch, prompt)
    audited("login", workspace.tenant, server=server, result="signed in")
    note(
        f"signed in to {server} for {workspace.tenant} ({_validity(kept)}); list its tools: toolroute tools sync"
    )
    return 0


@click.command()
@click.argument("server")
@taking("config", "owner")
async def logout(workspace: Workspace, server: str) -> int:
    """Sign out of a server.

    Its tokens are deleted here, and its authorization server is asked to revoke them.
    """
    from orchestrator.mcp.extra import require_mcp

    require_mcp()
    from orchestrator.mcp.signin.files import SignInFile
    from orchestrator.mcp.signin.oauth import logout as sign_out

    spec = _remote_server(workspace.required_servers, server)
    launch = spec.launch()
    if SignInFile(workspace.tenant, spec, launch).read() is None:
        note(f"{server} has no sign-in for {workspace.tenant}")
        return 0
    if failure := await sign_out(workspace.tenant, spec, launch):
        warn(f"{server}: its tokens may still be valid on the server: {failure}")
    audited("login", workspace.tenant, server=server, result="signed out")
    note(f"signed out of {server} for {workspace.tenant}")
    return 0


def _remote_server(config: McpConfig, server: str) -> ServerSpec:
    spec = config.servers.get(server)
    if spec is None:
        raise InvalidConfig(config.lacks(server))
    if spec.transport == "stdio":
        raise InvalidConfig(
            f"server {server!r} is a local program. Only servers with a url have a sign-in"
        )
    return spec


def _sign_in_row(tenant: str, spec: ServerSpec) -> dict[str, Any]:
    from orchestrator.mcp.signin.files import SignInFile

    row: dict[str, Any] = {"server": spec.name, "signed_in": False, "until": None, "detail": ""}
    try:
        launch = spec.launch()
        sign_in = SignInFile(tenant, spec, launch).read()
    except ToolrouteError as error:
        return row | {"detail": str(error)}
    if not launch.signs_in:
        return row | {"detail": "its headers contain a token"}
    if launch.oauth.is_for_worker:
        return row | {"detail": f"signs in by itself ({launch.oauth.grant})"}
    if sign_in is None:
        return row
    valid = sign_in.renewable or not sign_in.expired
    return row | {"signed_in": valid, "until": sign_in.expires_at, "detail": _validity(sign_in)}


def _validity(sign_in: "SignIn") -> str:
    if sign_in.renewable:
        return "renews itself"
    if sign_in.expires_at is None:
        return "the server gave no expiry time"
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(sign_in.expires_at))
    return f"ended {at}" if sign_in.expired else f"until {at}"


def _print_sign_ins(rows: list[dict[str, Any]]) -> None:
    cells = [(row["server"], "yes" if row["signed_in"] else "no", row["detail"]) for row in rows]
    print_table(("server", "signed in", "detail"), cells)


def _has_browser() -> bool:
    """Return True if a browser on this machine is probably in front of the user."""
    if os.environ.get("BROWSER"):
        return True
    has_screen = (
        sys.platform in ("darwin", "win32")
        or os.environ.get("DISPLAY")
        or os.environ.get("WAYLAND_DISPLAY")
    )
    return bool(has_screen) and not os.environ.get("SSH_CONNECTION")


class _LinkPrompt:
    """Shows the link, and takes an address that is pasted.

    Args:
        server: The server's name.
        opens: Open the link in a browser.
    """

    def __init__(self, server: str, *, opens: bool) -> None:
        self._server = server
        self._opens = opens

    async def __call__(self, link: str, take: Callable[[str], str]) -> None:
        opened = self._opens and await asyncio.to_thread(webbrowser.open, link)
        if opened:
            note(f"sign in to {self._server} in the browser. If no browser opened, open this link:")
            click.echo(f"\n  {link}\n", err=True)
        else:
            note(f"open this link to sign in to {self._server}:")
            click.echo(f"\n  {link}\n\n{_PASTE}", err=True)
        loop = asyncio.get_running_loop()

        def pasted(line: str) -> None:
            if line.strip() and not take(line):
                note(
                    "this is not the address of this sign-in. Paste the address that begins with http://localhost"
                )

        def read() -> None:
            # Not through sys.stdin, whose lock a thread that waits would hold at Python's end.
            while chunk := os.read(0, 65_536):
                for line in chunk.decode("utf-8", "replace").splitlines():
                    loop.call_soon_threadsafe(pasted, line)

        threading.Thread(target=read, daemon=True).start()
