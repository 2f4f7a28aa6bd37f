"""Which server an entry of an `mcpServers` file means: two projects may each have one of the same name."""

import json
from typing import TYPE_CHECKING

from orchestrator.digests import digest
from orchestrator.scrub import Secrets, argument_secrets, looks_secret, secrets_of_urls, url_secrets

if TYPE_CHECKING:
    from orchestrator.mcp.config import ServerSpec


def identity_of(spec: "ServerSpec") -> str:
    """64 bits, as 16 hexadecimal digits, over what the entry starts or reaches and which tools it leaves in.

    Nothing is expanded, and what is or looks like a secret is left out: a store keeps it, and a new token changes none.
    """
    env = {name: value for name, value in spec.env.items() if not looks_secret(name, value, expanded=True)}
    urls = [found for value in env.values() for found in secrets_of_urls(value)]
    secrets = Secrets(strong=[*argument_secrets(spec.args), *url_secrets(spec.url), *urls])
    meant = {
        "command": [spec.command, *spec.args],
        "env": env,
        "files": [spec.cwd, spec.env_file],
        "url": spec.url,
        "headers": sorted(spec.headers),
        "tools": [None if spec.only_tools is None else sorted(spec.only_tools), sorted(spec.disabled_tools)],
    }
    return digest(json.dumps(secrets.scrub_json(meant), sort_keys=True), 16)
