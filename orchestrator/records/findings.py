"""What routing's stages find, as plain records that pass from one worker to the next."""

from dataclasses import dataclass, field

from orchestrator.records.about import About
from orchestrator.records.decision import NamedServer
from orchestrator.records.outcome import Recalled
from orchestrator.records.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class AlwaysMatch:
    """An always-available capability that a task asks for: by which phrase, and the least that it scores."""

    phrase: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A server that a task names, in the words `said`; `unwanted`: the task excludes it."""

    server: str
    said: str
    unwanted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Explicit:
    """The servers that a task names. `absent`: names of configured servers whose tools are not listed."""

    mentions: tuple[Mention, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def wanted(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(m.server for m in self.mentions if not m.unwanted))

    @property
    def named(self) -> tuple[NamedServer, ...]:
        """The servers that are wanted, with those that have no tools."""
        known = (NamedServer(said=m.said, server=m.server) for m in self.mentions if not m.unwanted)
        return (*dict.fromkeys(known), *(NamedServer(said=said) for said in self.absent))

    @property
    def unwanted(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(m.server for m in self.mentions if m.unwanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a language model says that a task takes, in the words of such tools; what that took; warnings."""

    texts: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartEvidence:
    """The candidates of a task or of one of its parts, by key, with what each leg makes of them.

    `rows`: their features [candidates, features] as float64 in base64, lowest byte first; `query`: the task's own.
    """

    tools: tuple[str, ...]
    rows: str
    query: tuple[float, ...]
    overlap: tuple[bool, ...]
    support: tuple[float, ...]
    keyword: tuple[float, ...]
    semantic: tuple[float, ...] | None
    chances: tuple[float, ...]
    sure: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What the stages so far have found: Found with keys for positions and lists for arrays, to the last digit.

    `catalogue` is the fingerprint that it holds for, `allowed` a bit a tool in base64, "" for all. `gate_open`: the
    keyword leg answers alone. The first of `parts` is the whole task.
    """

    catalogue: str = ""
    always: dict[str, AlwaysMatch] = field(default_factory=dict)
    settled: bool = False
    explicit: Explicit = field(default_factory=Explicit)
    allowed: str = ""
    gate_confidence: float = 0.0
    gate_open: bool = False
    semantic_ran: bool = False
    parts: tuple[PartEvidence, ...] = ()
    no_tool_similarity: float = 0.0
    near_flagged: dict[str, float] = field(default_factory=dict)
    votes: dict[str, dict[str, float]] = field(default_factory=dict)
    lists: dict[str, dict[str, float]] = field(default_factory=dict)
    recalled: Recalled | None = None
    needs: Needs = field(default_factory=Needs)
    about: About | None = None
    warnings: tuple[str, ...] = ()
    timings_ms: dict[str, float] = field(default_factory=dict)
