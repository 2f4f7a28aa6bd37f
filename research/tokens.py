"""The token estimate compared with o200k_base on real tool definitions: `python -m research.tokens --data FOLDER`.

Needs the extra `tokens`. For each catalogue: the lowest, mean and highest ratio of estimate to exact count, and how
many are below 1.
"""

import argparse
from pathlib import Path

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.export import export
from orchestrator.catalogue.tokens import compact, count_tokens, exact_counter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    folders = sorted(path.parent for path in (parser.parse_args().data / "bench").glob("*/tools.jsonl"))
    exact = exact_counter()
    print(f"{'catalogue':24s} {'definitions':>11s} {'lowest':>7s} {'mean':>7s} {'highest':>7s} {'below':>6s}")
    everything: list[float] = []
    for folder in folders:
        tools = Catalogue.read(folder).tools
        texts = [compact(shape) for shape in export(tools, "openai")]
        ratios = [count_tokens(text) / exact(text) for text in texts]
        everything += ratios
        _print(folder.name, ratios)
    _print("all", everything)


def _print(name: str, ratios: list[float]) -> None:
    mean, below = sum(ratios) / len(ratios), sum(ratio < 1 for ratio in ratios)
    print(f"{name:24s} {len(ratios):11,d} {min(ratios):7.2f} {mean:7.2f} {max(ratios):7.2f} {below:6d}")


if __name__ == "__main__":
    main()
