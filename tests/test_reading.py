"""JSON as people and models write it: what is none is told in one kind of error, with the reason."""

import pytest

from orchestrator.catalogue.reading import read_json


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000, "nested too deep"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a": 1, "a": 2}', "'a' stands twice in one object"),
        ("{", "Expecting property name"),
    ],
)
def test_what_is_no_json_is_a_value_error_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_json(text)
