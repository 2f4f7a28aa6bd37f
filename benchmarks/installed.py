"""Measures the size of the core package's dependencies in megabytes, each with the packages that only it brings.

Run: python -m benchmarks.installed. Bytecode, which Python writes on first use, and the extras are not counted.
"""

from collections.abc import Iterable
from importlib.metadata import distribution, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LEAST_MB = 3.0
"""Dependencies that take less are one row."""


def needed(names: Iterable[str]) -> set[str]:
    """Return these packages and all that they need here."""
    found, left = set[str](), list[str](names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += direct(name)
    return found


def direct(name: str) -> list[str]:
    """Return the packages that one needs by itself, without extras."""
    wanted = map(Requirement, requires(name) or ())
    return [
        canonicalize_name(own.name)
        for own in wanted
        if own.marker is None or own.marker.evaluate({"extra": ""})
    ]


def megabytes(name: str) -> float:
    """Return the size of a package's files, without bytecode."""
    files = [file.locate() for file in distribution(name).files or () if file.suffix != ".pyc"]
    return sum(file.stat().st_size for file in files if file.exists()) / 1e6  # type: ignore[attr-defined]


def installed_table() -> str:
    """Return the table, greatest first."""
    own = direct("toolroute")
    every = needed(own)
    brought = {
        name: {name} | needed([name]).difference(needed(other for other in own if other != name))
        for name in own
    }
    sizes = {name: sum(map(megabytes, packages)) for name, packages in brought.items()}
    shown = sorted((name for name in own if sizes[name] >= LEAST_MB), key=lambda name: -sizes[name])
    rest = every.difference(*(brought[name] for name in shown))
    lines = [
        "| a dependency, with the packages that only it brings | packages | MB |",
        "| --- | ---: | ---: |",
    ]
    lines += [f"| {name} | {len(brought[name])} | {sizes[name]:.0f} |" for name in shown]
    lines.append(f"| all others | {len(rest)} | {sum(map(megabytes, rest)):.0f} |")
    lines.append(f"| **all** | {len(every)} | {sum(map(megabytes, every)):.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(installed_table())
