"""What the commands over Temporal share: their options, the server, the plugin, and a clean standard output."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orchestrator import errors
from orchestrator.cli.options import Place
from orchestrator.cli.output import note
from orchestrator.errors import InvalidConfig, InvalidInput, StoreUnavailable, ToolrouteError, Unauthorised, Unavailable
from orchestrator.options import Options, default_store, set_variables
from orchestrator.records.tenant import SHARED

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowFailureError
    from temporalio.service import RPCError

    from orchestrator.temporal.plugin import OrchestratorPlugin

DEFAULT_ADDRESS, DEFAULT_NAMESPACE = "localhost:7233", "default"
Command = TypeVar("Command", bound=Callable[..., Any])


def temporal_options(command: Command) -> Command:
    """Add `--address`, `--namespace` and `--dev`."""
    address = f"The Temporal server. [default: TEMPORAL_ADDRESS, else {DEFAULT_ADDRESS}]"
    namespace = f"The Temporal namespace. [default: TEMPORAL_NAMESPACE, else {DEFAULT_NAMESPACE}]"
    dev = "Start a local Temporal server, unless --address or TEMPORAL_ADDRESS names one."
    command = click.option("--dev", is_flag=True, help=dev)(command)
    command = click.option("--namespace", metavar="NAME", help=namespace)(command)
    return click.option("--address", metavar="HOST:PORT", help=address)(command)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A Temporal server: TLS, keys and headers are in `more`. `named`: something names the address."""

    address: str
    namespace: str = DEFAULT_NAMESPACE
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)
    named: bool = True


def target(options: Options) -> Target:
    """Return the server of the options, completed by the variables and the file that Temporal's own programs read."""
    from temporalio.envconfig import ClientConfig

    variables = set_variables()
    if (named := variables.get("TEMPORAL_CONFIG_FILE")) and not Path(named).is_file():  # It would be left unread.
        raise InvalidConfig(f"TEMPORAL_CONFIG_FILE={named!r} is not a file: name one, or leave the variable empty")
    try:
        found: dict[str, Any] = {**ClientConfig.load_client_connect_config(override_env_vars=variables)}
    except OSError as error:
        raise InvalidConfig(f"Temporal's settings name {str(error.filename)!r}: {error.strerror}") from None
    except (RuntimeError, ValueError) as error:
        reason = str(error).partition("\n")[0]  # What follows shows the line, and the key that it may hold.
        raise InvalidConfig(f"Temporal's settings cannot be read: {reason}; see TEMPORAL_CONFIG_FILE") from None
    address = options.temporal_address or found.pop("target_host", "")
    namespace = options.temporal_namespace or found.pop("namespace", "") or DEFAULT_NAMESPACE
    if "://" in address:
        raise InvalidConfig(f"Temporal's address {address!r}: give HOST:PORT, without a scheme")
    more = {name: value for name, value in found.items() if name not in ("target_host", "namespace")}
    return Target(address=address or DEFAULT_ADDRESS, namespace=namespace, more=more, named=bool(address))


@asynccontextmanager
async def temporal_server(options: Options, *, dev: bool = False) -> AsyncIterator[Target]:
    """Yield the server that the settings name; with `dev` one that is started here, unless an address is given."""
    from orchestrator.temporal.devserver import dev_server

    if options.temporal_address or not dev:
        yield target(options)
        return
    namespace = options.temporal_namespace or DEFAULT_NAMESPACE
    async with dev_server(namespace=namespace, say=note) as address:
        yield Target(address=address, namespace=namespace)


async def connect(to: Target, plugin: "OrchestratorPlugin | None") -> "Client":
    """Return a client of the server; Unavailable, with the remedy, where none answers."""
    try:
        return await reach(to, plugin)
    except Unavailable as error:
        remedy = "start one, name it with --address or TEMPORAL_ADDRESS, or let --dev start one here"
        if not to.more:
            remedy += "; if it wants TLS or a key, set TEMPORAL_TLS=true or TEMPORAL_API_KEY"
        raise Unavailable(f"{error}: {remedy}") from None


async def reach(to: Target, plugin: "OrchestratorPlugin | None" = None) -> "Client":
    """Return a client of the server and its namespace; the error says what is wrong, and `connect` what to do."""
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
        text = str(error)
        if "code: PermissionDenied" in text or "code: Unauthenticated" in text:
            raise _no_access(to) from None
        if "InvalidContentType" in text:
            remedy = "set TEMPORAL_TLS=false, or name another with --address or TEMPORAL_ADDRESS"
            raise InvalidConfig(f"the Temporal server at {to.address} does not speak TLS: {remedy}") from None
        quoted = text.split('"')[1::2]  # The SDK's text nests its causes: the last one says it.
        reason = quoted[-1] if quoted else text or "no answer within 10 s"
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


async def make_plugin(place: Place, options: Options, *, every_tenant: bool = False) -> "OrchestratorPlugin":
    """Return the plugin over a catalogue file, or over the store; servers that it does not know are listed first.

    The store is asked once, as activities wait ten minutes for one that is away: for one tenant it must answer, and a
    worker for every tenant starts without it.
    """
    from orchestrator.catalogue.catalogue import Catalogue
    from orchestrator.index.calibration import Fit
    from orchestrator.temporal.plugin import OrchestratorPlugin

    servers = place.servers()
    if options.calibration:
        Fit.read(options.calibration)  # A broken one is reported here, not by every route.
    if place.catalogue is not None and place.store is None:
        catalogue = Catalogue.read(place.catalogue)
        if unknown := [name for name in (servers.servers if servers else ()) if name not in catalogue.places]:
            named, remedy = ", ".join(unknown), "with --store they are listed once and routed to as well"
            note(f"{place.catalogue} has no tools of {named}: {remedy}")
        return OrchestratorPlugin(catalogue=catalogue, options=options, mcp_servers=servers)
    if every_tenant:
        await _ask_store(place, options)
    else:
        await place.fill(servers, options)
    return OrchestratorPlugin(store=place.store or default_store(), options=options, mcp_servers=servers)


async def _ask_store(place: Place, options: Options) -> None:
    with closing(place.open_store(options)) as store:
        try:
            await asyncio.to_thread(store.servers, SHARED)
        except StoreUnavailable as error:
            note(f"toolroute: {error}. Until it answers, routing waits for it")


def quiet() -> None:
    """Keep the SDK's warnings off the user's screen: a query that came too late, a connection tried again."""
    from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

    errors_only = TelemetryFilter(core_level="ERROR", other_level="ERROR")
    runtime = Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=errors_only)))
    Runtime.set_default(runtime, error_if_already_set=False)


@contextmanager
def clean_stdout() -> Iterator[None]:
    """Send what native code and child processes write to standard output to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def unwrap(failure: "WorkflowFailureError") -> ToolrouteError:
    """Return the error that made a workflow fail, as the class that it was, with its message."""
    from orchestrator.temporal.call import why_failed

    kind, message = why_failed(failure.cause)
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, ToolrouteError):
        return found(message)
    return ToolrouteError(f"the run failed: {kind}: {message}")
