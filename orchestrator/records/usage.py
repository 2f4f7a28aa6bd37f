"""The tokens that a language model used."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens, as the provider counts them.

    Attributes:
        input: The tokens of the input.
        output: The tokens of the answer.
        cached: The part of the input's tokens that came from the provider's cache.

    Examples:
        >>> from orchestrator import Usage
        >>> (Usage(input=900, output=100) + Usage(input=50)).total
        1050
    """

    input: int = 0
    output: int = 0
    cached: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cached=self.cached + other.cached,
        )
