"""Which server an entry of an `mcpServers` file means: two projects may each have one of the same name."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from orchestrator.mcp.launch import VARIABLE
from orchestrator.records.digests import OF_SERVER, digest
from orchestrator.records.redact import MASK
from orchestrator.records.secrets import LONG, argument_secrets, header_secrets, secrets_in, variable_secrets

if TYPE_CHECKING:
    from orchestrator.mcp.config import ServerSpec


def identity_of(spec: "ServerSpec") -> str:
    """64 bits, as 16 hexadecimal digits, over what the entry starts or reaches; then 32 over the tools that it chooses.

    A store keeps it, so nothing in it is expanded, or can be found by trying: what its name or its place says is secret
    is left out (a new token is no new server), and so is what looks random and is short. What looks random and is long
    stays, as it may be all that tells two projects' servers apart.
    """
    hidden = {*_secrets(spec, guess=False), *(found for found in _secrets(spec, guess=True) if len(found) < LONG)}
    named = {**{f"env.{name}": text for name, text in spec.env.items()}, **spec.headers, "url": spec.url}
    placed = [spec.command, *spec.args, spec.cwd or "", spec.env_file]
    meant = [_without(hidden, text) for text in placed], {name: _without(hidden, named[name]) for name in named}
    variables = {found["name"] for text in [*placed, *named.values()] for found in VARIABLE.finditer(text)}
    chosen = [None if spec.only_tools is None else sorted(spec.only_tools), sorted(spec.disabled_tools)]
    return digest(json.dumps([*meant, sorted(variables)], sort_keys=True), OF_SERVER) + digest(json.dumps(chosen), 8)


def _secrets(spec: "ServerSpec", *, guess: bool) -> list[str]:
    found = [*argument_secrets([spec.command, *spec.args], guess=guess), *secrets_in(spec.url, guess=guess)]
    for name, value in spec.headers.items():
        found += header_secrets(name, value, guess=guess)
    for name, value in spec.env.items():
        found += [*variable_secrets(name, value, guess=guess), *secrets_in(value, guess=guess)]
    return found


def _without(hidden: Iterable[str], text: str) -> str:
    for value in sorted(filter(None, hidden), key=lambda value: (-len(value), value)):
        text = text.replace(value, MASK)
    return text
