"""Decisions on a terminal, however narrow it is."""

from io import StringIO

import pytest
from rich.console import Console

from orchestrator import Catalogue, Router
from orchestrator.cli.show import show_decision
from tests.catalogues import tool

LONG = "zscaler-mcp-server:zins_get_cyber_incidents_daily"


@pytest.mark.parametrize(("width", "folded"), [(40, True), (60, True), (80, False)])
async def test_a_narrow_terminal_shows_scores_and_reasons_beside_long_names(width: int, folded: bool) -> None:
    async with Router(
        Catalogue([tool(LONG, "Cyber incidents of each day"), tool("mail:send", "Send a mail")])
    ) as router:
        decision = await router.route("cyber incidents")
    screen = StringIO()
    show_decision(decision, to=Console(file=screen, width=width))
    shown = screen.getvalue()
    row = next(line for line in shown.splitlines() if line.startswith("*"))
    assert f"{decision.matches[0].score:.2f}" in row
    assert " mcp " in row
    assert "name:" in shown
    assert (LONG not in shown) is folded
