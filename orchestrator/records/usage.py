"""The tokens that a language model took."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens by the provider's own count; `cached` are those of the input that came from its cache."""

    input: int = 0
    output: int = 0
    cached: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input=self.input + other.input, output=self.output + other.output, cached=self.cached + other.cached
        )
