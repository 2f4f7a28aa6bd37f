"""Names in settings that the tenants' tools should have, such as `servers=["stripe"]` of a Router over a store."""

import logging
from collections.abc import Iterable

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.common.json_input import meant

logger = logging.getLogger(__package__)


class ExpectedNames:
    """The names by setting. A name that the first catalogue lacks is logged, because its setting has no effect."""

    def __init__(self) -> None:
        self._by_setting: dict[str, Iterable[str]] = {}

    def expect(self, setting: str, names: Iterable[str]) -> None:
        """Look for these names of a setting, too."""
        self._by_setting[setting] = names

    def check(self, tenant: str, catalogue: Catalogue) -> None:
        """Log the names that are no tool and no server of this catalogue. Later calls do nothing."""
        by_setting, self._by_setting = self._by_setting, {}
        if not any(by_setting.values()):
            return
        known = [
            *catalogue.positions,
            *(tool.name for tool in catalogue),
            *catalogue.places,
            *(f"{server}:*" for server in catalogue.places),
        ]
        for setting, names in by_setting.items():
            for name in sorted(set(names).difference(known)):
                remedy = meant(name, known) or ": add it, or leave the name out"
                logger.warning("%s: tenant %r has no %r%s", setting, tenant, name, remedy)
