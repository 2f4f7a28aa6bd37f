"""Parameters that an agent framework fills itself, so that a model does not see them.

    def refund(charge: str, ctx: RunContext[Desk]) -> str: ...          pydantic-ai
    def refund(charge: str, user: Annotated[str, InjectedToolArg]): ... LangChain

A schema has `charge` alone. The program gives the other value: `call.run(ctx=...)`. No framework is imported here: its
classes are known by their package and their name.
"""

import inspect
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

_CLASSES = frozenset(
    {
        ("langchain_core", "InjectedToolArg"),
        ("langchain_core", "_DirectlyInjectedToolArg"),
        ("langchain_core", "RunnableConfig"),
        ("pydantic_ai", "RunContext"),
        ("agents", "RunContextWrapper"),
        ("fastmcp", "Context"),
        ("mcp", "Context"),
        ("uncalled_for", "Dependency"),  # FastMCP's `Depends(...)`, the default of a parameter.
    }
)


def context_parameters(signature: inspect.Signature) -> dict[str, inspect.Parameter]:
    """Return the parameters that a framework fills, by name. The annotations must be evaluated."""
    return {
        name: parameter
        for name, parameter in signature.parameters.items()
        if _is_context(parameter)
    }


def _is_context(parameter: inspect.Parameter) -> bool:
    markers = [*_markers(parameter.annotation), type(parameter.default)]
    return any(_names_of(marker) & _CLASSES for marker in markers)


def _markers(annotation: Any) -> Iterator[Any]:
    """Yield the classes that an annotation names: itself, the members of a union, and the notes of `Annotated`."""
    origin = get_origin(annotation)
    if origin is Annotated:
        kind, *notes = get_args(annotation)
        yield from _markers(kind)
        for note in notes:
            yield note if isinstance(note, type) else type(note)
    elif origin in (Union, UnionType):
        for member in get_args(annotation):
            yield from _markers(member)
    else:
        yield origin or annotation


def _names_of(kind: Any) -> frozenset[tuple[str, str]]:
    """Return the package and the name of a class and of its bases."""
    classes = getattr(kind, "__mro__", (kind,))
    return frozenset(
        (str(getattr(base, "__module__", "")).partition(".")[0], getattr(base, "__name__", ""))
        for base in classes
    )
