"""The analysis of a task by the preset `koi`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A thing that a task names.

    Attributes:
        text: The words in the task.
        kind: `tool`, `server`, `identifier`, `path` or `url`.
        means: The tool keys or the server names that these words mean.

    Examples:
        >>> from orchestrator import Entity
        >>> Entity(text="GitHub", kind="server", means=("github",)).means
        ('github',)
    """

    text: str
    kind: str
    means: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The analysis of a task, made without a language model.

    Attributes:
        entities: The things that the task names.

    Examples:
        >>> from orchestrator import Router
        >>> with Router("examples/tools.jsonl", pipeline="koi") as router:
        ...     decision = router.route_sync("show issue #42 on github")
        >>> [(entity.kind, entity.text) for entity in decision.about.entities]
        [('server', 'github')]
    """

    entities: tuple[Entity, ...] = ()
