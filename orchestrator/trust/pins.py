"""Pins: the accepted definitions of a tenant's tools, and changed definitions that wait for acceptance.

If no change is waiting, the stored definition is the pin. The store also keeps the accepted definitions of tools that
have a waiting change or are gone.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from orchestrator.common.digests import COMPARED_DIGITS, digest_of, same_server
from orchestrator.common.keys import normal_name
from orchestrator.errors import InvalidConfig, InvalidInput
from orchestrator.index.flags import QUARANTINED, VOUCHED, without_label
from orchestrator.records.call import ChangePolicy
from orchestrator.records.tool import Tool, as_chosen, definition_digest
from orchestrator.store.store import Store
from orchestrator.trust.definition_changes import (
    Difference,
    differences,
    is_quarantined,
    plain,
    quarantined,
    same_definition,
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
    store: Store,
    tenant: str,
    server: str,
    entry: str,
    listed: Sequence[Tool],
    stored: Sequence[Tool],
) -> list[Tool]:
    """Return the listed tools in the form to store: each changed definition passes or is quarantined.

    A definition is compared with the accepted one, which the store keeps while another definition waits and while the
    tool is gone. So a change cannot pass in two steps. The accepted definition is stored before the new one is written.
    Definitions from another entry, which the user has replaced, are not compared.

    Args:
        store: The store with the accepted definitions, which change here. Its `change_policy` decides.
        tenant: The tenant.
        server: The name of the server.
        entry: The identity of the entry that listed the server.
        listed: The tools that the server has now.
        stored: The stored tools of the server.
    """
    stored_by_name = {tool.name: tool for tool in stored}
    listed_names = {tool.name for tool in listed}
    kept_before, pins = _pins(store, tenant, server, entry, stored)
    pins_by_normal_name = {normal_name(name): pin for name, pin in pins.items()}
    kept = {name: pin for name, pin in pins.items() if name not in listed_names}
    tools = list[Tool]()
    for tool in listed:
        pin = pins.get(tool.name) or pins_by_normal_name.get(normal_name(tool.name))
        judged_tool = _judged_tool(tool, stored_by_name.get(tool.name), pin, store.change_policy)
        tools.append(judged_tool)
        if pin is not None and is_quarantined(judged_tool):
            kept[tool.name] = pin
    # Bounded, because a server could list and drop names without end.
    kept = dict([*kept.items()][-_MOST_PINS:])
    if kept != kept_before:
        gone = kept_before.keys() - kept.keys()
        added = {name: pin for name, pin in kept.items() if kept_before.get(name) != pin}
        # Another process may change the pins of other tools at the same time.
        store.records.update_accepted(
            tenant,
            server,
            entry,
            lambda pins: {name: pin for name, pin in pins.items() if name not in gone} | added,
        )
    return tools


def _judged_tool(listed: Tool, stored: Tool | None, pin: Tool | None, policy: ChangePolicy) -> Tool:
    """Return a listed tool in the form to store. If its accepted definition was lost, it keeps waiting."""
    tool = plain(as_chosen(listed, stored or pin or listed))
    if pin is not None:
        if same_definition(tool, pin):
            return pin
        why = quarantined(pin, tool, policy)
    elif stored is not None and policy != "open":
        why = stored.labels.get(QUARANTINED, "")
    else:
        why = ""
    if why:
        return set_apart(tool, why, pin)
    return stored if stored is not None and same_definition(stored, tool) else tool


def _pins(
    store: Store, tenant: str, server: str, entry: str, stored: Sequence[Tool]
) -> tuple[dict[str, Tool], dict[str, Tool]]:
    """Return the separately stored accepted definitions, and all accepted definitions."""
    try:
        is_same_server = same_server(store.entries(tenant).get(server, ""), entry)
        # Read after the tools, as it is written before them.
        kept = store.records.accepted(tenant, server, entry)
    except InvalidConfig:  # All that the tenant has is damaged, and is about to be written anew.
        return {}, {}
    pins = {tool.name: tool for tool in stored if is_same_server and not is_quarantined(tool)}
    return kept, pins | kept


def waiting(store: Store, tenant: str) -> list[Waiting]:
    """Return the tenant's changed definitions that wait."""
    entries = store.entries(tenant)
    changed = list[Waiting]()
    for server in store.servers(tenant, own=True):
        tools = [tool for tool in store.of_server(tenant, server) if is_quarantined(tool)]
        if not tools:
            continue
        pins = store.records.accepted(tenant, server, entries.get(server, ""))
        for tool in tools:
            pin = pins.get(tool.name)
            changes = differences(plain(pin), plain(tool)) if pin else ()
            why = tool.labels[QUARANTINED]
            changed.append(Waiting(tool, why, changes, pin))
    return changed


def trust_digest(tools: Collection[Tool]) -> str:
    """Return the digest of the definitions that a person reads before they are trusted."""
    definitions = sorted([tool.key, definition_digest(plain(tool))] for tool in tools)
    return digest_of(definitions, digits=COMPARED_DIGITS)


def accept(store: Store, tenant: str, tools: Mapping[str, Tool]) -> None:
    """Accept these definitions, as they were shown. Later definitions are compared with them.

    Args:
        store: The store.
        tenant: The tenant.
        tools: The tools by key, as they were shown.

    Raises:
        InvalidInput: A tool has another definition by now. Nothing of its server is accepted.
    """
    entries = store.entries(tenant)
    for server in _servers_of(tools):
        entry = entries.get(server, "")
        stored = [tool for tool in store.of_server(tenant, server) if tool.key in tools]
        for tool in stored:
            if tool.hash != tools[tool.key].hash:
                raise InvalidInput(
                    f"{tool.key} was not accepted: it has changed since it was shown. Read it again"
                )
        # Read before the exchange: a pin that another process writes meanwhile is not removed below.
        pins = store.records.accepted(tenant, server, entry)
        store.exchange_tools(tenant, server, [(tool, _vouched(tool)) for tool in stored])
        accepted = {tool.name: pins[tool.name] for tool in stored if tool.name in pins}
        if accepted:
            store.records.update_accepted(
                tenant, server, entry, partial(_without, accepted=accepted)
            )


def _without(pins: Mapping[str, Tool], accepted: Mapping[str, Tool]) -> dict[str, Tool]:
    """Return the pins without those of accepted tools. A pin that was replaced in the meantime stays."""
    return {name: pin for name, pin in pins.items() if accepted.get(name) != pin}


def withdraw(store: Store, tenant: str, keys: Collection[str]) -> None:
    """Withdraw the acceptance of these tools' flags. An accepted definition stays accepted.

    Args:
        store: The store.
        tenant: The tenant.
        keys: The tools' keys.
    """
    for server in _servers_of(keys):
        tools = [tool for tool in store.of_server(tenant, server) if tool.key in keys]
        store.exchange_tools(
            tenant, server, [(tool, without_label(tool, VOUCHED)) for tool in tools]
        )


def _servers_of(keys: Collection[str]) -> list[str]:
    return sorted({key.partition(":")[0] for key in keys})


def _vouched(tool: Tool) -> Tool:
    accepted = plain(tool)
    return replace(accepted, labels={**accepted.labels, VOUCHED: "yes"}, hash="")
