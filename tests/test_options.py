"""Options fail when they are made, with the setting, the value and the remedy. Misspelt variables are named."""

import math
import pydoc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Options, Router, Store, options as settings
from orchestrator.errors import InvalidConfig, InvalidInput
from orchestrator.options import misspelt, options_over
from tests.stores import MAIL, shipped


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("gate", "0.7", "give a probability from 0 to 1"),
        ("gate", True, "give a probability"),
        ("gate", math.nan, "give a probability"),
        ("semantic_timeout_s", 0, "give seconds, from 0.001 to 10,000,000,000"),
        ("model_timeout_s", math.nan, "give seconds"),
        ("store_timeout_s", math.inf, "give seconds"),
        ("cached_tenants", 0, "give a whole number above 0"),
        ("embedder", 5, "give a text"),
    ],
)
def test_a_setting_of_the_wrong_type_or_range_is_named_with_its_remedy(name: str, value: Any, remedy: str) -> None:
    with pytest.raises(InvalidConfig, match=rf"^{name}=.*: {remedy}"):
        Options(**{name: value})


@pytest.mark.parametrize(
    ("variable", "value", "remedy"),
    [
        *(("TOOLROUTE_MODEL_TIMEOUT", value, "give seconds, from ") for value in ("soon", "0", "-1", "nan", "inf")),
        ("TOOLROUTE_EXPERIENCE", "some", "give texts, no-texts or off"),
    ],
)
def test_a_value_of_the_environment_is_refused_under_its_variables_name(variable: str, value: str, remedy: str) -> None:
    with pytest.raises(InvalidConfig, match=f"^{variable}='{value}': {remedy}"):
        Options.from_env({variable: value})


def test_the_environments_settings_are_read_and_what_is_given_goes_before(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"TOOLROUTE_MODEL_TIMEOUT": "5", "TOOLROUTE_STORE_TIMEOUT": "0.5", "TOOLROUTE_MODEL": "m", "OTHER": "x"}
    assert Options.from_env({**given, "TOOLROUTE_EMBEDDER": ""}) == Options(
        model_timeout_s=5, store_timeout_s=0.5, model="m"
    )
    monkeypatch.setenv("TOOLROUTE_MODEL", "m")
    assert options_over({"model": "n", "gate": None}) == replace(Options.from_env(), model="n")


def test_help_shows_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-secret")
    assert "sk-secret" not in pydoc.render_doc(settings)


def test_a_tilde_is_the_home_folder_wherever_a_setting_names_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    options = Options.from_env({"TOOLROUTE_STORE": "~/x", "TOOLROUTE_CALIBRATION": "~/f.json"})
    assert (options.store, options.calibration) == (str(tmp_path / "x"), str(tmp_path / "f.json"))
    assert Options(embedder="~/model").embedder == str(tmp_path / "model")
    assert str(Store("~/x", embedder=shipped())) == str(tmp_path / "x")
    assert Options(store="~nobody-at-all/x").store == "~nobody-at-all/x"


async def test_the_store_that_the_options_name_is_a_routers(tmp_path: Path) -> None:
    options = Options(store=str(tmp_path))
    Store(tmp_path, embedder=shipped()).replace_server("local", "mail", MAIL)
    async with Router(options=options) as router:
        decision = await router.route("send an email")
    assert decision.catalogue.tools == len(MAIL)
    with pytest.raises(InvalidInput, match="a Router needs tools"):
        Router()


def test_a_misspelt_variable_is_named_with_the_one_that_is_meant() -> None:
    given = dict.fromkeys(("TOOLROUTE_EMBEDER", "TOOLROUTE_STORE", "TOOLROUTE_COLOUR", "OTHER"), "x")
    assert misspelt(given) == {"TOOLROUTE_COLOUR": "", "TOOLROUTE_EMBEDER": "TOOLROUTE_EMBEDDER"}
