"""What can go wrong, by what the caller can do about it.

ToolrouteError
├── InvalidInput            the caller must change something; never retried
│   ├── InvalidCatalogue    a catalogue file, a listing or a tool definition
│   ├── InvalidConfig       an option, an environment variable, an `mcpServers` file
│   ├── UnknownSetting      a keyword that nothing takes; also a TypeError
│   ├── UnknownTenant       no tenant, or what names none (org:ID, user:ID, local)
│   ├── UnknownTool         a key that this tenant's catalogue does not hold
│   └── InvalidArguments    arguments that do not fit the tool's input schema
├── Unauthorised            a credential was refused; never retried
├── ToolFailed              the tool ran and reported an error; never retried
├── ModelFailed             the language model answered, but with nothing of use; never retried
│   ├── ModelRefused        it declined
│   ├── AnswerInvalid       not what was asked for, even after it was shown what is wrong
│   └── NoCredit            the account's quota is used up
├── StepsFailed             none of a run's steps was done; its RunResult is in the failure's details
├── OutcomeUnknown          a call was sent and its answer lost; never replayed
├── ToolChanged             its server defines the tool otherwise, and that waits for a person; nothing was sent
├── CatalogueChanged        between two stages of one route; the route starts again
├── PayloadTooLarge         more than a workflow history may hold; never retried
├── MissingExtra            an optional package is not installed; never retried
└── Unavailable             may pass by itself; retried
    ├── StoreUnavailable    Qdrant does not answer, or a folder cannot be read
    │   └── StoreBusy       others keep it longer than one may wait (also Busy)
    ├── Busy                others have taken what it needs; nothing was done
    ├── EmbedderUnavailable the embedding endpoint or model does not answer
    ├── ModelUnavailable    the language model's endpoint does not answer
    └── ServerUnavailable   an MCP server cannot be connected; nothing was sent
"""

from orchestrator.records.usage import Usage


class ToolrouteError(Exception):
    """Base of every error that toolroute raises on purpose. `retry` says whether trying again can help.

    `usage` are the tokens that a language model took before the error.
    """

    retry: bool = False
    usage: Usage = Usage()


class InvalidInput(ToolrouteError):
    """Something given by the caller cannot be used; the message names the value and the remedy."""


class InvalidCatalogue(InvalidInput): ...


class InvalidConfig(InvalidInput): ...


class UnknownSetting(InvalidInput, TypeError): ...


class UnknownTenant(InvalidInput): ...


class UnknownTool(InvalidInput): ...


class InvalidArguments(InvalidInput): ...


class Unauthorised(ToolrouteError): ...


class ToolFailed(ToolrouteError): ...


class ModelFailed(ToolrouteError): ...


class ModelRefused(ModelFailed): ...


class AnswerInvalid(ModelFailed): ...


class NoCredit(ModelFailed): ...


class StepsFailed(ToolrouteError): ...


class OutcomeUnknown(ToolrouteError):
    """A call was sent and its answer lost.

    `final`: by the tool's definition on its server it may not be repeated, whatever a stored definition says.
    """

    def __init__(self, message: str = "", *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class ToolChanged(ToolrouteError): ...


class CatalogueChanged(ToolrouteError): ...


class PayloadTooLarge(ToolrouteError): ...


class MissingExtra(ToolrouteError):
    """An optional package is needed; the message names the extra to install."""


class Unavailable(ToolrouteError):
    """Something outside does not answer; trying again can help, after `retry_after_s` where that is known."""

    retry = True
    retry_after_s: float | None = None

    def __init__(self, message: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class StoreUnavailable(Unavailable): ...


class Busy(Unavailable):
    """Others have taken what it needs, and nothing was done: a function of yours may raise it to be called again."""


class StoreBusy(Busy, StoreUnavailable): ...


class EmbedderUnavailable(Unavailable): ...


class ModelUnavailable(Unavailable):
    """The language model's endpoint does not answer."""


class ServerUnavailable(Unavailable): ...


FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""Faults of a program: the same input fails again, so they are not retried."""
