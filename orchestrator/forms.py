"""The types of settings, for callers without a type checker: a wrong one is told with the value and what would do."""

from collections.abc import Mapping

from orchestrator.errors import InvalidInput

Form = tuple[tuple[type, ...], str]
"""What a setting may be, and how to say so."""


def check_forms(settings: object, forms: Mapping[str, Form], error: type[InvalidInput] = InvalidInput) -> None:
    """Raises the error for the first setting of the wrong type. True and False are numbers to Python alone."""
    for name, (kinds, wanted) in forms.items():
        value = getattr(settings, name)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise error(f"{name}={value!r:.80}: give {wanted}")
