"""Makes the shipped static embedder: `python -m training.embedder --data ../shared --out orchestrator/data/embedder`."""

import argparse
from pathlib import Path

import numpy as np

from training import export, pairs, sources, student, texts, vocabulary
from training.bags import TextTable
from training.loop import Settings, Taught, train
from training.teacher import Teacher

VOCABULARY = 36_000


def make(data: Path, out: Path, cache: Path, settings: Settings) -> None:
    catalogue = sources.catalogues(data)
    teacher = Teacher(cache)
    lessons = texts.collections(data, catalogue)
    vectors = np.concatenate([teacher.embed(lesson) for lesson in lessons.values()])
    table = TextTable()
    families = pairs.families(data, catalogue, table)
    words = table.texts + lessons["cards"] * 2  # what the vocabulary is learnt from; the tools count three times
    numbers = table.add_all(text for lesson in lessons.values() for text in lesson)
    tokenizer = vocabulary.build(words, VOCABULARY)
    project = student.projection(vectors)
    matrix = student.initial(tokenizer, teacher, project, words)
    projected = vectors.astype(np.float32) @ project
    projected /= np.linalg.norm(projected, axis=1, keepdims=True)
    taught = Taught(texts=numbers, full=vectors.astype(np.float32), projected=projected)
    train(matrix, table.bags(tokenizer), families, taught, settings)
    export.write(out, tokenizer, matrix)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/ and train/")
    parser.add_argument("--out", type=Path, required=True, help="the model's folder")
    parser.add_argument("--cache", type=Path, default=Path("~/.cache/toolroute-training").expanduser())
    parser.add_argument("--steps", type=int, default=Settings().steps)
    arguments = parser.parse_args()
    make(arguments.data, arguments.out, arguments.cache, Settings(steps=arguments.steps))


if __name__ == "__main__":
    main()
