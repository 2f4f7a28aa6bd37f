"""The 200 tasks of tasks.tsv: the request, the tool that it was written for, and the arguments of that call."""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from benchmarks.office.server import FILE

HERE = Path(__file__).parent
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    query: str
    key: str
    arguments: dict[str, Any]

    @property
    def server(self) -> str:
        return self.key.partition(":")[0]


def tasks(folder: Path, servers: Iterable[str]) -> list[Task]:
    """Those of the given servers, in turns, each server's in the file's order: some build on earlier ones."""
    wanted, by_server = set(servers), defaultdict(list)
    for line in (HERE / "tasks.tsv").read_text(encoding="utf-8").splitlines():
        query, key, arguments = line.split("\t")
        given = json.loads(
            arguments.replace("{folder}", str(folder)).replace("{repo}", str(folder / "repo"))
        )
        task = Task(query=query, key=key, arguments=given)
        if task.server in wanted:
            by_server[task.server].append(task)
    return [task for task in chain(*zip_longest(*by_server.values())) if task is not None]


def entries() -> dict[str, dict[str, Any]]:
    """The ten servers of tools.json as entries of an mcpServers file."""
    root = str(HERE.parents[1])
    return {
        name: {
            "command": sys.executable,
            "args": ["-m", "benchmarks.office.server", name],
            "cwd": root,
        }
        for name in json.loads(FILE.read_text())
    }


def furnish(folder: Path) -> None:
    """Create the files and the git repository that the tasks mention."""
    for name, content in {
        "notes.txt": "the first note\n",
        "todo.txt": "taxes\nwindows\ngarden\n",
        "recipe.txt": "flour, water, salt\n",
        "config.ini": "level = debug\n",
        "server.log": "started\nready\nstopped\n",
        "draft.txt": "a draft\n",
        "poem.txt": "Violets are blue\n",
    }.items():
        (folder / name).write_text(content)
    (folder / "logo.png").write_bytes(PNG)
    (folder / "archive").mkdir()
    repo = folder / "repo"
    repo.mkdir()
    _git(repo, "init", "-q", "-b", "main")
    for line in ("one", "two", "three"):
        (repo / "readme.md").write_text(f"{line}\n")
        _git(repo, "add", "readme.md")
        _git(
            repo, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "-m", line
        )


def _git(repo: Path, *command: str) -> None:
    subprocess.run(["git", "-C", str(repo), *command], check=True)
