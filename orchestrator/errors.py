"""The errors of toolroute, grouped by the reaction that they ask for.

ToolrouteError
├── InvalidInput            the caller must change something; never retried
│   ├── InvalidCatalogue    a catalogue file, a listing or a tool definition is wrong
│   ├── InvalidConfig       an option, an environment variable or an `mcpServers` file is wrong
│   ├── UnknownSetting      no setting has this keyword; also a TypeError
│   ├── UnknownTenant       the tenant is missing, or is not org:ID, user:ID or local
│   ├── UnknownTool         the tenant's catalogue has no tool with this key
│   └── InvalidArguments    the arguments do not fit the tool's input schema
├── Unauthorised            a credential was refused; never retried
├── ToolFailed              the tool ran and reported an error; never retried
├── ModelFailed             the language model answered, but its answer is of no use; never retried
│   ├── ModelRefused        the model declined
│   ├── AnswerInvalid       the answer has a wrong form, also after the model was shown the fault
│   └── NoCredit            the account's quota is used up
├── StepsFailed             no step of a run succeeded; the failure's details have the RunResult
├── OutcomeUnknown          a call was sent and its answer was lost; never sent again
├── ToolChanged             the server changed the tool's definition, and a person must accept it; nothing was sent
├── CatalogueChanged        the catalogue changed between two stages of one route; the route starts again
├── PayloadTooLarge         the value is too large for a workflow history; never retried
├── MissingExtra            an optional package is not installed; never retried
└── Unavailable             a temporary failure; retried
    ├── StoreUnavailable    Qdrant does not answer, or a folder cannot be read
    │   └── StoreBusy       another process kept the store locked for too long; also a Busy
    ├── Busy                a needed resource is in use by others; nothing was done
    ├── EmbedderUnavailable the embedding endpoint or model does not answer
    ├── ModelUnavailable    the language model's endpoint does not answer
    └── ServerUnavailable   an MCP server cannot be connected; nothing was sent
"""

from orchestrator.records.usage import Usage


class ToolrouteError(Exception):
    """The base class of every error that toolroute raises on purpose.

    Attributes:
        retry: Whether trying again can help.
        usage: The tokens that a language model used before the error.

    Examples:
        >>> from orchestrator import Router, ToolrouteError
        >>> with Router("examples/tools.jsonl") as router:
        ...     try:
        ...         router.route_sync("  ")
        ...     except ToolrouteError as error:
        ...         print(f"{error} (retry: {error.retry})")
        query is empty: give the task in words (retry: False)
    """

    retry: bool = False
    usage: Usage = Usage()


class InvalidInput(ToolrouteError):
    """The caller gave a value that cannot be used. The message names the value and the remedy."""


class InvalidCatalogue(InvalidInput):
    """A catalogue file, a listing or a tool definition is wrong."""


class InvalidConfig(InvalidInput):
    """An option, an environment variable or an `mcpServers` file is wrong."""


class UnknownSetting(InvalidInput, TypeError):
    """No setting has this keyword. The message names the most similar one."""


class UnknownTenant(InvalidInput):
    """The tenant is missing, or is not `org:ID`, `user:ID` or `local`."""


class UnknownTool(InvalidInput):
    """The tenant's catalogue has no tool with this key."""


class InvalidArguments(InvalidInput):
    """The arguments of a call do not fit the tool's input schema."""


class Unauthorised(ToolrouteError):
    """A server refused a credential."""


class ToolFailed(ToolrouteError):
    """The tool ran and reported an error."""


class ModelFailed(ToolrouteError):
    """The language model answered, but its answer is of no use."""


class ModelRefused(ModelFailed):
    """The language model declined to answer."""


class AnswerInvalid(ModelFailed):
    """The language model's answer has a wrong form, also after the model was shown the fault."""


class NoCredit(ModelFailed):
    """The quota of the language model's account is used up."""


class StepsFailed(ToolrouteError):
    """No step of a run succeeded. The failure's details have the RunResult."""


class OutcomeUnknown(ToolrouteError):
    """A call was sent and its answer was lost, so nobody knows whether the tool ran.

    Attributes:
        final: Whether the tool's definition on its server forbids to repeat the call. A stored definition that allows
            it is then ignored.
    """

    def __init__(self, message: str = "", *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class ToolChanged(ToolrouteError):
    """The server changed the tool's definition, and the change waits for a person. The call was not sent."""


class CatalogueChanged(ToolrouteError):
    """The catalogue changed between two stages of one route. The route starts again."""


class PayloadTooLarge(ToolrouteError):
    """The value is too large for a workflow history."""


class MissingExtra(ToolrouteError):
    """An optional package is not installed. The message names the extra to install."""


class Unavailable(ToolrouteError):
    """A service does not answer. Trying again can help.

    Attributes:
        retry_after_s: Seconds to wait before the next try. None if the service did not give a time.
    """

    retry = True
    retry_after_s: float | None = None

    def __init__(self, message: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class StoreUnavailable(Unavailable):
    """The Qdrant server does not answer, or the store's folder cannot be read."""


class Busy(Unavailable):
    """A needed resource is in use by others, and nothing was done.

    Your own function may raise it, and is then called again.
    """


class StoreBusy(Busy, StoreUnavailable):
    """Another process kept the store locked for too long."""


class EmbedderUnavailable(Unavailable):
    """The embedding endpoint or model does not answer."""


class ModelUnavailable(Unavailable):
    """The language model's endpoint does not answer."""


class ServerUnavailable(Unavailable):
    """An MCP server cannot be connected. Nothing was sent."""


FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""Errors that a bug in a program causes. The same input fails again, so they are not retried."""
