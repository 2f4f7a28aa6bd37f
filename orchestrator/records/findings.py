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
    def wanting(self) -> tuple[Mention, ...]:
        return tuple(m for m in self.mentions if not m.unwanted)

    @property
    def wanted(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(m.server for m in self.wanting))

    @property
    def named(self) -> tuple[NamedServer, ...]:
        """The servers that are wanted, with those that have no tools."""
        out = self.unwanted
        known = (NamedServer(said=m.said, server=m.server, left_out=m.server in out) for m in self.wanting)
        return (*dict.fromkeys(known), *(NamedServer(said=said) for said in self.absent))

    @property
    def unwanted(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(m.server for m in self.mentions if m.unwanted))


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
    """What a pipeline's stages have found so far: a State with keys for positions and lists for arrays.

    Attributes:
        catalogue: The fingerprint of the catalogue that this holds for; "" before the first stage.
        ran_until: The name of the last stage that ran.
        skips: The activities for which the worker's pipeline has no stage.
        always: The always-available capabilities that the task asks for, by key.
        settled: The task needs no search.
        explicit: The servers that the task names.
        allowed: One bit per tool, in base64; "" where all are allowed.
        gate_confidence: The chance that the keyword leg's best tool is right.
        gate_open: The first legs are sure enough.
        parts: The candidates of the whole task and of each clause.
        no_tool_similarity: The task's cosine with requests that need no tool.
        near_flagged: Cosines of flagged tools, by key.
        lists: Scores of further legs, by leg and key.
        recalled: The past tasks that are like this one.
        needs: What the task needs, in the words of a language model.
        usage: The tokens that a language model took.
        about: What the text names, where a preset analyses it.
        warnings: What the caller should know.
        timings_ms: Milliseconds by stage.
    """

    catalogue: str = ""
    ran_until: str = ""
    skips: tuple[str, ...] = ()
    always: dict[str, AlwaysMatch] = field(default_factory=dict)
    settled: bool = False
    explicit: Explicit = field(default_factory=Explicit)
    allowed: str = ""
    gate_confidence: float = 0.0
    gate_open: bool = False
    parts: tuple[PartEvidence, ...] = ()
    no_tool_similarity: float = 0.0
    near_flagged: dict[str, float] = field(default_factory=dict)
    lists: dict[str, dict[str, float]] = field(default_factory=dict)
    recalled: Recalled | None = None
    needs: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    about: About | None = None
    warnings: tuple[str, ...] = ()
    timings_ms: dict[str, float] = field(default_factory=dict)
