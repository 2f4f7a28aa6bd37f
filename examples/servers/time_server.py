"""An MCP server over stdio that tells the time and converts it between time zones.

python examples/servers/time_server.py
"""

from datetime import date, datetime, time
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
Zone = Annotated[str, Field(description="IANA timezone name, e.g. 'Europe/Berlin' or 'UTC'")]
server = MCPServer("time")


class Moment(BaseModel):
    """A moment in one time zone."""

    timezone: str
    datetime: str
    day_of_week: str


class Conversion(BaseModel):
    """A moment in two time zones."""

    source: Moment
    target: Moment


def zone_of(name: str) -> ZoneInfo:
    """Return the time zone of this name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ToolError(
            f"unknown timezone {name!r}: give an IANA name, such as Europe/Berlin"
        ) from None


def moment(at: datetime) -> Moment:
    """Return a moment as the tools answer it."""
    return Moment(
        timezone=str(at.tzinfo), datetime=at.isoformat(timespec="seconds"), day_of_week=f"{at:%A}"
    )


@server.tool(annotations=READS)
def get_current_time(timezone: Zone) -> Moment:
    """Get current time in a specific timezone"""
    return moment(datetime.now(zone_of(timezone)))


@server.tool(annotations=READS)
def convert_time(
    source_timezone: Zone,
    time: Annotated[time, Field(description="Time to convert in 24-hour format (HH:MM)")],
    target_timezone: Zone,
) -> Conversion:
    """Convert time between timezones"""
    today: date = datetime.now(zone_of(source_timezone)).date()
    source = datetime.combine(today, time, zone_of(source_timezone))
    return Conversion(
        source=moment(source), target=moment(source.astimezone(zone_of(target_timezone)))
    )


if __name__ == "__main__":
    server.run()
