"""The Temporal server of the commands: which one it is, and how it is reached."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli.plain import note
from orchestrator.errors import InvalidConfig, InvalidInput, ToolrouteError, Unauthorised, Unavailable
from orchestrator.options import Options, set_variables

if TYPE_CHECKING:
    from temporalio.client import Client
    from temporalio.service import RPCError

    from orchestrator.temporal.plugin import OrchestratorPlugin

DEFAULT_ADDRESS, DEFAULT_NAMESPACE = "localhost:7233", "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What `Client.connect` is given; TLS, keys and headers are in `more`. `named`: something names the address."""

    address: str
    namespace: str = DEFAULT_NAMESPACE
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)
    named: bool = True


def target(options: Options) -> Target:
    """The options' server and namespace; what they leave out, and the credentials, by the variables and the file that
    all of Temporal's own programs read."""
    from temporalio.envconfig import ClientConfig

    variables = set_variables()
    if (named := variables.get("TEMPORAL_CONFIG_FILE")) and not Path(named).is_file():  # It would be left unread.
        raise InvalidConfig(f"TEMPORAL_CONFIG_FILE={named!r} is no file: name one, or leave the variable empty")
    try:
        found: dict[str, Any] = {**ClientConfig.load_client_connect_config(override_env_vars=variables)}
    except OSError as error:
        raise InvalidConfig(f"Temporal's settings name {str(error.filename)!r}: {error.strerror}") from None
    except (RuntimeError, ValueError) as error:
        said = str(error).partition("\n")[0]  # What follows shows the line, and the key that it may hold.
        raise InvalidConfig(f"Temporal's settings cannot be read: {said}; see TEMPORAL_CONFIG_FILE") from None
    address = options.temporal_address or found.get("target_host", "")
    namespace = options.temporal_namespace or found.get("namespace", "") or DEFAULT_NAMESPACE
    if "://" in address:
        raise InvalidConfig(f"Temporal's address {address!r}: give HOST:PORT, without a scheme")
    more = {name: value for name, value in found.items() if name not in ("target_host", "namespace")}
    return Target(address=address or DEFAULT_ADDRESS, namespace=namespace, more=more, named=bool(address))


@asynccontextmanager
async def temporal_server(options: Options, *, dev: bool = False) -> AsyncIterator[Target]:
    """The server that the settings name; with `dev` one that is started here, unless an address is given."""
    from orchestrator.temporal.devserver import dev_server

    if options.temporal_address or not dev:
        yield target(options)
        return
    namespace = options.temporal_namespace or DEFAULT_NAMESPACE
    async with dev_server(namespace=namespace, say=note) as address:
        yield Target(address=address, namespace=namespace)


async def connect(to: Target, plugin: "OrchestratorPlugin | None") -> "Client":
    """A client of the server; Unavailable, with the remedy, where none answers."""
    try:
        return await reach(to, plugin)
    except Unavailable as error:
        remedy = "start one, name it with --address or TEMPORAL_ADDRESS, or let --dev start one here"
        if not to.more:
            remedy += "; if it wants TLS or a key, set TEMPORAL_TLS=true or TEMPORAL_API_KEY"
        raise Unavailable(f"{error}: {remedy}") from None


async def reach(to: Target, plugin: "OrchestratorPlugin | None" = None) -> "Client":
    """The same for those who have a remedy of their own. The namespace is asked for: nothing would work without it."""
    from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
    from temporalio.client import Client
    from temporalio.service import RPCError

    try:
        async with asyncio.timeout(10):
            plugins = [plugin] if plugin else []
            client = await Client.connect(to.address, namespace=to.namespace, plugins=plugins, **to.more)
            await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=to.namespace))
            return client
    except RPCError as error:
        raise _refusal(to, error) from None
    except (RuntimeError, ValueError, TimeoutError) as error:
        if re.search(r"code: (PermissionDenied|Unauthenticated)", str(error)):
            raise _no_access(to) from None
        if "InvalidContentType" in str(error):
            remedy = "set TEMPORAL_TLS=false, or name another with --address or TEMPORAL_ADDRESS"
            raise InvalidConfig(f"the Temporal server at {to.address} does not speak TLS: {remedy}") from None
        quoted = re.findall(r'"([^"]+)"', str(error))  # the SDK's text nests its causes: the last one says it
        reason = quoted[-1] if quoted else str(error) or "no answer within 10 s"
        raise Unavailable(f"no Temporal server answers at {to.address} ({reason[:200]})") from None


def _refusal(to: Target, error: "RPCError") -> ToolrouteError:
    from temporalio.service import RPCStatusCode

    if error.status is RPCStatusCode.NOT_FOUND:
        remedy = "name another with --namespace or TEMPORAL_NAMESPACE, or create it: temporal operator namespace create"
        return InvalidInput(f"the Temporal server at {to.address} has no namespace {to.namespace!r}: {remedy}")
    if error.status in (RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.PERMISSION_DENIED):
        return _no_access(to)
    return Unavailable(f"the Temporal server at {to.address} does not serve ({error.message[:200]})")


def _no_access(to: Target) -> Unauthorised:
    remedy = "check the namespace's full name, and TEMPORAL_API_KEY or TEMPORAL_TLS_CLIENT_CERT_PATH"
    return Unauthorised(f"the Temporal server at {to.address} refuses access to namespace {to.namespace!r}: {remedy}")
