"""Draw docs/route.svg: a task as `make demo` routes it. Run `make demo` first, because it stores the tools."""

import asyncio
import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME

from examples.demo import HERE, STORE, TENANT
from orchestrator import Router
from orchestrator.cli.routing.decision_view import show_decision

TASK = "turn 9:00 Berlin time into Tokyo time"
SVG = """\
<svg viewBox="0 0 {terminal_width} {terminal_height}" xmlns="http://www.w3.org/2000/svg">
<style>
text {{ font: {char_height}px ui-monospace, Menlo, Consolas, monospace; }}
{styles}
</style>
<rect width="100%" height="100%" rx="8" fill="#24292f"/>
<g transform="translate(12 10)">{backgrounds}{matrix}</g>
</svg>
"""


async def drawn() -> str:
    """Return the task's Decision as SVG. It is routed before, once, to warm up."""
    out = Console(
        file=io.StringIO(),
        record=True,
        width=98,
        force_terminal=True,
        highlight=False,
        markup=False,
    )
    async with Router(store=STORE) as router:
        await router.route(TASK, tenant=TENANT)
        show_decision(await router.route(TASK, tenant=TENANT), matches=3, to=out)
    out.print()
    svg = out.export_svg(theme=SVG_EXPORT_THEME, code_format=SVG, unique_id="t")
    return re.sub(r' clip-path="[^"]*"|<text[^>]*>\n</text>', "", svg).replace("<text", "\n<text")


if __name__ == "__main__":
    picture = Path(sys.argv[1]) if sys.argv[1:] else HERE.parent / "docs" / "route.svg"
    picture.write_text(asyncio.run(drawn()), encoding="utf-8")
