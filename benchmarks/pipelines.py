"""Quality, tokens and time of each preset on the development sets, in one process.

Run: python -m benchmarks.pipelines --data FOLDER [SET ...]; it prints the table of docs/pipelines.md.
"""

import argparse
import asyncio
import time
from pathlib import Path

from orchestrator.evaluate.runner import Answer, QuerySet, answer_all, read_set, report
from orchestrator.options import Options
from orchestrator.routing.pipeline import PRESETS
from orchestrator.routing.router import Router

SETS = ("api_bank", "azure_mcp", "bfcl_multi_turn", "restbench", "toolalpaca", "toollinkos")


async def _answers(found: QuerySet, preset: str) -> tuple[list[Answer], float]:
    """Return the answers and the milliseconds that a route took in the mean."""
    async with Router(found.catalogue, pipeline=preset) as router:
        await router.route("warm up")
        begin = time.perf_counter()
        answers = await answer_all(router, found.queries)
        return answers, (time.perf_counter() - begin) * 1000 / len(found.queries)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("sets", nargs="*", default=SETS)
    given = parser.parse_args()
    print("| set | preset | recall@5 | recall@10 | hit@1 | error of confidence | ms | against default |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in given.sets:
        found, least = read_set(given.data / "bench" / name), 0.0
        for preset in PRESETS:
            answers, took = asyncio.run(_answers(found, preset))
            least = least or took
            said = report(found, answers, gate=Options().gate)
            metrics = said["metrics"]
            figures = [metrics[key] for key in ("recall@5", "recall@10", "hit@1")]
            shown = " | ".join(f"{figure:.3f}" for figure in (*figures, said["confidence"]["ece"]))
            print(f"| {name} | {preset} | {shown} | {took:.1f} | {took / least:.2f} |", flush=True)


if __name__ == "__main__":
    main()
