"""The files of the clients that `toolroute setup` knows."""

PLACES = {
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "claude-code": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "gemini": ".gemini/settings.json",
    "codex": ".codex/config.toml",
    "zed": ".config/zed/settings.json",
    "cline": ".cline/data/settings/cline_mcp_settings.json",
    "roo": ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
    "continue": ".continue/config.yaml",
    "opencode": ".config/opencode/opencode.json",
    "goose": ".config/goose/config.yaml",
    "lmstudio": ".lmstudio/mcp.json",
    "amp": ".config/amp/settings.json",
    "kiro": ".kiro/settings/mcp.json",
    "warp": ".warp/.mcp.json",
    "copilot": ".copilot/mcp-config.json",
}
"""Where each client keeps its file, below the home."""
