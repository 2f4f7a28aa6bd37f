"""toolroute: the few tools that fit a task, why, and only their servers connected."""

from importlib import import_module

_HOMES = {
    "Catalogue": "catalogue.catalogue",
    "Connections": "mcp.connections",
    "Decision": "records.decision",
    "Limits": "records.budget",
    "Options": "options",
    "OrchestratorPlugin": "temporal.plugin",
    "RouteRequest": "records.request",
    "Router": "runtime.router",
    "RunRequest": "records.run",
    "RunResult": "records.run",
    "Source": "store.sources",
    "Tool": "records.tool",
    "ToolRouter": "temporal.workflow",
    "ToolrouteError": "errors",
    "Turn": "records.request",
}

__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
