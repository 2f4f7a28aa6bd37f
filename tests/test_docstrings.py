"""Every public class and function has an example, and each example of a public name runs with the printed output."""

import doctest
import inspect

import pytest

import orchestrator
from tests.pages import ROOT

SHOWN = [
    name
    for name in orchestrator.__all__
    if inspect.isroutine(own := getattr(orchestrator, name))
    or (isinstance(own, type) and (own is orchestrator.ToolrouteError or not issubclass(own, Exception)))
]
"""The errors share the example of their base. What is left are types without a docstring of their own."""


@pytest.mark.parametrize("name", SHOWN)
def test_a_public_name_has_an_example_that_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = doctest.DocTestFinder().find(getattr(orchestrator, name), name)
    assert any(test.examples for test in found)
    for test in found:
        results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
        assert results.failed == 0


@pytest.mark.parametrize("name", orchestrator.__all__)
def test_a_public_error_or_class_has_a_docstring_of_its_own(name: str) -> None:
    own = getattr(orchestrator, name)
    if isinstance(own, type):
        assert own.__doc__
        assert not own.__doc__.startswith(f"{own.__name__}(")
