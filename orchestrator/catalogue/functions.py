"""Functions as tools: a definition from the signature and the docstring, and a call with validated arguments."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from orchestrator.catalogue.context_parameters import context_parameters
from orchestrator.common.json_input import first_problem
from orchestrator.errors import InvalidArguments, InvalidCatalogue, InvalidInput
from orchestrator.records.tool import Kind, Tool, running

if TYPE_CHECKING:
    from pydantic import BaseModel

_OPEN = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def function_tool(function: Callable[..., Any]) -> Tool:
    """Return the tool of a function: its name, its docstring, its parameters as a JSON Schema, and a way to call it.

    The docstring may have Google's, numpy's or Sphinx's style. Its descriptions of parameters go into the schema. A
    `Field(description=...)` or a text within `Annotated` takes precedence.

    A parameter that an agent framework fills is not in the schema: see `context_parameters`.

    Raises:
        InvalidCatalogue: The function cannot be a tool. The message has the reason.
    """
    name = getattr(function, "__name__", "")
    if not inspect.isroutine(function) or name == "<lambda>":
        raise InvalidCatalogue(
            f"{function!r:.80} cannot be a tool: give a named function or method"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidCatalogue(
            f"function {name!r} is a generator, and a tool has one result: return a list"
        )
    signature = _signature(function, name)
    text, described = _documented(function)
    context = context_parameters(signature)
    seen_by_model = signature.replace(
        parameters=[
            parameter
            for parameter in signature.parameters.values()
            if parameter.name not in context
        ]
    )
    model = _model(name, seen_by_model)
    schema = _schema(name, model, seen_by_model, described)
    tool = Tool(server="", name=name, description=text, input_schema=schema, kind=Kind.BUILTIN)
    return running(tool, _validated(function, signature, model))


def _signature(function: Callable[..., Any], name: str) -> inspect.Signature:
    try:
        signature = inspect.signature(function, eval_str=True)
    except (NameError, ValueError, TypeError, SyntaxError) as error:
        raise InvalidCatalogue(
            f"function {name!r}: its signature cannot be read ({error})"
        ) from None
    for position, parameter in enumerate(signature.parameters.values()):
        if parameter.kind in _OPEN:
            taken = f"{_OPEN[parameter.kind]}{parameter.name}"
            raise InvalidCatalogue(
                f"function {name!r} takes {taken}, which no schema can describe: name its parameters"
            )
        if (
            not position
            and parameter.name in ("self", "cls")
            and parameter.annotation is parameter.empty
        ):
            where = f"{function.__qualname__!r} is a method without its object"
            raise InvalidCatalogue(f"{where}: give it as object.{name}")
    return signature


def _documented(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the description of a function and those of its parameters."""
    from docstring_parser import ParseError, parse

    text = inspect.getdoc(function) or ""
    try:
        read = parse(text)
    except ParseError:
        return text, {}
    described = {}
    for documented in read.params:
        for name in documented.arg_name.split(","):  # numpy's `a, b : type` describes several.
            described[name.strip()] = documented.description or ""
    return (read.description or "").strip(), described


def _model(name: str, signature: inspect.Signature) -> "type[BaseModel]":
    """Return the validator of the arguments. Its fields are numbered, because a parameter may have the name of a
    model's method.
    """
    from pydantic import ConfigDict, Field, create_model
    from pydantic.errors import PydanticUserError

    fields: dict[str, Any] = {}
    for position, parameter in enumerate(signature.parameters.values()):
        kind = Any if parameter.annotation is parameter.empty else parameter.annotation
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[f"p{position}"] = (Annotated[kind, Field(alias=parameter.name)], default)
    try:
        return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
    except PydanticUserError as error:
        raise _no_json(name, error) from None


def _schema(
    name: str, model: "type[BaseModel]", signature: inspect.Signature, described: Mapping[str, str]
) -> dict[str, Any]:
    """Return the parameters as a JSON Schema, without titles that only repeat their names."""
    from pydantic.errors import PydanticUserError
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  (pydantic's own)

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    try:
        schema = model.model_json_schema(schema_generator=Untitled)
    except PydanticUserError as error:
        raise _no_json(name, error) from None
    schema.pop("title")  # The tool has the function's name already.
    for parameter in signature.parameters.values():
        within = (
            get_args(parameter.annotation)[1:]
            if get_origin(parameter.annotation) is Annotated
            else ()
        )
        text = next(
            (part for part in within if isinstance(part, str)), described.get(parameter.name)
        )
        if text:
            schema["properties"][parameter.name].setdefault("description", text)
    return schema


def _no_json(name: str, error: Exception) -> InvalidCatalogue:
    why = str(error).partition("\n")[0]
    return InvalidCatalogue(
        f"function {name!r}: a parameter has a type that JSON cannot represent ({why})"
    )


def _validated(
    function: Callable[..., Any], signature: inspect.Signature, model: "type[BaseModel]"
) -> Callable[..., Any]:
    """Return the function with arguments that are taken by name and validated. An async function stays async.

    Args:
        function: The function.
        signature: Its signature.
        model: The validator of its arguments.
    """
    from pydantic import ValidationError

    context = context_parameters(signature)

    def bound(arguments: dict[str, Any]) -> inspect.BoundArguments:
        values = _context_values(function.__name__, context, arguments)
        by_model = {name: value for name, value in arguments.items() if name not in context}
        try:
            validated = model.model_validate(by_model)
        except ValidationError as error:
            raise InvalidArguments(f"{function.__name__}: {first_problem(error)}") from None
        for field, info in model.model_fields.items():
            values[str(info.alias)] = getattr(validated, field)
        in_order = {name: values[name] for name in signature.parameters}
        return inspect.BoundArguments(signature, in_order)

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def call_async(**arguments: Any) -> Any:
            call = bound(arguments)
            return await function(*call.args, **call.kwargs)

        return call_async

    @wraps(function)
    def call_now(**arguments: Any) -> Any:
        call = bound(arguments)
        return function(*call.args, **call.kwargs)

    return call_now


def _context_values(
    name: str, context: Mapping[str, inspect.Parameter], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of the parameters that a framework fills.

    Raises:
        InvalidInput: A value is missing.
    """
    values = {}
    for parameter in context.values():
        # Another default is a framework's own marker, such as FastMCP's `CurrentContext()`.
        if parameter.name not in arguments and parameter.default is not None:
            remedy = f"give it to the call, e.g. call.run({parameter.name}=...)"
            raise InvalidInput(f"{name}: the model gives no {parameter.name!r}: {remedy}")
        values[parameter.name] = arguments.get(parameter.name)
    return values
