"""Lists the ten servers of `written/vendors`: `python -m research.vendors --out ../vendors`.

`written/vendors/servers.json` has the servers of the npm and Python registries with their versions. The requests were
written for them, and the servers' texts are not in this repository. Each server starts over stdio in a temporary home,
without an account. `--out` gets one folder for each file of requests, in the form that `toolroute eval` reads.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from research.sources import WRITTEN, rows

REQUESTS = WRITTEN / "vendors"
SETS = ("fitted", "apart")
"""The maps are fitted to the requests of the first file. The others, of other servers, only measure them."""
TIMEOUT_S = 600.0


def listed() -> list[dict[str, object]]:
    """Return the tools of all ten servers."""
    toolroute = [sys.executable, "-m", "orchestrator", "tools"]
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HOME": home, "XDG_DATA_HOME": home, "XDG_CACHE_HOME": home}
        store = ["--store", f"{home}/store"]
        config = ["--config", str(REQUESTS / "servers.json"), "--timeout", str(TIMEOUT_S)]
        subprocess.run([*toolroute, "sync", *store, *config], env=environment, check=True)
        tools = subprocess.run(
            [*toolroute, "list", *store, "-o", "jsonl"],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
    return [json.loads(line) for line in tools.stdout.splitlines()]


def write(folder: Path, records: list[dict[str, object]]) -> None:
    """Write one folder for each file of requests, with the tools of its servers."""
    for name in SETS:
        requests = list(rows(REQUESTS / f"{name}.jsonl"))
        servers = {request["id"].rpartition("-")[0] for request in requests}
        target = folder / name
        target.mkdir(parents=True, exist_ok=True)
        tools = [record for record in records if record["server"] in servers]
        for file, lines in (("tools", tools), ("queries", requests)):
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (target / f"{file}.jsonl").write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, required=True, help="the folder for the tools and requests"
    )
    write(parser.parse_args().out, listed())


if __name__ == "__main__":
    main()
