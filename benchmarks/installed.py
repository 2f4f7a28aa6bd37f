"""Measures the size of the core package's dependencies in megabytes, each with the packages that only it brings.

Run: python -m benchmarks.installed. Bytecode, which Python writes on first use, is not counted.
"""

from collections.abc import Collection, Iterable
from importlib.metadata import distribution, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LEAST_MB = 3.0
"""Dependencies that take less are one row."""


def needed(requirements: Iterable[Requirement]) -> set[str]:
    """Return the packages of these requirements and all that they need here."""
    found = set[str]()
    seen = set[tuple[str, frozenset[str]]]()
    left = list(requirements)
    while left:
        requirement = left.pop()
        name = canonicalize_name(requirement.name)
        extras = frozenset(requirement.extras)
        if (name, extras) not in seen:
            seen.add((name, extras))
            found.add(name)
            left += direct(name, extras)
    return found


def direct(name: str, extras: Iterable[str] = ()) -> list[Requirement]:
    """Return what a package with these extras needs by itself."""
    chosen = [{"extra": extra} for extra in ("", *extras)]
    return [
        requirement
        for requirement in map(Requirement, requires(name) or ())
        if requirement.marker is None or any(map(requirement.marker.evaluate, chosen))
    ]


def megabytes(name: str) -> float:
    """Return the size of a package's files, without bytecode."""
    files = [file.locate() for file in distribution(name).files or () if file.suffix != ".pyc"]
    return sum(file.stat().st_size for file in files if file.exists()) / 1e6  # type: ignore[attr-defined]


def installed_table() -> str:
    """Return the table, greatest first."""
    own = {canonicalize_name(requirement.name): requirement for requirement in direct("toolroute")}
    every = needed(own.values())
    brought: dict[str, set[str]] = {}
    for name, requirement in own.items():
        others = [other for other in own.values() if other is not requirement]
        brought[name] = {name} | needed([requirement]).difference(needed(others))
    sizes = {name: sum(map(megabytes, packages)) for name, packages in brought.items()}
    shown = sorted((name for name in own if sizes[name] >= LEAST_MB), key=lambda name: -sizes[name])
    rest = every.difference(*(brought[name] for name in shown))
    lines = [
        "| a dependency, with the packages that only it brings | packages | MB |",
        "| --- | ---: | ---: |",
    ]
    lines += [row(name, brought[name]) for name in shown]
    lines.append(row("all others", rest))
    lines.append(row("**all, for a Router**", every))
    lines.append(
        row("**with the extra `mcp`, for a gateway**", needed(direct("toolroute", ["mcp"])))
    )
    return "\n".join(lines)


def row(label: str, packages: Collection[str]) -> str:
    """Return a row of the table."""
    return f"| {label} | {len(packages)} | {sum(map(megabytes, packages)):.0f} |"


if __name__ == "__main__":
    print(installed_table())
