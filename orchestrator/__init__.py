"""toolroute: the few tools that fit a task, why, and only their servers connected."""

from importlib import import_module

_HOMES = {
    "Catalogue": "catalogue",
    "Connections": "connections",
    "Decision": "decision",
    "Limits": "limits",
    "Options": "options",
    "OrchestratorPlugin": "plugin",
    "RouteRequest": "route_requests",
    "Router": "router",
    "RunRequest": "run_records",
    "RunResult": "run_records",
    "Tool": "models",
    "ToolRouter": "workflow",
    "ToolrouteError": "errors",
    "Turn": "route_requests",
}

__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
