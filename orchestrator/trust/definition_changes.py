"""Compares a tool's definition with the accepted one and decides whether the change waits for acceptance.

A tool's definition is pinned when it is first stored. A later, different definition replaces it at once only if the
policy allows it. Otherwise it is quarantined: the label QUARANTINED has the reason.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from orchestrator.catalogue.export import parameters
from orchestrator.index.flags import QUARANTINED, VOUCHED, suspicions, without_label
from orchestrator.index.intent import name_words, reads_only
from orchestrator.index.text import split_words, stem
from orchestrator.records.tool import Tool

ChangePolicy = Literal["strict", "safe", "open"]
"""The changed definitions that wait for acceptance: all, those that may do more than the accepted definition, or
none."""
_MOST_SHOWN = 300
_ACCEPTED = (QUARANTINED, VOUCHED)
"""The labels that belong to one definition and are not copied to the next."""


class Difference(NamedTuple):
    """One difference between two definitions of a tool: the part, its old and new value, and the reason why it waits,
    or "".
    """

    part: str
    before: str
    now: str
    risk: str = ""


def differences(before: Tool, now: Tool) -> list[Difference]:
    """Return the differences between two definitions of a tool, risky ones first."""
    found = [*_of_texts(before, now), *_of_hints(before, now), *_of_parameters(before, now)]
    return sorted(found, key=lambda one: not one.risk)


def quarantined(before: Tool, now: Tool, policy: ChangePolicy) -> str:
    """Return the reason why a changed definition waits, or "" if it passes.

    Args:
        before: The accepted definition.
        now: The new definition.
        policy: `strict`, `safe` or `open`.
    """
    if policy == "open":
        return ""
    found = differences(plain(before), plain(now))
    risks = [one.risk or f"another {one.part}" for one in found if one.risk or policy == "strict"]
    return "; ".join(dict.fromkeys(risks))[:_MOST_SHOWN]


def plain(tool: Tool) -> Tool:
    """Return the tool without the labels about its review."""
    return without_label(tool, *_ACCEPTED) if tool.labels.keys() & set(_ACCEPTED) else tool


def set_apart(tool: Tool, why: str) -> Tool:
    """Return the quarantined form of a tool, with the reason."""
    return replace(tool, labels={**plain(tool).labels, QUARANTINED: why}, hash="")


def as_judged(before: Tool, now: Tool, policy: ChangePolicy) -> Tool:
    """Return a definition before its call: quarantined if its change must wait, otherwise unchanged.

    Args:
        before: The accepted definition.
        now: The new definition.
        policy: `strict`, `safe` or `open`.
    """
    if now.hash == before.hash:
        return now
    why = quarantined(before, now, policy)
    return set_apart(now, why) if why else plain(now)


def is_quarantined(tool: Tool) -> bool:
    """Return True if the tool's definition waits for acceptance."""
    return QUARANTINED in tool.labels


def _of_texts(before: Tool, now: Tool) -> Iterator[Difference]:
    flags = [flag for flag in suspicions(now) if flag not in suspicions(before)]
    if flags:
        yield Difference("flag", "", "; ".join(flags), f"flagged: {'; '.join(flags)}")
    if before.title != now.title:
        yield Difference("title", before.title, now.title)
    if before.description != now.description:
        was, is_ = _first_action(before), _first_action(now)
        risk = f"its description starts with {is_!r} instead of {was!r}" if was != is_ and was and is_ else ""
        yield Difference("description", before.description, now.description, risk)


def _first_action(tool: Tool) -> str:
    """Return the first word of a description, as a stem, unless that is the tool's own name."""
    first = next(iter(split_words(tool.description[:100])), "")
    return "" if first in name_words(tool)[1:] else stem(first)


def _of_hints(before: Tool, now: Tool) -> Iterator[Difference]:
    """Yield the hints that differ, and the one difference that no hint may show: whether a call is asked about."""
    was, is_ = before.annotations, now.annotations
    for name in ("read_only", "destructive", "idempotent", "open_world"):
        old, new = getattr(was, name), getattr(is_, name)
        if old != new:
            weaker = {
                "destructive": old is False,
                "open_world": old is False,
                "read_only": old is True,
                "idempotent": old is True,
            }[name]
            risk = f"{name}: {_hint(old)} before, {_hint(new)} now" if weaker else ""
            yield Difference(f"hint {name}", _hint(old), _hint(new), risk)
    if reads_only(before) != reads_only(now):
        risk = "it may change something now" if reads_only(before) else "it claims to only read now"
        yield Difference(
            "approval", *(("not needed", "needed") if reads_only(before) else ("needed", "not needed")), risk
        )


def _hint(value: bool | None) -> str:
    return "not said" if value is None else str(value).lower()


def _of_parameters(before: Tool, now: Tool) -> Iterator[Difference]:
    was, is_ = _named(before), _named(now)
    for name in dict.fromkeys((*was, *is_)):
        if was.get(name) != is_.get(name):
            risk = f"a new parameter {name!r}" if name not in was else ""
            yield Difference(f"parameter {name}", _shown(was, name), _shown(is_, name), risk)
    for name in _inner_names(now) - _inner_names(before):
        if name not in is_.keys() - was.keys():
            yield Difference(f"inner parameter {name}", "", name, f"a new parameter {name!r}")
    rest_before, rest_now = ({**parameters(one), "properties": None} for one in (before, now))
    if rest_before != rest_now:
        yield Difference("schema", json.dumps(rest_before, sort_keys=True), json.dumps(rest_now, sort_keys=True))


def _named(tool: Tool) -> dict[str, Any]:
    """Return a tool's parameters, including those that are only listed as required."""
    schema = parameters(tool)
    required = schema.get("required")
    only_required = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    return {**{name: {} for name in only_required}, **schema["properties"]}


def _inner_names(tool: Tool) -> Counter[str]:
    """Return the names of all properties at any depth of a tool's schema, and how often each occurs."""
    found, left = Counter[str](), list[Any]([parameters(tool)])
    while left:
        part = left.pop()
        if isinstance(part, dict):
            for word in ("properties", "patternProperties"):
                found.update([*own] if isinstance(own := part.get(word), dict) else ())
            left += part.values()
        elif isinstance(part, list):
            left += part
    return found


def _shown(properties: dict[str, Any], name: str) -> str:
    return json.dumps(properties[name], ensure_ascii=False, sort_keys=True) if name in properties else ""
