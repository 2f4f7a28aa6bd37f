"""Addresses that a sign-in does not open: a server may name the cloud's own metadata service (169.254.169.254)."""

import asyncio
from ipaddress import IPv6Address, ip_address

import httpx2

from orchestrator.errors import Unauthorised


async def refuse_link_local(url: httpx2.URL) -> None:
    """Raise Unauthorised if an address that a server named is link-local, also behind a host's name."""
    for address in await _addresses(url):
        if _is_link_local(address):
            raise Unauthorised(
                f"it names the address {url}, which is link-local ({address}). toolroute opens no such "
                "address, because it belongs to this machine's network: report it to the server's operator"
            )


async def _addresses(url: httpx2.URL) -> set[str]:
    loop = asyncio.get_running_loop()
    try:
        infos = await loop.getaddrinfo(url.host, url.port or 443)
    except OSError:  # The request itself reports a name that nobody knows.
        return set()
    return {str(address[0]) for *_, address in infos}


def _is_link_local(address: str) -> bool:
    ip = ip_address(address)
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        return ip.ipv4_mapped.is_link_local
    return ip.is_link_local
