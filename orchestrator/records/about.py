"""What a task names, as the preset `koi` reads it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A thing that a task names.

    Attributes:
        text: The words of the task.
        kind: `tool`, `server`, `identifier`, `path` or `url`.
        means: The keys of the tools, or the names of the servers, that these words mean.
    """

    text: str
    kind: str
    means: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The analysis of a task, made without a model."""

    entities: tuple[Entity, ...] = ()
