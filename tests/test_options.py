"""Options fail where they are made, with the setting, the value and what would do; misspelt variables are told."""

import math
from typing import Any

import pytest

from orchestrator.errors import InvalidConfig
from orchestrator.options import Options, misspelt


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("gate", "0.7", "give a number"),
        ("gate", None, "give a number"),
        ("gate", True, "give a number"),
        ("gate", math.nan, "give a probability"),
        ("floor", 1.5, "give a probability"),
        ("semantic_timeout_s", 0, "give a number above 0"),
        ("model_timeout_s", math.nan, "give a number above 0"),
        ("store_timeout_s", math.inf, "give a number above 0"),
        ("cached_tenants", 2.5, "give a whole number"),
        ("exact_tokens", "no", "give True or False"),
        ("embedder", 5, "give a text"),
    ],
)
def test_a_setting_of_the_wrong_type_or_range_is_named_with_its_remedy(name: str, value: Any, remedy: str) -> None:
    with pytest.raises(InvalidConfig, match=rf"^{name}=.*: {remedy}"):
        Options(**{name: value})


@pytest.mark.parametrize("value", ["soon", "0", "-1", "nan", "inf"])
def test_a_timeout_from_the_environment_is_refused_under_the_variables_own_name(value: str) -> None:
    with pytest.raises(InvalidConfig, match=f"TOOLROUTE_MODEL_TIMEOUT='{value}'"):
        Options.from_env({"TOOLROUTE_MODEL_TIMEOUT": value})


def test_a_misspelt_variable_is_told_with_the_one_that_is_meant() -> None:
    given = {
        "TOOLROUTE_EMBEDER": "x",
        "TOOLROUTE_STORE": "y",
        "TOOLROUTE_TOKEN": "z",
        "TOOLROUTE_COLOUR": "",
        "OTHER": "",
    }
    assert misspelt(given) == {"TOOLROUTE_COLOUR": "", "TOOLROUTE_EMBEDER": "TOOLROUTE_EMBEDDER"}
