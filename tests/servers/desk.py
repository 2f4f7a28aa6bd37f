"""A mail server that repeats its input in results, errors and progress. Run: `python desk.py`."""

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

server = MCPServer("desk")


@server.tool()
async def send_email(to: str, subject: str, sender: str, ctx: Context, tags: list[str] | None = None) -> dict[str, str]:
    """Send an email to a customer.

    Args:
        to: The address.
        subject: The subject.
        sender: The address that sends.
    """
    await ctx.report_progress(0, 1, f"sending as {sender}")
    await ctx.info(f"logged: sending as {sender}")
    if to == "nobody":
        raise ToolError(f"{sender} cannot send to nobody")
    return {"to": to, "subject": subject, "sender": sender, "tags": ", ".join(tags or [])}


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def list_emails() -> list[str]:
    """List the emails of the inbox."""
    return ["one"]


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def delete_email(number: int) -> str:
    """Delete an email of the inbox."""
    return f"deleted {number}"


if __name__ == "__main__":
    server.run("stdio")
