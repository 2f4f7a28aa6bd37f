"""The places where an mcpServers file is looked for. The module does not read files, because that loads pydantic."""

from pathlib import Path

FILE_NAMES = (".mcp.json", "mcp.json")
"""File names that are looked for in the working folder if no file is given."""


def find_config() -> Path | None:
    """Return `.mcp.json` or `mcp.json` of the working folder, or None."""
    folder = Path.cwd()
    return next((folder / name for name in FILE_NAMES if (folder / name).is_file()), None)


def user_config() -> Path:
    """Return the user's own mcpServers file, which `toolroute setup` writes, whether it is there or not."""
    from platformdirs import user_config_path

    return user_config_path("toolroute") / "mcp.json"
