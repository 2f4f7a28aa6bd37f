"""The results of the routing stages, as plain records that pass from one worker to the next."""

from dataclasses import dataclass, field

from orchestrator.records.about import About
from orchestrator.records.decision import NamedServer
from orchestrator.records.outcome import Recalled
from orchestrator.records.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class AlwaysMatch:
    """An always-available capability that a task asks for.

    Attributes:
        phrase: The phrase in the task that asks for it.
        score: Its minimum score.
    """

    phrase: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A server that a task names.

    Attributes:
        server: The name of the server.
        said: The words in the task.
        unwanted: Whether the task excludes the server.
    """

    server: str
    said: str
    unwanted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Explicit:
    """The servers that a task names.

    Attributes:
        mentions: Each mention of a server that has tools.
        absent: The names of configured servers without listed tools.
    """

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
        """The servers that the task wants, also those without listed tools."""
        out = self.unwanted
        known = (NamedServer(said=m.said, server=m.server, left_out=m.server in out) for m in self.wanting)
        return (*dict.fromkeys(known), *(NamedServer(said=said) for said in self.absent))

    @property
    def unwanted(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(m.server for m in self.mentions if m.unwanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartEvidence:
    """The candidates of a task, or of one of its clauses, with the evidence of each leg.

    Attributes:
        tools: The keys of the candidates.
        rows: The candidates' features, shape [candidates, features], as little-endian float64 in base64.
        query: The features of the task itself.
        overlap: Whether each candidate shares a word with the task.
        support: The support of each candidate by others, as a feature.
        keyword: The keyword leg's probabilities.
        semantic: The semantic leg's probabilities. None if the leg did not run.
        chances: The fused probabilities.
        sure: The confidence in the best candidate.
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
    """The results of the pipeline's stages until now. It is a State with tool keys instead of positions and lists
    instead of arrays.

    Attributes:
        catalogue: The fingerprint of the catalogue. Empty before the first stage.
        ran_until: The name of the last stage that ran.
        skips: The activities for which the worker's pipeline has no stage.
        always: The always-available capabilities that the task asks for, by key.
        settled: Whether the task needs no search.
        explicit: The servers that the task names.
        allowed: One bit per tool, in base64. Empty if all tools are allowed.
        gate_confidence: The probability that the keyword leg's best tool is right.
        gate_open: Whether the first legs are confident enough, so that the fallback legs are skipped.
        parts: The candidates of the whole task and of each clause.
        no_tool_similarity: The cosine of the task with requests that need no tool.
        near_flagged: The cosines of flagged tools, by key.
        lists: The scores of further legs, by leg and key.
        recalled: The past tasks that are similar to this one.
        needs: The tools that the task needs, in the words of a language model.
        usage: The tokens that a language model used.
        about: The analysis of the task, if the preset makes one.
        warnings: Warnings for the caller.
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
