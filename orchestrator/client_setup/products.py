"""The MCP clients that `toolroute setup` knows: where each keeps its servers, and how it spells them.

A client's entry of a server, here of opencode, and the same entry in an mcpServers file:

    {"type": "local", "command": ["npx", "server"], "environment": {"KEY": "{env:KEY}"}}
    {"command": "npx", "args": ["server"], "env": {"KEY": "${KEY}"}}
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from orchestrator.mcp.config.launch import BARE

OURS = "toolroute"
"""The name of toolroute's entry in a client's file."""


class Environment(Enum):
    """How the variables of a client's own environment reach the servers that it starts."""

    NAMED = "the client replaces variables in its file, and passes on what an entry names"
    INHERITED = "each server inherits the client's environment"
    WITHHELD = "the client replaces no variables in its file, and passes few on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A program that starts MCP servers.

    Attributes:
        name: Its name in commands.
        title: Its name for people.
        places: Possible paths of its user-wide file, below {home}, {config} (the system's settings folder) and
            similar. The first existing file counts.
        windows: The path on Windows, if it differs.
        project: The path of its file in a project, "" if it has none.
        key: The part of the file that has the servers.
        environment: How variables reach its servers.
        fields: Its field names, each with the name in an mcpServers file.
        joined: True if the command and its arguments are one list.
        ours: Fields of the toolroute entry besides command and arguments.
        variable: The pattern of a variable in its own notation, with the variable's name as its group.
        namespaced: True if it writes a variable as `${env:NAME}`.
        builtin: Types of entries that are parts of the client itself.
    """

    name: str
    title: str
    places: tuple[str, ...]
    windows: str = ""
    project: str = ""
    key: str = "mcpServers"
    environment: Environment = Environment.NAMED
    fields: Mapping[str, str] = field(default_factory=dict)
    joined: bool = False
    ours: Mapping[str, Any] = field(default_factory=dict)
    variable: str = ""
    namespaced: bool = False
    builtin: tuple[str, ...] = ()

    def path(self, environ: Mapping[str, str], system: str) -> Path:
        """Return the path of its user-wide file, existing or not. `system` is a value of `sys.platform`."""
        home = _home(environ, system)
        folders = {
            "home": home,
            "xdg": environ.get("XDG_CONFIG_HOME") or f"{home}/.config",
            "config": settings_folder(environ, system),
            "codex": environ.get("CODEX_HOME") or f"{home}/.codex",
            "claude": environ.get("CLAUDE_CONFIG_DIR") or home,
            "copilot": environ.get("COPILOT_HOME") or f"{home}/.copilot",
        }
        places = self.places
        if self.windows and system == "win32":
            places = (self.windows,)
        paths = [Path(template.format(**folders)) for template in places]
        return next((path for path in paths if path.is_file()), paths[0])

    @property
    def form(self) -> str:
        """The file's format: `json` (comments allowed), `toml` or `yaml`."""
        return self.places[0].rpartition(".")[2].replace("jsonc", "json")


def settings_folder(environ: Mapping[str, str], system: str) -> Path:
    """Return the folder in which the programs of a system keep their settings."""
    home = _home(environ, system)
    if system == "win32":
        return Path(environ.get("APPDATA") or f"{home}/AppData/Roaming")
    if system == "darwin":
        return Path(f"{home}/Library/Application Support")
    return Path(environ.get("XDG_CONFIG_HOME") or f"{home}/.config")


def _home(environ: Mapping[str, str], system: str) -> str:
    variable = "USERPROFILE" if system == "win32" else "HOME"
    return environ.get(variable) or str(Path.home())


_STORAGE = "{config}/Code/User/globalStorage"
CLIENTS = (
    Client(
        name="claude-desktop",
        title="Claude Desktop",
        places=("{config}/Claude/claude_desktop_config.json",),
        environment=Environment.WITHHELD,
    ),
    Client(
        name="claude-code",
        title="Claude Code",
        places=("{claude}/.claude.json",),
        project=".mcp.json",
    ),
    Client(
        name="cursor",
        title="Cursor",
        places=("{home}/.cursor/mcp.json",),
        project=".cursor/mcp.json",
        namespaced=True,
    ),
    Client(
        name="vscode",
        title="VS Code",
        places=("{config}/Code/User/mcp.json",),
        project=".vscode/mcp.json",
        namespaced=True,
        key="servers",
        ours={"type": "stdio"},
    ),
    Client(
        name="windsurf",
        title="Windsurf",
        places=("{home}/.codeium/windsurf/mcp_config.json",),
        namespaced=True,
    ),
    Client(
        name="gemini",
        title="Gemini CLI",
        places=("{home}/.gemini/settings.json",),
        project=".gemini/settings.json",
        variable=BARE.pattern,
    ),
    Client(
        name="codex",
        title="Codex",
        places=("{codex}/config.toml",),
        project=".codex/config.toml",
        key="mcp_servers",
    ),
    # zed-industries/zed: crates/paths/src/paths.rs (config_dir, settings_file), docs/src/ai/mcp.md.
    Client(
        name="zed",
        title="Zed",
        places=("{xdg}/zed/settings.json",),
        windows="{config}/Zed/settings.json",
        key="context_servers",
        environment=Environment.INHERITED,
        ours={"source": "custom"},
    ),
    # docs.cline.bot/cli/configuration: one file for the extension, the CLI and the SDK; before, the extension's storage
    # (cline/cline: src/core/storage/disk.ts). cline/cline: docs/mcp/configuring-mcp-servers.mdx.
    Client(
        name="cline",
        title="Cline",
        places=(
            "{home}/.cline/data/settings/cline_mcp_settings.json",
            f"{_STORAGE}/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        ),
        environment=Environment.WITHHELD,
    ),
    # docs.roocode.com/features/mcp/using-mcp-in-roo; RooCodeInc/Roo-Code: src/shared/globalFileNames.ts and
    # src/services/mcp/McpHub.ts, in VS Code's storage of the extension.
    Client(
        name="roo",
        title="Roo Code",
        project=".roo/mcp.json",
        namespaced=True,
        places=(f"{_STORAGE}/rooveterinaryinc.roo-cline/settings/mcp_settings.json",),
    ),
    # continuedev/continue: docs/customize/deep-dives/mcp.mdx: a list, in which each entry has its name.
    Client(
        name="continue",
        title="Continue",
        places=("{home}/.continue/config.yaml",),
        environment=Environment.WITHHELD,
    ),
    # opencode.ai/docs/mcp-servers, opencode.ai/docs/config.
    Client(
        name="opencode",
        title="opencode",
        places=("{xdg}/opencode/opencode.json", "{xdg}/opencode/opencode.jsonc"),
        key="mcp",
        fields={"environment": "env"},
        joined=True,
        ours={"type": "local", "enabled": True},
        environment=Environment.INHERITED,
        project="opencode.json",
        variable=r"\{env:([A-Za-z_]\w*)\}",
    ),
    # block/goose: documentation/docs/guides/config-files.md.
    Client(
        name="goose",
        title="Goose",
        places=("{xdg}/goose/config.yaml",),
        windows="{config}/Block/goose/config/config.yaml",
        key="extensions",
        builtin=("builtin", "platform", "frontend", "inline_python"),
        environment=Environment.INHERITED,
        fields={"cmd": "command", "envs": "env", "uri": "url", "available_tools": "includeTools"},
        ours={"type": "stdio", "name": OURS, "description": "", "enabled": True, "timeout": 300},
    ),
    # lmstudio.ai/blog/lmstudio-v0.3.17, lmstudio-ai/docs: 0_app/2_mcp/index.mdx; for the other place of older
    # installations lmstudio-ai/lmstudio-bug-tracker issue 1371.
    Client(
        name="lmstudio",
        title="LM Studio",
        places=("{home}/.lmstudio/mcp.json", "{home}/.cache/lm-studio/mcp.json"),
        environment=Environment.WITHHELD,
    ),
    # ampcode.com/docs/cli/settings, ampcode.com/docs/customize/mcp.
    Client(
        name="amp",
        title="Amp",
        places=("{home}/.config/amp/settings.json", "{home}/.config/amp/settings.jsonc"),
        key="amp.mcpServers",
    ),
    # kiro.dev/docs/mcp/configuration.
    Client(
        name="kiro",
        title="Kiro",
        places=("{home}/.kiro/settings/mcp.json",),
        project=".kiro/settings/mcp.json",
    ),
    # docs.warp.dev/agents/capabilities/mcp.
    Client(
        name="warp",
        title="Warp",
        places=("{home}/.warp/.mcp.json",),
        fields={"working_directory": "cwd"},
    ),
    # docs.github.com: copilot/reference/copilot-cli-reference/cli-config-dir-reference and add-mcp-servers.
    Client(
        name="copilot",
        title="Copilot CLI",
        places=("{copilot}/mcp-config.json",),
        fields={"tools": "includeTools"},
        ours={"type": "local", "tools": ["*"]},
    ),
)
