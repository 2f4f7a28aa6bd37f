"""A door before a Temporal server, as Temporal Cloud has one: TLS, and a key that each request must bear."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_BYTES = {"request_deserializer": bytes, "response_serializer": bytes}


@dataclass
class _Door(grpc.GenericRpcHandler):
    """Passes every request with the key on, unchanged."""

    inside: grpc.aio.Channel
    key: str

    def service(self, handler_call_details: Any) -> Any:
        async def answer(request: bytes, context: Any) -> bytes:
            given = dict(context.invocation_metadata()).get("authorization")
            if given != f"Bearer {self.key}":
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, "Request unauthorized.")
            ask = self.inside.unary_unary(handler_call_details.method, bytes, bytes)
            try:
                passed: bytes = await ask(request, timeout=context.time_remaining())
                return passed
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details())
                raise

        return grpc.unary_unary_rpc_method_handler(answer, **_BYTES)


@asynccontextmanager
async def temporal_front(address: str, key: str, folder: Path) -> AsyncIterator[tuple[str, Path]]:
    """Its address, and the file of the certificate that it shows."""
    private, certificate = _self_signed()
    file = folder / "ca.pem"
    file.write_bytes(certificate)
    server = grpc.aio.server()
    async with grpc.aio.insecure_channel(address) as inside:
        server.add_generic_rpc_handlers((_Door(inside, key),))
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(private, certificate)]))
        await server.start()
        try:
            yield f"127.0.0.1:{port}", file
        finally:
            await server.stop(1)


def _self_signed() -> tuple[bytes, bytes]:
    """A new key and its certificate for loopback."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "toolroute tests")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, *form), made.public_bytes(serialization.Encoding.PEM)
