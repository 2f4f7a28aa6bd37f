"""Co-use: the tools that a tenant's tasks used together, and in which order."""

from collections import Counter
from collections.abc import Iterable, Iterator, KeysView, Sequence
from dataclasses import dataclass, replace

from orchestrator.experience.actors import newest, usual
from orchestrator.records.outcome import Known, Name
from orchestrator.records.relation import USED_AFTER, USED_WITH, Edge

LEAST = 3
"""The minimum number of tasks for a relation."""
OFTEN = 0.3
"""Their minimum share of the tool's tasks."""
ORDERED = 0.75
"""For an order, the minimum share of the tasks of both tools."""

Used = tuple[str, tuple[Name, ...]]
"""The actor, and the used tools in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partner:
    """A tool that was used together with another tool.

    Attributes:
        tasks: The number of tasks that used both.
        before: The number of tasks that used it before the other tool.
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
        self._actors = set[str]()
        for task in tasks:
            actor, used = task
            self._actors.add(actor)
            for name in used:
                self._tasks.setdefault(name, []).append(task)

    @property
    def names(self) -> KeysView[Name]:
        """The tools that any task used."""
        return self._tasks.keys()

    def together(self, name: Name) -> tuple[Partner, ...]:
        """Return the tools used in the same tasks, the most frequent first."""
        if name not in self._partners:
            several_people = len(self._actors) > 1
            self._partners[name] = _partners(
                name, self._tasks.get(name, ()), several_people=several_people
            )
        return self._partners[name]

    def after(self, name: Name) -> tuple[Partner, ...]:
        """Return the tools used later in the same tasks, most frequent first. `tasks` counts those with this order."""
        later = [
            replace(partner, tasks=partner.tasks - partner.before, before=0)
            for partner in self.together(name)
            if partner.tasks > partner.before
        ]
        return tuple(sorted(later, key=lambda partner: -partner.tasks))

    def usual(self, name: Name) -> list[Partner]:
        """Return the tools used together often enough to be related, by two people if several are known."""
        return [partner for partner in self.together(name) if _is_usual(partner)]

    def edges(self, name: Name, known: Known) -> Iterator[Edge]:
        """Yield the relations of a tool to others that are known to be as they were."""
        source, _ = name
        for partner in self.usual(name):
            # A definition that has changed may do something else now.
            if not known(*partner.name):
                continue
            target, _ = partner.name
            if partner.before >= ORDERED * partner.tasks:
                yield Edge(
                    source=source,
                    to=target,
                    type=USED_AFTER,
                    weight=partner.share,
                    origin="experience",
                )
            yield Edge(
                source=source, to=target, type=USED_WITH, weight=partner.share, origin="experience"
            )


def _is_usual(partner: Partner) -> bool:
    return partner.tasks >= LEAST and partner.share >= OFTEN and not partner.alone


def _partners(name: Name, tasks: Sequence[Used], *, several_people: bool) -> tuple[Partner, ...]:
    actors = [actor for actor, _ in tasks]
    counted = newest(tasks, actors, len(tasks), usual(actors))
    users: dict[Name, list[str]] = {}
    times_before = Counter[Name]()
    for actor, used in counted:
        position = used.index(name)
        times_before.update(used[:position])
        for co_used in (*used[:position], *used[position + 1 :]):
            users.setdefault(co_used, []).append(actor)
    partners = [
        Partner(
            name=co_used,
            tasks=len(people),
            of=len(counted),
            before=times_before[co_used],
            alone=several_people and len(set(people)) == 1,
        )
        for co_used, people in users.items()
    ]
    return tuple(sorted(partners, key=lambda partner: -partner.tasks))
