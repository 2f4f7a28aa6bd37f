"""Stored sign-ins: a private file for each tenant, entry and address. They are never in a store of tools."""

import json
import shlex
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio.to_thread
from platformdirs import user_config_path
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.common.atomic_file import LOCK_WAIT_S, LockException, lock_of, replace_settings
from orchestrator.common.digests import digest
from orchestrator.common.json_input import first_problem
from orchestrator.common.regular import MOST_SETTINGS_BYTES, read_bytes
from orchestrator.errors import InvalidConfig, ServerUnavailable
from orchestrator.mcp.config.launch import Launch
from orchestrator.mcp.config.parse import ServerSpec

_EARLY_S = 30.0
"""A token that expires within these seconds is renewed before it is used."""


class SignIn(BaseModel):
    """A stored sign-in: the tokens, the registered client, and the authorization server's metadata.

    Attributes:
        client: The registered client, without a secret from the entry.
        expires_at: The expiry time in seconds since 1970, or None if it is unknown.
        further_scope: Scopes that the server asked for since, separated by blanks. The next sign-in asks for them.
    """

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)
    token: dict[str, Any] = Field(repr=False)
    client: dict[str, Any] = Field(repr=False)
    server: dict[str, Any] | None = None
    resource: dict[str, Any] | None = None
    expires_at: float | None = None
    further_scope: str = ""

    @property
    def secrets(self) -> list[str]:
        secrets = (
            self.token.get("access_token"),
            self.token.get("refresh_token"),
            self.client.get("client_secret"),
        )
        return [secret for secret in secrets if secret]

    @property
    def renewable(self) -> bool:
        return bool(self.token.get("refresh_token"))

    @property
    def expired(self) -> bool:
        return self.expires_at is not None and self.expires_at - _EARLY_S < time.time()


class SignInFile:
    """The file of one sign-in. Its name depends on the tenant, the entry's name, the address and the client.

    Therefore an entry whose address changes does not send its old token to the new address.
    """

    def __init__(self, tenant: str, spec: ServerSpec, launch: Launch) -> None:
        identity = json.dumps([tenant, spec.name, launch.url, launch.oauth.client_id])
        self._path = folder() / f"{digest(identity, 32)}.json"

    def read(self) -> SignIn | None:
        """Return the stored sign-in, None without a file. Raises InvalidConfig if the file is broken."""
        try:
            content = read_bytes(self._path, most_bytes=MOST_SETTINGS_BYTES)
            return SignIn.model_validate_json(content)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidConfig(
                f"sign-in {self._path}: cannot be read ({error.strerror})"
            ) from None
        except ValidationError as error:
            raise InvalidConfig(
                f"sign-in {self._path}: {first_problem(error)}; delete it and sign in again"
            ) from None

    def write(self, sign_in: SignIn) -> None:
        _make_folder()
        replace_settings(self._path, sign_in.model_dump_json(), private=True)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Prevent other tasks and processes from renewing the sign-in during the context."""
        _make_folder()
        lock = lock_of(self._path)
        try:
            await anyio.to_thread.run_sync(lock.acquire)
        except LockException:
            why = f"another process has renewed the sign-in {self._path} for {LOCK_WAIT_S:g} s"
            raise ServerUnavailable(f"{why}; try again") from None
        try:
            yield
        finally:
            lock.release()


def folder() -> Path:
    """Return the folder of the user's sign-ins, whether it is there or not."""
    return user_config_path("toolroute") / "sign-ins"


def _make_folder() -> None:
    try:
        folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidConfig(f"sign-ins {folder()}: cannot be written ({error.strerror})") from None


def stamp() -> int:
    """Return a number that changes with each sign-in: a server that wanted one may be tried again then."""
    try:
        return folder().stat().st_mtime_ns
    except OSError:
        return 0


def login_command(spec: ServerSpec, tenant: str) -> str:
    """Return the command that signs the tenant in to a server, to be pasted into a shell."""
    file = Path(spec.source)
    config = shlex.quote(str(file.absolute())) if file.is_file() else "FILE"
    owner = "" if tenant == "local" else f" --tenant {shlex.quote(tenant)}"
    return f"toolroute login {shlex.quote(spec.name)} --config {config}{owner}"
