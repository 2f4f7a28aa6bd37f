"""The Temporal server of a command: its address and settings, and the connection to it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli.shared.output import note
from orchestrator.cli.shared.typed_options import typed
from orchestrator.common.regular import MOST_SETTINGS_BYTES, read_text
from orchestrator.errors import (
    InvalidConfig,
    InvalidInput,
    ToolrouteError,
    Unauthorised,
    Unavailable,
)
from orchestrator.options import Options, set_variables

if TYPE_CHECKING:
    from temporalio.client import Client
    from temporalio.converter import DataConverter
    from temporalio.runtime import Runtime

    from orchestrator.temporal.worker.plugin import OrchestratorPlugin

DEFAULT_ADDRESS = "localhost:7233"
DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A Temporal server.

    Attributes:
        address: The address, `HOST:PORT`.
        namespace: The namespace.
        more: Further settings of the connection: TLS, keys and headers.
        named: Whether something names the address, and it is not the default.
        external_storage: The bucket for large payloads. Empty: none.
    """

    address: str
    namespace: str = DEFAULT_NAMESPACE
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)
    named: bool = True
    external_storage: str = ""


def target(options: Options) -> Target:
    """Return the server of the options, completed by the variables and the file that Temporal's own programs read."""
    from temporalio.envconfig import ClientConfigProfile

    variables = set_variables()
    file = variables.get("TEMPORAL_CONFIG_FILE")
    if file and not Path(file).is_file():  # The SDK would ignore it.
        raise InvalidConfig(
            f"TEMPORAL_CONFIG_FILE={file!r} is not a file: name one, or leave the variable empty"
        )
    try:
        # The SDK would read a file to its end, also one without an end.
        source = read_text(file, most_bytes=MOST_SETTINGS_BYTES, pipes=True) if file else None
        profile = ClientConfigProfile.load(config_source=source, override_env_vars=variables)
        loaded = profile.to_client_connect_config()
    except UnicodeDecodeError:
        raise InvalidConfig(f"TEMPORAL_CONFIG_FILE={file!r} is not UTF-8") from None
    except OSError as error:
        raise InvalidConfig(
            f"Temporal's settings name {str(error.filename)!r}: {error.strerror}"
        ) from None
    except (RuntimeError, ValueError) as error:
        # What follows shows the line, and the key that it may hold.
        reason = str(error).partition("\n")[0]
        raise InvalidConfig(
            f"Temporal's settings cannot be read: {reason}; see TEMPORAL_CONFIG_FILE"
        ) from None
    settings: dict[str, Any] = dict(loaded)
    default_address = settings.pop("target_host", "")
    default_namespace = settings.pop("namespace", "")
    address = options.temporal_address or default_address
    if "://" in address:
        raise InvalidConfig(f"Temporal's address {address!r}: give HOST:PORT, without a scheme")
    return Target(
        address=address or DEFAULT_ADDRESS,
        namespace=options.temporal_namespace or default_namespace or DEFAULT_NAMESPACE,
        more=settings,
        named=bool(address),
        external_storage=options.external_storage,
    )


def ui_pages(to: Target, options: Options) -> str:
    """Return the address of the namespace's workflows in Temporal's web UI, or "" if it is unknown.

    A dev server serves its UI on its own port plus 1,000, unless it was started without UI.
    """
    host, _, port = to.address.rpartition(":")
    base = options.temporal_ui
    if not base and host.endswith((".tmprl.cloud", ".temporal.io")):
        base = "https://cloud.temporal.io"
    if not base and host in ("localhost", "127.0.0.1") and port.isdecimal():
        with (
            suppress(OSError, OverflowError),
            socket.create_connection((host, int(port) + 1000), timeout=0.2),
        ):
            base = f"http://{host}:{int(port) + 1000}"
    return f"{base.rstrip('/')}/namespaces/{to.namespace}/workflows" if base else ""


@asynccontextmanager
async def temporal_server(options: Options, *, dev: bool = False) -> AsyncIterator[Target]:
    """Yield the Temporal server that the settings name. With `dev` and without an address, start one."""
    from orchestrator.temporal.client.devserver import dev_server

    if options.temporal_address or not dev:
        yield target(options)
        return
    namespace = options.temporal_namespace or DEFAULT_NAMESPACE
    async with dev_server(namespace=namespace, say=note) as address:
        yield Target(
            address=address, namespace=namespace, external_storage=options.external_storage
        )


def _data_converter(url: str) -> "DataConverter":
    """Return Temporal's data converter, with external storage at this address if it is not empty."""
    from temporalio.converter import DataConverter

    from orchestrator.temporal.worker.storage import external_storage

    storage = external_storage(url) if url else None
    return replace(DataConverter.default, external_storage=storage)


async def connect(
    to: Target, plugin: "OrchestratorPlugin | None" = None, runtime: "Runtime | None" = None
) -> "Client":
    """Connect to the server and namespace, within ten seconds. Each error names the cause and the remedy.

    Args:
        to: The address, the namespace and the credentials.
        plugin: The plugin of a process that runs a worker. None: the client only starts and reads runs.
        runtime: The runtime that serves metrics. None: the default runtime of the process.

    Raises:
        InvalidInput: The server does not have the namespace.
        InvalidConfig: The server does not speak TLS.
        Unauthorised: The server refuses the credentials.
        Unavailable: The server does not answer, or it refuses requests.
    """
    from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
    from temporalio.client import Client
    from temporalio.service import RPCError

    converter = _data_converter(to.external_storage)
    try:
        async with asyncio.timeout(10):
            client = await Client.connect(
                to.address,
                namespace=to.namespace,
                plugins=[plugin] if plugin else [],
                runtime=runtime,
                data_converter=converter,
                **to.more,
            )
            await client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=to.namespace)
            )
            return client
    except RPCError as error:
        raise _refusal(to, error.status.name, error.message) from None
    except (RuntimeError, ValueError, TimeoutError) as error:
        raise _refusal(to, "", str(error)) from None


def _refusal(to: Target, status: str, text: str) -> ToolrouteError:
    server = f"the Temporal server at {to.address}"
    if status == "NOT_FOUND":
        remedy = "use another with --namespace or TEMPORAL_NAMESPACE, or create it: temporal operator namespace create"
        return InvalidInput(f"{server} has no namespace {to.namespace!r}: {remedy}")
    denied = status in ("UNAUTHENTICATED", "PERMISSION_DENIED")
    if denied or "code: PermissionDenied" in text or "code: Unauthenticated" in text:
        remedy = (
            "check the namespace's full name, and TEMPORAL_API_KEY or TEMPORAL_TLS_CLIENT_CERT_PATH"
        )
        return Unauthorised(f"{server} refuses access to namespace {to.namespace!r}: {remedy}")
    if status:
        return Unavailable(
            f"{server} refuses requests ({text[:200]}): check its state, then try again"
        )
    if "InvalidContentType" in text:
        remedy = "set TEMPORAL_TLS=false, or use another server with --address or TEMPORAL_ADDRESS"
        return InvalidConfig(f"{server} does not speak TLS: {remedy}")
    quoted = text.split('"')[1::2]  # The SDK's text nests its causes. The last one is the reason.
    reason = quoted[-1] if quoted else text or "no answer within 10 s"
    remedy = "start one, or give its address with --address or TEMPORAL_ADDRESS"
    if typed("dev") is not None:
        remedy += ", or let --dev start one here"
    if not to.more:
        remedy += "; if it requires TLS or an API key, set TEMPORAL_TLS=true or TEMPORAL_API_KEY"
    return Unavailable(f"no Temporal server answers at {to.address} ({reason[:200]}): {remedy}")


def quiet() -> None:
    """Keep the SDK's warnings off the user's screen: a query that came too late, a connection tried again."""
    from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

    errors_only = TelemetryFilter(core_level="ERROR", other_level="ERROR")
    runtime = Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=errors_only)))
    Runtime.set_default(runtime, error_if_already_set=False)
