"""FastMCP: clients see two tools and find the others by searching. `python -m examples.fastmcp_server`."""

from fastmcp import FastMCP

from examples.functions import FUNCTIONS
from orchestrator.integrations.fastmcp import ToolRouterSearch

search = ToolRouterSearch(limit=3)
server = FastMCP("Office", transforms=[search])
for function in FUNCTIONS:
    server.tool(function)

if __name__ == "__main__":
    server.run()
