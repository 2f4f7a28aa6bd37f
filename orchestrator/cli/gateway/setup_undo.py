"""`toolroute setup --undo`: each client gets back the servers that it had."""

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from orchestrator.cli.gateway.setup_paths import project_path, users_path
from orchestrator.cli.shared.output import note, warn
from orchestrator.client_setup.client_file import ClientFile, copies
from orchestrator.client_setup.products import Client
from orchestrator.common.atomic_file import replace_settings
from orchestrator.errors import InvalidConfig


def undo_setup(clients: Sequence[Client]) -> int:
    """Put back the servers that each client had, also in the project of the working folder."""
    outcomes = []
    for client in clients:
        paths = [users_path(client), project_path(client)]
        outcomes += [_undo_file(client, path) for path in paths if path and copies(path)[0]]
    if not outcomes:
        note("nothing to undo: no client was changed by `toolroute setup --write`")
    return int(not all(outcomes))


def _undo_file(client: Client, path: Path) -> bool:
    """Restore the servers of one file. Servers that were added since stay. Returns False if the file is unchanged."""
    backups = copies(path)[0]
    try:
        before = [ClientFile.read(client, copy) for copy in backups]
        current = ClientFile.read(client, path) if path.is_file() else before[-1]
        # Several setups are undone one after the other, the last one first.
        file = reduce(ClientFile.undone, reversed(before), current)
        replace_settings(path, file.text)
    except InvalidConfig as error:
        warn(f"{client.title} is not changed; its own servers are in {backups[0]}: {error}")
        return False
    note(f"{client.title} has its own servers again: {path}")
    if not any(file.lacks(earlier) for earlier in before):
        for copy in backups:
            copy.unlink()
        return True
    names = [str(copy.rename(copies(path, "undone")[1])) for copy in backups]
    note(f"the file has changed since setup; what it no longer has is in {', '.join(names)}")
    return True
