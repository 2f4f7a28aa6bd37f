"""Why a connection could not be made, in words."""

from orchestrator.mcp.faults import in_words
from orchestrator.records.redact import Secrets


def test_an_error_of_many_lines_is_one_without_secrets() -> None:
    secrets = Secrets(strong=["first half\nsecond half"])
    error = ExceptionGroup("all", [ValueError("11 problems\n  of first half\n\nsecond half")])
    assert in_words(error, secrets) == "ValueError: 11 problems of *** ***"
