"""What the stages of one request find before and beside the legs: what was said outright, and which tools it leaves."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.always import AlwaysHit
from orchestrator.index.coverage import Coverage, CoverageSet
from orchestrator.index.features import Positions
from orchestrator.index.index import Index
from orchestrator.index.servers import Explicit
from orchestrator.options import Options
from orchestrator.records.request import MAX_LIMIT, RouteRequest
from orchestrator.routing.conversation import undone, used_just_before
from orchestrator.routing.forbidden import forbidden_tools
from orchestrator.routing.understand import Understood, understand

ASKED_CLEARLY = 0.75
"""The least score of a capability that is asked for by a phrase of several words beside something else."""
ASKED_LOOSELY = 0.3
"""The same for a phrase of one word, which may mean something else ("Google Calendar")."""

FEW = 4
"""A turn of no more terms may stay with the servers just used."""


@dataclass(slots=True)
class Outcome:
    """What the stages of one request have found so far."""

    index: Index
    request: RouteRequest
    understood: Understood
    options: Options
    asks: bool
    """Whether this turn of a conversation asks for anything."""
    leans: bool
    """Whether earlier turns tell what the query means."""
    coverage: Coverage
    explicit: Explicit = field(default_factory=Explicit)
    forbidden: Mapping[int, str] = field(default_factory=dict)
    """Tools that do what the task forbids, each with the words that forbid it."""
    always: dict[int, tuple[float, str]] = field(default_factory=dict)
    settled: bool = False
    allowed: NDArray[np.bool_] | None = None
    gate_confidence: float = 0.0
    semantic_ran: bool = False
    vector: NDArray[np.float32] | None = None
    covering: CoverageSet | None = None
    warnings: list[str] = field(default_factory=list)
    timings_ms: dict[str, float] = field(default_factory=dict)

    @property
    def asks_nothing(self) -> bool:
        """Whether nothing is to be done: the task only forbids, or only says something of the turn before."""
        return self.understood.only_forbids or not self.asks

    @property
    def limit(self) -> int:
        """How many matches at most."""
        if self.request.coverage is None:
            return self.request.limit
        return self.covering.count if self.covering else MAX_LIMIT

    def find_always(self) -> None:
        """Always-available capabilities, by clause: position to least score and phrase."""
        open_clauses = 0
        for clause in () if self.asks_nothing else self.understood.clauses:
            hits = self.index.always.match(clause.text)
            open_clauses += not any(hit.settles for hit in hits)
            for hit in hits:
                if _worth(hit) > self.always.get(hit.tool, (0.0, ""))[0]:
                    self.always[hit.tool] = (_worth(hit), hit.phrase)
        self.settled = bool(self.always) and not open_clauses

    def always_for(self, part: str) -> dict[int, float]:
        """The capabilities that a part asks for, each with the least chance to be right for it: where a loose phrase is
        all that asks, another tool may be surer of the part ("look up the latest chargebacks")."""
        hits = self.index.always.match(part) if self.always else ()
        least = {hit.tool: _worth(hit) if hit.clear else min(_worth(hit), ASKED_CLEARLY) for hit in hits}
        return {tool: chance for tool, chance in least.items() if tool in self.always}

    def find_explicit(self) -> None:
        """Servers that the query names, the tools that it forbids, and which tools are left."""
        self.explicit = self.index.servers.find(self.understood.text)
        if self.explicit.unwanted and (asked := self.explicit.asked(self.understood.text)).strip(" .,;!?"):
            words = self.index.keyword
            self.understood = understand(asked, self.understood.earlier, words.terms, words.terms_of_names)
        keyword, understood = self.index.keyword, self.understood
        forbidden = forbidden_tools(understood.forbidden, understood.asked, keyword.tools, keyword.named)
        self.forbidden = {**forbidden, **self._undone()}
        if self.explicit.wanted or self.explicit.unwanted or self.forbidden or self.request.filters:
            self.settled = False
            self.allowed = allowed = self._allowed()
            if allowed is not None:
                self.always = {tool: asked for tool, asked in self.always.items() if allowed[tool]}

    def _undone(self) -> dict[int, str]:
        places, query = self.index.catalogue.positions, self.request.query
        return {places[key]: query for key in undone(query, self.request.conversation) if key in places}

    def named(self) -> Positions | None:
        """The tools of the servers that the query asks for; None if it asks for none."""
        if not self.explicit.wanted:
            return None
        return np.flatnonzero(self._of_servers(self.explicit.wanted))

    def before(self) -> list[int]:
        """The servers, as numbers of the keyword leg, that the exchange before used, if this turn may stay with them:
        where it leans on it or says little, and names no server."""
        if self.explicit.wanted or not (self.understood.earlier or len(self.understood.terms) <= FEW):
            return []
        places = self.index.catalogue.positions
        used = [places[key] for key in used_just_before(self.request.conversation) if key in places]
        return list({int(self.index.keyword.server_of[position]) for position in used})

    def _allowed(self) -> NDArray[np.bool_] | None:
        unwanted = set(self.explicit.unwanted) - set(self.explicit.wanted)
        if not unwanted and not self.forbidden and not self.request.filters:
            return None
        allowed = np.ones(len(self.index.catalogue), np.bool_)
        allowed[list(self.forbidden)] = False
        for label in self.request.filters.items():
            having = np.zeros_like(allowed)
            having[self.index.labelled.get(label, [])] = True
            allowed &= having
        return allowed & ~self._of_servers(unwanted)

    def _of_servers(self, servers: Iterable[str]) -> NDArray[np.bool_]:
        keyword = self.index.keyword
        return np.isin(keyword.server_of, [keyword.servers.index(server) for server in servers])


def _worth(hit: AlwaysHit) -> float:
    """The least score of a capability that a clause asks for."""
    return 1.0 if hit.settles else ASKED_CLEARLY if hit.clear else ASKED_LOOSELY
