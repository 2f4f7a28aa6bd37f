"""Checks of arguments against the annotations of their parameters, so that an error names the parameter.

    def route(self, request: RouteRequest | str, *, limit: int | None = None): ...

`route(5)` then raises InvalidInput("request=5: give a RouteRequest or a text"). Only the outermost type is checked, and
the texts of a list or of a mapping's names. Other items are the business of the code that reads them.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)

from orchestrator.errors import InvalidInput

_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_BY_NAME = (*_MANY, inspect.Parameter.KEYWORD_ONLY)
_WORDS: dict[Any, str] = {
    str: "a text",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    Path: "a path",
    Mapping: "a mapping",
    Sequence: "a list",
    Iterable: "a list",
    Callable: "a function",
}


class ArgumentTypes:
    """The types that a function's parameters allow. Annotations that only a type checker can read allow everything."""

    def __init__(self, function: Callable[..., Any]) -> None:
        parameters = inspect.signature(function).parameters.values()
        self._by_position = [
            parameter.name for parameter in parameters if parameter.kind not in _BY_NAME
        ]
        self._allowed = {parameter.name: _allowed_by(parameter) for parameter in parameters}
        self._of_texts: set[str] = set()
        self._choices: dict[str, tuple[Any, ...]] = {}
        for parameter in parameters:
            annotation = parameter.annotation
            if get_origin(annotation) is Unpack:
                self._allowed |= _allowed_by_fields(get_args(annotation)[0])
            if get_origin(annotation) is Literal:
                self._choices[parameter.name] = get_args(annotation)
            if _has_texts(annotation):
                self._of_texts.add(parameter.name)

    def check(self, positional: Iterable[Any], by_name: Mapping[str, Any]) -> None:
        """Raise InvalidInput for the first argument with a type that its parameter does not allow."""
        # Further arguments are those of a `*parameter`, which checks them itself.
        named = zip(self._by_position, positional, strict=False)
        for name, value in [*named, *by_name.items()]:
            self._require_type(name, value)
            if name in self._of_texts:
                _require_texts(name, value)
            self._require_choice(name, value)

    def _require_type(self, name: str, value: Any) -> None:
        allowed = self._allowed.get(name, frozenset())
        if allowed and not any(_fits(value, kind) for kind in allowed):
            raise InvalidInput(f"{name}={value!r:.80}: give {_in_words(allowed)}")

    def _require_choice(self, name: str, value: Any) -> None:
        choices = self._choices.get(name)
        if choices is not None and value not in choices:
            named = ", ".join(map(str, choices))
            raise InvalidInput(f"{name}={value!r:.80}: give one of {named}")


@cache
def _allowed_by_fields(typed_dict: type) -> dict[str, frozenset[Any]]:
    """Return the allowed types of each field of a TypedDict."""
    hints = get_type_hints(typed_dict)
    return {name: _allowed_by_annotation(hint) for name, hint in hints.items()}


def _allowed_by(parameter: inspect.Parameter) -> frozenset[Any]:
    """Return the allowed types. Empty: all."""
    if parameter.kind in _MANY or parameter.annotation is parameter.empty:
        return frozenset()
    return _allowed_by_annotation(parameter.annotation)


def _allowed_by_annotation(annotation: Any) -> frozenset[Any]:
    if isinstance(annotation, str):  # It names a class that is not imported at run time.
        return frozenset()
    kinds = frozenset(_kinds(annotation))
    return frozenset() if Any in kinds else kinds


def _has_texts(annotation: Any) -> bool:
    """Return True for a list of texts, a mapping from texts, or a union with one of them."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return any(map(_has_texts, get_args(annotation)))
    is_list_or_mapping = isinstance(origin, type) and issubclass(origin, Iterable)
    return is_list_or_mapping and get_args(annotation)[0] is str


def _require_texts(name: str, value: Any) -> None:
    """Raise InvalidInput for the first item that is no text. An iterator is not read, because it can be read once."""
    if isinstance(value, str | bytes) or not isinstance(value, Collection):
        return
    for item in value:
        if not isinstance(item, str):
            raise InvalidInput(f"{name} has {item!r:.80}: give texts")


def _kinds(annotation: Any) -> Iterator[Any]:
    """Yield the classes of an annotation. Any: there is no class for a part of it."""
    origin = get_origin(annotation)
    if annotation is None:
        yield NoneType
    elif origin in (Union, UnionType):
        for part in get_args(annotation):
            yield from _kinds(part)
    elif origin is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif origin is Literal:
        yield from {type(value) for value in get_args(annotation)}
    else:
        kind = annotation if origin is None else origin
        is_checkable = isinstance(kind, type) and not getattr(kind, "_is_protocol", False)
        yield _general(kind) if is_checkable else Any


def _general(kind: type) -> Any:
    """Return the most general class: a list is as good as a tuple, and a whole number as good as a number."""
    if issubclass(kind, Mapping):
        return Mapping
    if kind in (Sequence, list, tuple):
        return Sequence
    if kind in (Collection, Iterable, set, frozenset):
        return Iterable
    return kind


def _fits(value: Any, kind: Any) -> bool:
    if kind in (Sequence, Iterable):
        other = str | bytes if kind is Iterable else str | bytes | Mapping
        return isinstance(value, Iterable) and not isinstance(value, other)
    if kind is float:
        return isinstance(value, int | float)
    return isinstance(value, kind)


def _in_words(kinds: Iterable[Any]) -> str:
    words = sorted(_word(kind) for kind in kinds if kind is not NoneType)
    *leading, last = words or ["None"]
    return f"{', '.join(leading)} or {last}" if leading else last


def _word(kind: Any) -> str:
    name = kind.__name__
    article = "an" if name[0] in "AEIOU" else "a"
    return _WORDS.get(kind, f"{article} {name}")
