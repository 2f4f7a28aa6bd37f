"""The Outcome: what became of a task, and what routing recalls of such tasks."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Predicate

from orchestrator.common.fields import Give, Text, check
from orchestrator.errors import InvalidInput

OutcomeSource = Literal["run", "serve", "api", "import"]
Name = tuple[str, str]
"""A tool's key and the hash of its definition."""
Known = Callable[[str, str], bool]
"""Returns whether a tool, by key and hash, is in the catalogue as it was, and nothing speaks against it."""
WHEN = "seconds since 1970, at most a day ahead of now (milliseconds: divide by 1,000)"
_AHEAD_S = 86_400.0


def is_past(at: float) -> bool:
    """Return whether a task may be that old: clocks may differ by a day."""
    return 0 <= at <= time.time() + _AHEAD_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A tool that a task used: its key, the hash of its definition then, whether it worked, and how long it took."""

    tool: str
    hash: str = ""
    ok: bool = True
    ms: float | None = None


def uses_of(used: Any) -> tuple[Use, ...]:
    """Return a Use of each tool: a key, a Tool, what has one (a Match, a resolved call), or a Use."""
    if not isinstance(used, Sequence) or isinstance(used, str):
        raise InvalidInput(f"used={used!r:.80}: give a list of tools, e.g. ['server:name'], [] for none")
    keys: list[Any] = [getattr(getattr(one, "tool", one), "key", one) for one in used]
    if wrong := [key for key in keys if not isinstance(key, str | Use)]:
        raise InvalidInput(
            f"{wrong[0]!r:.80} in used: give a tool's key, a Tool, a Match, or what Decision.resolve returns"
        )
    return tuple(key if isinstance(key, Use) else Use(tool=key) for key in keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A tool that routing ranked for a task, or that the task used: its chance without any Experience."""

    tool: str
    hash: str
    chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A chance that routing gave its best tool, before any tenant's correction, and whether the task used that tool."""

    chance: float
    right: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a task: the tools it used, and by whom and when.

    `id` names it: one that is recorded again counts once. `at`: seconds since 1970. `offered`: the tools that it used
    and those that routing ranked best, by which later tasks are compared with this one.
    `chosen`: by a person or a model; of what routing alone chose, only what was used says something. `words`: what
    the gate claimed; `both`: what was claimed where the gate was closed, with the Experience of then.
    InvalidInput for fields of another form.
    """

    id: str
    query: Text
    used: Annotated[tuple[Use, ...], Give("a tuple of Use records")]
    ok: Annotated[bool, Give("True or False")] = True
    actor: Annotated[str, Give("who asked, as a text")] = ""
    at: Annotated[float, Predicate(is_past), Give(WHEN)] = 0.0
    source: OutcomeSource = "api"
    offered: tuple[Offer, ...] = ()
    words: Claim | None = None
    both: Claim | None = None
    chosen: bool = True

    def __post_init__(self) -> None:
        check(self)

    @property
    def worked(self) -> tuple[Use, ...]:
        """The tools that did what the task wanted: none of a task that failed."""
        return tuple(use for use in self.used if use.ok) if self.ok else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRequest:
    """An Outcome to remember, before routing has looked at its task; the fields are those of `Router.record`."""

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
    """A past task like this one: its cosine, its text where texts are kept, and the keys of the tools that it used."""

    cosine: float
    query: str
    used: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The nearest past tasks, nearest first, and how far they raise the log-odds of the tools that they used, by key.

    `agreed`: the part of `lifts` that does not rest on one person of several.
    """

    tasks: tuple[Near, ...]
    lifts: Mapping[str, float]
    agreed: Mapping[str, float]
