"""A FastMCP server with tools and skills (SEP-2640). FOLDER is the folder of the skills.

Run: `python skilled.py FOLDER`. FastMCP's own provider serves the skills. A file that changes has another digest.
"""

import sys
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.skills.provider import SkillsDirectoryProvider

server: FastMCP = FastMCP("skilled")
server.add_provider(SkillsDirectoryProvider(Path(sys.argv[1]), reload=True))


@server.tool
def issue_refund(order: str) -> str:
    """Give a customer the money of an order back."""
    return f"refunded {order}"


@server.tool
def get_order(order: str) -> str:
    """Look up an order by its number."""
    return order


if __name__ == "__main__":
    server.run(show_banner=False)
