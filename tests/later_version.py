"""A worker of a later version of toolroute. Each of its records has one more field with a default.

`python -m tests.later_version ADDRESS TASK_QUEUE` serves until its standard input ends.
"""

import ast
import asyncio
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

FIELD = "a_later_field"


class _Loader(SourceFileLoader):
    """Loads a module of records with one further field in each of its dataclasses."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path))
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(one) for one in node.decorator_list):
                node.body += ast.parse(f"{FIELD}: str = 'later'").body
        return compile(ast.fix_missing_locations(tree), path, "exec")


class LaterRecords(MetaPathFinder):
    """Finds the modules of `orchestrator.records`, as the later version has them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = PathFinder.find_spec(fullname, path) if fullname.startswith("orchestrator.records.") else None
        if found is None or found.origin is None:
            return None
        return importlib.util.spec_from_file_location(fullname, found.origin, loader=_Loader(fullname, found.origin))


async def serve(address: str, task_queue: str) -> None:
    from temporalio.client import Client

    from tests.running import plugin_over
    from tests.temporal import working

    client: Any = await Client.connect(address, plugins=[plugin_over()], identity="later")
    async with working(client, task_queue):
        print("serves", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    sys.meta_path.insert(0, LaterRecords())
    asyncio.run(serve(*sys.argv[1:]))
