"""The Outcome of a finished task, and the past tasks that routing recalls."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from orchestrator.common.fields import Give, Text, check
from orchestrator.errors import InvalidInput

OutcomeSource = Literal["run", "serve", "api", "import"]
Name = tuple[str, str]
"""A tool's key and the hash of its definition."""
Known = Callable[[str, str], bool]
"""Returns True if the catalogue has the tool with this key and hash, and nothing forbids its use."""
WHEN = "seconds since 1970, at most a day ahead of now (milliseconds: divide by 1,000)"
_AHEAD_S = 86_400.0
"""Clocks of machines differ by less. A larger difference is a time in milliseconds."""


def is_past(at: float) -> bool:
    """Return True if a task may have this time. It may lie one day ahead, because clocks differ."""
    return 0 <= at <= time.time() + _AHEAD_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A tool that a task used.

    Attributes:
        tool: The key of the tool.
        hash: The hash of its definition at that time.
        ok: Whether the call worked.
        ms: The duration of the call, in milliseconds. None if unknown.

    Examples:
        >>> from orchestrator import Use
        >>> Use(tool="stripe:refund_charge", ms=412.0).ok
        True
    """

    tool: str
    hash: str = ""
    ok: bool = True
    ms: float | None = None


def uses_of(used: Any) -> tuple[Use, ...]:
    """Return a Use for each tool.

    Args:
        used: Tools as keys, Tools, Uses, or records with a `tool`, such as a Match.
    """
    if not isinstance(used, Sequence) or isinstance(used, str):
        raise InvalidInput(
            f"used={used!r:.80}: give a list of tools, e.g. ['server:name'], [] for none"
        )
    uses = []
    for item in used:
        key = getattr(getattr(item, "tool", item), "key", item)
        if not isinstance(key, str | Use):
            raise InvalidInput(
                f"{key!r:.80} in used: give a tool's key, a Tool, a Match, or a result of Decision.resolve"
            )
        uses.append(key if isinstance(key, Use) else Use(tool=key))
    return tuple(uses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A tool that routing ranked for a task, or that the task used.

    Attributes:
        tool: The key of the tool.
        hash: The hash of its definition.
        chance: Its probability without any Experience.

    Examples:
        >>> from orchestrator import Offer
        >>> Offer(tool="stripe:refund_charge", hash="bdc3f89b9800aa11", chance=0.8).chance
        0.8
    """

    tool: str
    hash: str
    chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A probability that routing gave its best tool, compared with the truth.

    Attributes:
        chance: The probability, before any correction for the tenant.
        right: Whether the task used that tool.

    Examples:
        >>> from orchestrator import Claim
        >>> Claim(chance=0.9, right=True).right
        True
    """

    chance: float
    right: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A finished task, with the tools that it used. `Router.record` makes it.

    Attributes:
        id: The id. An Outcome with the same id replaces the earlier one.
        query: The task. Empty if texts are not kept.
        used: The tools that the task used.
        ok: Whether the task succeeded.
        actor: The person who asked.
        at: The time, in seconds since 1970.
        source: The part of toolroute that recorded it.
        offered: The tools that routing ranked best and the tools that the task used. Later tasks are compared with
            these.
        words: The claim of the keyword leg, by which the gate decides.
        both: The claim with the semantic leg and the Experience of that time, if the gate did not skip the semantic
            leg.
        chosen: Whether a person or a model chose the tools. If routing alone chose them, only the used tools count.

    Raises:
        InvalidInput: A field has a wrong type.

    Examples:
        >>> from orchestrator import Outcome, Use
        >>> outcome = Outcome(id="t1", query="Friday thing for the board", used=(Use(tool="google_drive:createFile"),))
        >>> [use.tool for use in outcome.worked]
        ['google_drive:createFile']
    """

    id: str
    query: Text
    used: Annotated[tuple[Use, ...], Give("a tuple of Use records")]
    ok: Annotated[bool, Give("True or False")] = True
    actor: Annotated[str, Give("the person who asked, as a text")] = ""
    at: Annotated[float, Give(WHEN, accepts=is_past)] = 0.0
    source: OutcomeSource = "api"
    offered: tuple[Offer, ...] = ()
    words: Claim | None = None
    both: Claim | None = None
    chosen: bool = True

    def __post_init__(self) -> None:
        check(self)

    @property
    def worked(self) -> tuple[Use, ...]:
        """The tools that worked for the task. Empty if the task failed."""
        return tuple(use for use in self.used if use.ok) if self.ok else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRequest:
    """A request to remember a finished task. The fields are the arguments of `Router.record`."""

    tenant: str
    query: str
    used: tuple[Use, ...]
    ok: bool = True
    actor: str = ""
    at: float | None = None
    source: OutcomeSource = "api"
    name: str = ""
    chosen: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """A past task that is similar to the current one.

    Attributes:
        cosine: The cosine of the two tasks.
        query: The text of the past task. Empty if texts are not kept.
        used: The keys of the tools that it used.

    Examples:
        >>> from orchestrator import Near
        >>> Near(cosine=0.91, query="refund ch_1", used=("stripe:refund_charge",)).used
        ('stripe:refund_charge',)
    """

    cosine: float
    query: str
    used: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The nearest past tasks and their votes.

    Attributes:
        tasks: The past tasks, nearest first.
        lifts: The increase of the log-odds of each tool that they used, by key.
        agreed: The part of `lifts` that does not come from only one of several people.
        alone: The keys of the tools that only a single task used, or only tasks of one person who did not ask.
        decided_alone: The key of the tool that is first because of such tasks. Otherwise empty.
    """

    tasks: tuple[Near, ...]
    lifts: Mapping[str, float]
    agreed: Mapping[str, float]
    alone: frozenset[str] = frozenset()
    decided_alone: str = ""
