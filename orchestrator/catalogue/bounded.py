"""A validator that gives up in time: a schema of a hundred lines may lead through its references to more checks than a
process lives for.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import repeat
from typing import Any

STEPS, STEPS_A_CHARACTER = 30_000, 10
"""Keywords that are looked at for one value, and more for each character of its JSON; 30,000 take half a second."""


class TooManySteps(ValueError):
    """A schema asks for more checks than the value is worth."""


_left: ContextVar[Iterator[None]] = ContextVar("steps left")


@contextmanager
def limited(value: Any) -> Iterator[None]:
    """Within it a counting validator may take as many steps as this value is worth."""
    size = len(json.dumps(value, default=str))
    before = _left.set(repeat(None, STEPS + STEPS_A_CHARACTER * size))
    try:
        yield
    finally:
        _left.reset(before)


def counting(validator: Any) -> Any:
    """This class of validators with each keyword counted, to be used within `limited`. What is left over by others is
    not checked: the library looks for that in ways of its own, which are not counted."""
    from jsonschema import validators

    extend: Any = validators.extend
    counted = {keyword: _counted(check) for keyword, check in validator.VALIDATORS.items()}
    return extend(validator, {**counted, "unevaluatedItems": _unchecked, "unevaluatedProperties": _unchecked})


def _unchecked(*_: Any) -> None:
    """Finds nothing wrong."""


def _counted(check: Callable[..., Any]) -> Callable[..., Any]:
    def checked(*given: Any) -> Any:
        if next(_left.get(), True):
            raise TooManySteps("it leads to more checks than can be made")
        return check(*given)

    return checked
