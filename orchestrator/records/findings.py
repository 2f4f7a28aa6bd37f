"""The results of the routing stages, as plain records that pass from one worker to the next."""

from dataclasses import dataclass, field

from orchestrator.records.decision import Decision, NamedServer
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
        servers = (
            NamedServer(said=m.said, server=m.server, left_out=m.server in out)
            for m in self.wanting
        )
        return (*dict.fromkeys(servers), *(NamedServer(said=said) for said in self.absent))

    @property
    def unwanted(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(m.server for m in self.mentions if m.unwanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The results of the pipeline's stages until now, as they pass from one activity to the next.

    Attributes:
        catalogue: The fingerprint of the catalogue. Empty before the first stage.
        ran_until: The name of the last stage that ran.
        skips: The activities for which the worker's pipeline has no stage.
        always: The always-available capabilities that the task asks for, by key.
        explicit: The servers that the task names.
        gate_confidence: The probability that the keyword leg's best tool is right.
        gate_open: Whether the first legs are confident enough, so that the fallback legs are skipped.
        needs: The tools that the task needs, in the words of a language model.
        usage: The tokens that a language model used for these words.
        warnings: Warnings for the caller, from before the first stage.
        decision: The answer, after the fallback legs.
    """

    catalogue: str = ""
    ran_until: str = ""
    skips: tuple[str, ...] = ()
    always: dict[str, AlwaysMatch] = field(default_factory=dict)
    explicit: Explicit = field(default_factory=Explicit)
    gate_confidence: float = 0.0
    gate_open: bool = False
    needs: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    warnings: tuple[str, ...] = ()
    decision: Decision | None = None
