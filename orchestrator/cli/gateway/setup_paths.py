"""The places of the clients' files on this machine."""

import sys
from pathlib import Path

from orchestrator.client_setup.products import Client
from orchestrator.options import set_variables


def users_path(client: Client) -> Path:
    """Return the path of a client's file in the user's home."""
    return client.path(set_variables(), sys.platform)


def project_path(client: Client) -> Path | None:
    """Return the path of a client's file in the working folder. In the home, it would be the user's own file."""
    path = Path(client.project).absolute()
    return path if client.project and path != users_path(client) else None
