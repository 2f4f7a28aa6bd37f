"""Published MCP servers as entries: from the Python registry, and from npm where `make node-servers` was run."""

import shutil
import sys
from pathlib import Path
from typing import Any

NODE_MODULES = Path(__file__).parents[1] / "node" / "node_modules"
_BESIDE_PYTHON = Path(sys.executable).parent / "node"

node = shutil.which("node") or (str(_BESIDE_PYTHON) if _BESIDE_PYTHON.exists() else None)
node_servers_installed = node is not None and NODE_MODULES.is_dir()


def python_entry(module: str, *args: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-m", module, *args]}


def node_entry(name: str, *args: str, **env: str) -> dict[str, Any]:
    script = NODE_MODULES / "@modelcontextprotocol" / f"server-{name}" / "dist" / "index.js"
    return {"command": node or "node", "args": [str(script), *args], "env": env}
