"""Co-use: the tools that a tenant's tasks used together, and in which order."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from orchestrator.experience.shares import newest, usual
from orchestrator.records.outcome import Known, Name
from orchestrator.records.relation import USED_AFTER, USED_WITH, Edge

LEAST, OFTEN, ORDERED = 3, 0.3, 0.75
"""A relation holds from this many tasks on, in this share of those of its tool; an order in this share of both's."""


@dataclass(frozen=True, slots=True)
class Partner:
    """A tool that `tasks` tasks used with another, of `of` tasks that used that other one."""

    name: Name
    tasks: int
    of: int

    @property
    def share(self) -> float:
        return self.tasks / self.of


class CoUse:
    """Partners by tool, of tasks given as who asked and the tools used, in order. A tool is a key and a hash.

    Of one person as many of a tool's tasks count as the median person has of them, the newest.
    """

    def __init__(self, tasks: Iterable[tuple[str, Sequence[Name]]]) -> None:
        self._tasks: dict[Name, list[tuple[str, Sequence[Name]]]] = {}
        for actor, used in tasks:
            for name in used:
                self._tasks.setdefault(name, []).append((actor, used))

    def together(self, name: Name) -> tuple[Partner, ...]:
        """Return the tools used in the same tasks, the most frequent first."""
        return self._partners(name, lambda used, _: used)

    def after(self, name: Name) -> tuple[Partner, ...]:
        """Return the tools used later in the same tasks, the most frequent first."""
        return self._partners(name, lambda used, place: used[place + 1 :])

    def before(self, name: Name) -> tuple[Partner, ...]:
        """Return the tools used earlier in the same tasks, the most frequent first."""
        return self._partners(name, lambda used, place: used[:place])

    def edges(self, name: Name, known: Known) -> Iterator[Edge]:
        """Yield the relations of a tool to others that are known to be as they were."""
        together = {partner.name: partner for partner in self.together(name)}
        ordered = [own for own in self.before(name) if own.tasks >= ORDERED * together[own.name].tasks]
        for type_, partners in ((USED_AFTER, ordered), (USED_WITH, together.values())):
            for own in partners:
                if own.tasks >= LEAST and own.share >= OFTEN and known(*own.name):
                    yield Edge(source=name[0], to=own.name[0], type=type_, weight=own.share, origin="experience")

    def _partners(self, name: Name, part: Callable[[Sequence[Name], int], Sequence[Name]]) -> tuple[Partner, ...]:
        own = self._tasks.get(name, [])
        actors = [actor for actor, _ in own]
        kept = [own[place][1] for place in newest(actors, len(own), usual(actors))]
        counts = Counter(other for used in kept for other in part(used, used.index(name)) if other != name)
        return tuple(Partner(other, count, len(kept)) for other, count in counts.most_common())
