"""What can go wrong, by what the caller can do about it.

ToolrouteError
├── InvalidInput            the caller must change something; never retried
│   ├── InvalidCatalogue    a catalogue file, a listing or a tool definition
│   ├── InvalidConfig       an option, an environment variable, an `mcpServers` file
│   ├── UnknownTenant       no tenant, or what names none (org:ID, user:ID, local)
│   ├── UnknownTool         a key that this tenant's catalogue does not hold
│   └── InvalidArguments    arguments that do not fit the tool's input schema
├── Unauthorised            a credential was refused; never retried
├── ToolFailed              the tool ran and reported an error; never retried
├── ModelFailed             the language model answered, but with nothing of use; never retried
│   ├── ModelRefused        it declined
│   ├── AnswerInvalid       not what was asked for, even after it was shown what is wrong
│   └── NoCredit            the account's quota is used up
├── OutcomeUnknown          a call was sent and its answer lost; never replayed
├── PayloadTooLarge         more than a workflow history may hold; never retried
├── MissingExtra            an optional package is not installed; never retried
└── Unavailable             may pass by itself; retried
    ├── StoreUnavailable    Qdrant does not answer, or a folder stays locked
    ├── EmbedderUnavailable the embedding endpoint or model does not answer
    ├── ModelUnavailable    the language model's endpoint does not answer
    └── ServerUnavailable   an MCP server cannot be connected; nothing was sent
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.records.completion import Usage


class ToolrouteError(Exception):
    """Base of every error that toolroute raises on purpose. `retry` says whether trying again can help.

    `usage` is what a language model took all the same, where one was asked.
    """

    retry: bool = False
    usage: "Usage | None" = None


class InvalidInput(ToolrouteError):
    """Something given by the caller cannot be used; the message names the value and the remedy."""


class InvalidCatalogue(InvalidInput):
    """A catalogue file, server listing or tool definition is broken."""


class InvalidConfig(InvalidInput):
    """An option, environment variable or `mcpServers` file is broken."""


class UnknownTenant(InvalidInput):
    """No tenant was named where one is needed, or the name is not org:ID, user:ID or local."""


class UnknownTool(InvalidInput):
    """The key names no tool of this tenant's catalogue."""


class InvalidArguments(InvalidInput):
    """Arguments do not fit the tool's input schema."""


class Unauthorised(ToolrouteError):
    """A credential was refused."""


class ToolFailed(ToolrouteError):
    """The tool ran and reported an error of its own."""


class ModelFailed(ToolrouteError):
    """The language model answered, but with nothing of use."""


class ModelRefused(ModelFailed):
    """The language model declined."""


class AnswerInvalid(ModelFailed):
    """The language model's answer is not what was asked for, even after it was shown what is wrong."""


class NoCredit(ModelFailed):
    """The account's quota is used up: waiting does not help."""


class OutcomeUnknown(ToolrouteError):
    """A call was sent and its answer was lost; whether it took effect is not known."""


class PayloadTooLarge(ToolrouteError):
    """A value is larger than a workflow history may hold."""


class MissingExtra(ToolrouteError):
    """An optional package is needed; the message names the extra to install."""


class Unavailable(ToolrouteError):
    """Something outside does not answer; trying again can help."""

    retry = True


class StoreUnavailable(Unavailable):
    """Qdrant does not answer, or a folder store stays locked by another process."""


class EmbedderUnavailable(Unavailable):
    """The embedder does not answer."""


class ModelUnavailable(Unavailable):
    """The language model's endpoint does not answer. `retry_after_s` is how long it asked to wait, where it did."""

    retry_after_s: float | None = None


class ServerUnavailable(Unavailable):
    """An MCP server cannot be connected; nothing was sent to it."""


FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""Faults of a program: the same input fails again, so they are not retried."""
