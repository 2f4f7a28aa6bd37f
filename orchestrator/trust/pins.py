"""Pins: the accepted definitions of a tenant's tools, and changed definitions that wait for acceptance.

If no change is waiting, the stored definition is the pin. The store also keeps the accepted definitions of tools that
have a waiting change or are gone.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from orchestrator.common.digests import same_server
from orchestrator.errors import InvalidConfig
from orchestrator.index.flags import QUARANTINED, VOUCHED, without_label
from orchestrator.mcp.calls import as_chosen
from orchestrator.records.tool import Tool
from orchestrator.store.store import Store
from orchestrator.trust.definition_changes import (
    ChangePolicy,
    Difference,
    differences,
    is_quarantined,
    plain,
    quarantined,
    set_apart,
)

_MOST_PINS = 5_000
"""The stored accepted definitions of one server's tools that wait or are gone."""


class Waiting(NamedTuple):
    """A changed definition that waits: why, how it differs from the accepted one, and that one, if it is known."""

    tool: Tool
    why: str
    differences: Sequence[Difference]
    before: Tool | None = None


def judged(
    store: Store, tenant: str, server: str, entry: str, listed: Sequence[Tool], held: Sequence[Tool]
) -> list[Tool]:
    """Return the listed tools in the form to store: each changed definition passes or is quarantined.

    A definition is compared with the accepted one, which the store keeps while another definition waits and while the
    tool is gone. So a change cannot pass in two steps. The accepted definition is stored before the new one is written.
    Definitions from another entry, which the user has replaced, are not compared.
    """
    by_name = {tool.name: tool for tool in held}
    before, pins = _known(store, tenant, server, entry, held)
    names = {tool.name for tool in listed}
    now, kept = list[Tool](), {name: pin for name, pin in pins.items() if name not in names}
    for tool in listed:
        own, pin = by_name.get(tool.name), pins.get(tool.name)
        new = plain(as_chosen(tool, own or pin or tool))
        if pin is not None and new.hash == plain(pin).hash:
            now.append(pin)
        elif why := _why_waiting(own, pin, new, store.change_policy):
            now.append(set_apart(new, why))
            kept |= {tool.name: pin} if pin else {}
        else:
            now.append(own if own is not None and plain(own).hash == new.hash else new)
    if (kept := dict([*kept.items()][-_MOST_PINS:])) != before:
        store.note_accepted(tenant, server, entry, kept)
    return now


def _known(
    store: Store, tenant: str, server: str, entry: str, held: Sequence[Tool]
) -> tuple[dict[str, Tool], dict[str, Tool]]:
    """Return the separately stored accepted definitions, and all accepted definitions."""
    try:
        is_same = same_server(store.entries(tenant).get(server, ""), entry)
        before = store.accepted(tenant, server, entry)  # Read after the tools, as it is written before them.
    except InvalidConfig:  # All that the tenant has is damaged, and is about to be written anew.
        return {}, {}
    return before, {tool.name: tool for tool in held if is_same and not is_quarantined(tool)} | before


def _why_waiting(own: Tool | None, pin: Tool | None, new: Tool, policy: ChangePolicy) -> str:
    """Return the reason why a definition waits. If its accepted definition was lost, it keeps waiting."""
    if pin is not None:
        return quarantined(pin, new, policy)
    return own.labels.get(QUARANTINED, "") if own is not None and policy != "open" else ""


def waiting(store: Store, tenant: str) -> list[Waiting]:
    """Return the tenant's changed definitions that wait."""
    found, entries = list[Waiting](), store.entries(tenant)
    for server in store.servers(tenant, own=True):
        own = [tool for tool in store.of_server(tenant, server) if is_quarantined(tool)]
        pins = store.accepted(tenant, server, entries.get(server, "")) if own else {}
        for tool in own:
            pin = pins.get(tool.name)
            shown = differences(plain(pin), plain(tool)) if pin else ()
            found.append(Waiting(tool, tool.labels[QUARANTINED], shown, pin))
    return found


def accept(store: Store, tenant: str, keys: Collection[str]) -> None:
    """Accept the stored definitions of these tools. Later definitions are compared with them.

    Args:
        store: The store.
        tenant: The tenant.
        keys: The tools' keys.
    """
    entries = store.entries(tenant)
    for server in _servers_of(keys):
        tools = store.of_server(tenant, server)
        now = [_vouched(tool) if tool.key in keys else tool for tool in tools]
        store.replace_server(tenant, server, now)
        kept = store.accepted(tenant, server, entries.get(server, ""))
        rest = {name: tool for name, tool in kept.items() if f"{server}:{name}" not in keys}
        if rest != kept:
            store.note_accepted(tenant, server, entries.get(server, ""), rest)


def withdraw(store: Store, tenant: str, keys: Collection[str]) -> None:
    """Withdraw the acceptance of these tools' flags. An accepted definition stays accepted.

    Args:
        store: The store.
        tenant: The tenant.
        keys: The tools' keys.
    """
    for server in _servers_of(keys):
        tools = store.of_server(tenant, server)
        store.replace_server(
            tenant, server, [without_label(tool, VOUCHED) if tool.key in keys else tool for tool in tools]
        )


def _servers_of(keys: Collection[str]) -> list[str]:
    return sorted({key.partition(":")[0] for key in keys})


def _vouched(tool: Tool) -> Tool:
    own = plain(tool)
    return replace(own, labels={**own.labels, VOUCHED: "yes"}, hash="")
