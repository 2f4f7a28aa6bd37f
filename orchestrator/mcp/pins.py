"""Pins: the accepted definitions of a tenant's tools, and the changed ones that wait until somebody accepts them.

The definition that a store holds is the pin, as long as nothing waits. Beside it, a store keeps the accepted
definitions of the tools that are defined otherwise now or are gone.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from orchestrator.common.digests import same_server
from orchestrator.errors import InvalidConfig
from orchestrator.index.changes import (
    ChangePolicy,
    Difference,
    differences,
    is_quarantined,
    plain,
    quarantined,
    set_apart,
)
from orchestrator.index.safety import QUARANTINED, VOUCHED, without_label
from orchestrator.mcp.calls import as_chosen
from orchestrator.records.tool import Tool
from orchestrator.store.store import Store

_MOST_PINS = 5_000
"""The accepted definitions that are kept of one server's tools that wait or are gone."""


class Waiting(NamedTuple):
    """A changed definition that waits: why, and how it differs from the accepted one, if that is known."""

    tool: Tool
    why: str
    differences: Sequence[Difference]


def judged(
    store: Store, tenant: str, server: str, entry: str, listed: Sequence[Tool], held: Sequence[Tool]
) -> list[Tool]:
    """Return the listed tools as they are stored: each changed definition passes or is quarantined.

    A definition is compared with the one that was accepted, which the store keeps while another one waits, and while
    the tool is gone, so that nothing passes in two steps. It is kept before the new definitions are written. What
    another entry listed, which the user has replaced, is not compared.
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
    """Return the accepted definitions that are kept beside the tools, and all that are known."""
    try:
        is_same = same_server(store.entries(tenant).get(server, ""), entry)
        before = store.accepted(tenant, server, entry)  # Read after the tools, as it is written before them.
    except InvalidConfig:  # All that the tenant has is damaged, and is about to be written anew.
        return {}, {}
    return before, {tool.name: tool for tool in held if is_same and not is_quarantined(tool)} | before


def _why_waiting(own: Tool | None, pin: Tool | None, new: Tool, policy: ChangePolicy) -> str:
    """Return why a definition waits; one whose accepted definition was lost goes on waiting."""
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
            shown = differences(plain(pins[tool.name]), plain(tool)) if tool.name in pins else ()
            found.append(Waiting(tool, tool.labels[QUARANTINED], shown))
    return found


def accept(store: Store, tenant: str, keys: Collection[str]) -> None:
    """Accept the stored definitions of these tools, and vouch for them; later definitions are compared with these."""
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
    """Vouch for these tools no more. A definition that was accepted stays so."""
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
