"""Makes the shipped static embedder.

`python -m research.embedder --data ../shared --out orchestrator/data/embedder`
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse
from tokenizers import Tokenizer

from research import export, pairs, sources, student, texts, vocabulary
from research.bags import TextTable
from research.loop import Settings, Taught, train
from research.pairs import Family
from research.teacher import Teacher
from research.translations import translations

VOCABULARY = 40_000  # tokens: 40,000 x (256 + 4) bytes and the tokenizer stay below 12 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """All that training needs: the tokenizer, the student's first vectors [V, 256], the bags of all texts, the data."""

    tokenizer: Tokenizer
    matrix: np.ndarray
    bags: sparse.csr_matrix
    families: list[Family]
    taught: Taught


def prepare(data: Path, teacher: Teacher, tokenizer: Tokenizer | None = None) -> Prepared:
    """Read and embed everything. Without a tokenizer, train a new one.

    Args:
        data: The folder of the data.
        teacher: The teacher model.
        tokenizer: The tokenizer, or None.
    """
    catalogue, translated = sources.catalogues(data), translations(data)
    lessons = texts.collections(data, catalogue, translated)
    row = {
        text: number
        for number, text in enumerate(
            dict.fromkeys(t for lesson in lessons.values() for t in lesson)
        )
    }
    vectors = np.zeros((len(row), 384), np.float32)
    for lesson in lessons.values():
        vectors[[row[text] for text in lesson]] = teacher.embed(lesson)

    table = TextTable()
    families = pairs.families(data, catalogue, translated, table)
    # what the vocabulary is learnt from: the tools count three times
    corpus = table.texts + lessons["cards"] * 2
    tokenizer = tokenizer or vocabulary.build(corpus, VOCABULARY)
    project = student.projection(vectors)
    matrix = student.initial(tokenizer, teacher, project, corpus)
    projected = vectors @ project
    taught = Taught(
        texts=np.concatenate([table.add_all(row), table.add_all(one.text for one in translated)]),
        rows=np.concatenate([np.arange(len(row)), [row[one.english] for one in translated]]),
        foreign=len(translated),
        full=vectors,
        projected=projected / np.linalg.norm(projected, axis=1, keepdims=True),
    )
    return Prepared(
        tokenizer=tokenizer,
        matrix=matrix,
        bags=table.bags(tokenizer),
        families=families,
        taught=taught,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="the folder that holds bench/ and train/"
    )
    parser.add_argument("--out", type=Path, required=True, help="the model's folder")
    parser.add_argument(
        "--cache", type=Path, default=Path("~/.cache/toolroute-training").expanduser()
    )
    parser.add_argument("--steps", type=int, default=Settings().steps)
    parser.add_argument(
        "--new-vocabulary", action="store_true", help="train a tokenizer though --out has one"
    )
    arguments = parser.parse_args()
    # The WordPiece trainer breaks ties at random, so the shipped tokenizer is what makes the model reproducible.
    shipped = arguments.out / "tokenizer.json"
    reuse = shipped.exists() and not arguments.new_vocabulary
    prepared = prepare(
        arguments.data,
        Teacher(arguments.cache),
        Tokenizer.from_file(str(shipped)) if reuse else None,
    )
    train(
        prepared.matrix,
        prepared.bags,
        prepared.families,
        prepared.taught,
        Settings(steps=arguments.steps),
    )
    export.write(arguments.out, prepared.tokenizer, prepared.matrix)


if __name__ == "__main__":
    main()
