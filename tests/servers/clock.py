"""A server with an MCP App: a tool whose interface is a `ui://` resource, and a tool that only the app may call.

Run: `python clock.py`.
"""

from mcp.server.apps import Apps, ResourceCsp
from mcp.server.mcpserver import MCPServer

APP = "ui://clock/app.html"
apps = Apps()


@apps.tool(resource_uri=APP, description="Show the time on a clock")
def show_time() -> str:
    return "twelve o'clock"


@apps.tool(resource_uri=APP, visibility=["app"], description="Set the clock of the app")
def set_clock(hour: int) -> str:
    return f"set to {hour}"


@apps.tool(resource_uri=APP, visibility=["model"], description="Stop the clock for the model")
def stop_clock() -> str:
    return "stopped"


apps.add_html_resource(APP, "<h1>clock</h1>", csp=ResourceCsp(connect_domains=["https://time.example"]))
server = MCPServer("clock", extensions=[apps])

if __name__ == "__main__":
    server.run("stdio")
