"""Pins: the accepted definitions of a tenant's tools, and changed definitions that wait for acceptance.

If no change is waiting, the stored definition is the pin. The store also keeps the accepted definitions of tools that
have a waiting change or are gone.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

from orchestrator.common.digests import COMPARED_DIGITS, digest_of, same_server
from orchestrator.common.keys import normal_name
from orchestrator.errors import InvalidInput, StoreBusy
from orchestrator.index.flags import QUARANTINED, VOUCHED, without_label
from orchestrator.records.call import ChangePolicy
from orchestrator.records.tool import Tool, as_chosen, definition_digest
from orchestrator.store.backend import Damaged
from orchestrator.store.listing_records import ANY_TOOL, Accepted
from orchestrator.store.store import Store
from orchestrator.store.tools.manifest import Changes
from orchestrator.store.tools.server_tools import ServerTools
from orchestrator.store.tools.writer import Outdated
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
_MOST_PIN_BYTES = 8 * 2**20
"""The bytes of these definitions, twice the limit of a listing. A Qdrant server takes 32 MB in a request."""
_TRIES = 20
"""A try fails only if another writer has changed the same server's tools."""
_LOST = "the record of the definition that was accepted is damaged"
"""Why a tool waits whose record was lost."""
_ANY_LOST = "the list of accepted definitions is damaged, so the tool may not be new"
"""Why a tool waits of which nobody knows whether it has a record."""


class Waiting(NamedTuple):
    """A changed definition that waits: why, how it differs from the accepted one, and that one, if it is known."""

    tool: Tool
    why: str
    differences: Sequence[Difference]
    before: Tool | None = None


@dataclass(frozen=True, kw_only=True)
class _Known:
    """What the store knows of a server's tools.

    Attributes:
        stored: The stored tools.
        accepted: The accepted definitions that are stored apart.
        is_same_server: Whether the stored tools are those of the server that is listed now.
    """

    stored: ServerTools = field(default_factory=ServerTools)
    accepted: Accepted = field(default_factory=Accepted)
    is_same_server: bool = True

    @cached_property
    def served(self) -> dict[str, Tool]:
        """The stored tools that a server lists, by name. Others were imported."""
        return {name: tool for name, tool in self.stored.tools.items() if tool.kind.is_served}

    @cached_property
    def pins(self) -> dict[str, Tool]:
        """The definitions that were accepted last, by name."""
        if not self.is_same_server:
            return self.accepted.tools
        # A stored definition that does not wait was accepted last.
        stored = {name: tool for name, tool in self.served.items() if not is_quarantined(tool)}
        return self.accepted.tools | stored

    @cached_property
    def _pins_by_normal_name(self) -> dict[str, Tool]:
        return {normal_name(name): pin for name, pin in self.pins.items()}

    @cached_property
    def _lost(self) -> frozenset[str]:
        """The normal names of tools whose records cannot be read. With `ANY_TOOL`, any other tool may be one."""
        damaged = self.stored.damaged if self.is_same_server else frozenset()
        return frozenset(map(normal_name, self.accepted.lost | damaged))

    def pin(self, name: str) -> Tool | None:
        """Return the accepted definition of a tool with this name, or with one that is the same in the normal form."""
        return self.pins.get(name) or self._pins_by_normal_name.get(normal_name(name))

    def why_lost(self, name: str) -> str:
        """Return the reason for which a tool without an accepted definition waits, or ""."""
        if normal_name(name) in self._lost:
            return _LOST
        return _ANY_LOST if ANY_TOOL in self._lost else ""


def store_judged(
    store: Store, tenant: str, server: str, entry: str, listed: Sequence[Tool], file: str = ""
) -> Changes:
    """Store the listed tools of a server: each changed definition passes or is quarantined.

    A definition is compared with the accepted one, which the store keeps while another definition waits and while the
    tool is gone. So a change cannot pass in two steps. A record that cannot be read is no evidence of an accepted
    definition, so a tool that it may be about waits. The accepted definition is stored before the new one is written.
    If another writer changes the server's tools meanwhile, they are compared again. Definitions from another entry,
    which the user has replaced, are not compared.

    Args:
        store: The store with the accepted definitions, which change here. Its `change_policy` decides.
        tenant: The tenant.
        server: The name of the server.
        entry: The identity of the entry that listed the server.
        listed: The tools that the server has now.
        file: The configuration file with the entry.

    Raises:
        StoreBusy: Other writers kept changing the server's tools.
    """
    for _ in range(_TRIES):
        before = _known(store, tenant, server, entry)
        tools = [_judged_tool(tool, before, store.change_policy) for tool in listed]
        pins_to_keep = _to_keep(tools, before)
        if any(before.accepted.tools.get(name) != pin for name, pin in pins_to_keep.items()):
            # Another process may change the pins of other tools at the same time.
            add = partial(
                Accepted.with_tools,
                added=pins_to_keep,
                most=_MOST_PINS,
                most_bytes=_MOST_PIN_BYTES,
            )
            store.records.update_accepted(tenant, server, entry, add)
        with suppress(Outdated):
            return store.replace_server(
                tenant, server, tools, entry=entry, file=file, replaced=before.stored
            )
    raise StoreBusy(
        f"the store {store} is busy: other writers changed the tools of server {server!r} first, {_TRIES} times; "
        "try again"
    )


def _to_keep(tools: Sequence[Tool], before: _Known) -> dict[str, Tool]:
    """Return the accepted definitions of tools that wait or are gone, by name."""
    pins = dict(before.pins)
    for tool in tools:
        pins.pop(tool.name, None)
        pin = before.pin(tool.name)
        if pin is not None and is_quarantined(tool):
            pins[tool.name] = pin
    return pins


def _judged_tool(listed: Tool, before: _Known, policy: ChangePolicy) -> Tool:
    """Return a listed tool in the form to store. If its accepted definition was lost, it keeps waiting."""
    stored = before.served.get(listed.name)
    pin = before.pin(listed.name)
    tool = plain(as_chosen(listed, stored or pin or listed))
    if pin is not None:
        if same_definition(tool, pin):
            return pin
        why = quarantined(pin, tool, policy)
    elif policy == "open":
        why = ""
    elif stored is not None:
        why = stored.labels.get(QUARANTINED, "")
    else:
        why = before.why_lost(listed.name)
    if why:
        return set_apart(tool, why, pin)
    return stored if stored is not None and same_definition(stored, tool) else tool


def _known(store: Store, tenant: str, server: str, entry: str) -> _Known:
    try:
        stored = store.server_tools(tenant, server)
        # Read after the tools, as it is written before them.
        accepted = store.records.accepted(tenant, server, entry)
    except Damaged:  # All that the tenant has is damaged, and is about to be written anew.
        return _Known(accepted=Accepted(lost=frozenset([ANY_TOOL])))
    is_same_server = same_server(stored.entry, entry)
    return _Known(stored=stored, accepted=accepted, is_same_server=is_same_server)


def waiting(store: Store, tenant: str) -> list[Waiting]:
    """Return the tenant's changed definitions that wait."""
    entries = store.entries(tenant)
    changed = list[Waiting]()
    for server in store.servers(tenant, own=True):
        tools = [tool for tool in store.of_server(tenant, server) if is_quarantined(tool)]
        if not tools:
            continue
        pins = store.records.accepted(tenant, server, entries.get(server, "")).tools
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
        InvalidInput: A tool has another definition by now, or is gone. Tools before it may be accepted.
    """
    for server in _servers_of(tools):
        shown = {key: tool for key, tool in tools.items() if tool.server == server}
        stored = {tool.key: tool for tool in store.of_server(tenant, server)}
        for key, tool in shown.items():
            if key not in stored or stored[key].hash != tool.hash:
                raise _changed_since_shown(key)
        exchanges = [(stored[key], _vouched(stored[key])) for key in shown]
        changed = store.exchange_tools(tenant, server, exchanges).changed
        for before, accepted in exchanges:
            if before.hash != accepted.hash and before.name not in changed:
                raise _changed_since_shown(before.key)


def _changed_since_shown(key: str) -> InvalidInput:
    return InvalidInput(
        f"{key} was not accepted: it has changed or gone since it was shown. Read it again"
    )


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
