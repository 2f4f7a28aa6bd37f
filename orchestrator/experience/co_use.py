"""Co-use: the tools that a tenant's tasks used together, and in which order."""

from collections import Counter
from collections.abc import Iterable, Iterator, KeysView, Sequence
from dataclasses import dataclass, replace

from orchestrator.experience.actors import newest, usual
from orchestrator.records.outcome import Known, Name
from orchestrator.records.relation import USED_AFTER, USED_WITH, Edge

LEAST, OFTEN, ORDERED = 3, 0.3, 0.75
"""The minimum number of tasks for a relation, their minimum share of the tool's tasks, and for an order the minimum
share of the tasks of both tools."""


Used = tuple[str, tuple[Name, ...]]
"""The actor, and the used tools in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partner:
    """A tool that was used together with another tool.

    Attributes:
        tasks: The number of tasks that used both.
        before: The number of those that used it before the other tool.
        of: The number of tasks that used the other tool.
        alone: All tasks are one person's, although several people are known.
    """

    name: Name
    tasks: int
    of: int
    before: int
    alone: bool

    @property
    def share(self) -> float:
        return self.tasks / self.of


class CoUse:
    """Partners by tool, from tasks given as the person and the used tools in order. A tool is a key and a hash.

    For each person, at most the median person's number of tasks of a tool counts, newest first.
    """

    def __init__(self, tasks: Iterable[Used]) -> None:
        self._tasks: dict[Name, list[Used]] = {}
        self._partners: dict[Name, tuple[Partner, ...]] = {}
        self._actors = Counter[str]()
        for task in tasks:
            self._actors[task[0]] += 1
            for name in task[1]:
                self._tasks.setdefault(name, []).append(task)

    @property
    def names(self) -> KeysView[Name]:
        """The tools that any task used."""
        return self._tasks.keys()

    def together(self, name: Name) -> tuple[Partner, ...]:
        """Return the tools used in the same tasks, the most frequent first."""
        if name not in self._partners:
            self._partners[name] = _partners(name, self._tasks.get(name, ()), len(self._actors) > 1)
        return self._partners[name]

    def after(self, name: Name) -> tuple[Partner, ...]:
        """Return the tools used later in the same tasks, most frequent first. `tasks` counts the tasks with this
        order.
        """
        later = [replace(own, tasks=own.tasks - own.before, before=0) for own in self.together(name)]
        return tuple(sorted((own for own in later if own.tasks), key=lambda own: -own.tasks))

    def usual(self, name: Name) -> list[Partner]:
        """Return the tools used together often enough to be related, by two people if several are known."""
        return [own for own in self.together(name) if own.tasks >= LEAST and own.share >= OFTEN and not own.alone]

    def edges(self, name: Name, known: Known) -> Iterator[Edge]:
        """Yield the relations of a tool to others that are known to be as they were."""
        for own in self.usual(name):
            for type_ in (USED_AFTER, USED_WITH) if own.before >= ORDERED * own.tasks else (USED_WITH,):
                if known(*own.name):
                    yield Edge(source=name[0], to=own.name[0], type=type_, weight=own.share, origin="experience")


def _partners(name: Name, tasks: Sequence[Used], several: bool) -> tuple[Partner, ...]:
    actors = [actor for actor, _ in tasks]
    kept = [tasks[place] for place in newest(actors, len(tasks), usual(actors))]
    found: dict[Name, list[tuple[str, bool]]] = {}
    for actor, used in kept:
        place = used.index(name)
        for other in used[:place]:
            found.setdefault(other, []).append((actor, True))
        for other in used[place + 1 :]:
            found.setdefault(other, []).append((actor, False))
    partners = [
        Partner(
            name=other,
            tasks=len(own),
            of=len(kept),
            before=sum(was_before for _, was_before in own),
            alone=several and len({actor for actor, _ in own}) == 1,
        )
        for other, own in found.items()
    ]
    return tuple(sorted(partners, key=lambda own: -own.tasks))
