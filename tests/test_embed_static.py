"""The static embedder, and the errors for a missing one."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator import Options, Router
from orchestrator.errors import InvalidConfig
from tests.catalogues import sample
from tests.stores import embedder_of, shipped, smaller_model


def test_a_text_has_the_same_vector_of_length_one_alone_and_among_others() -> None:
    texts = ["send an email", "读取文件", "mail " * 5_000, "e-mail, then  call.\tNow\nthis", "getUserName of MyServer"]
    texts += ["café na\u0131ve cafe\u0301 \u0301x", "42% of $3,000.50!", "a\u200bb c\u00a0d 🚀up"]
    texts += [f"tool number {number}" for number in range(1_100)]  # Few are cut word by word, many in batches.
    together = shipped().embed(texts)
    assert together.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    for text, row in [*zip(texts, together, strict=True)][::7]:
        np.testing.assert_allclose(shipped().embed([text])[0], row, atol=1e-6)


def test_texts_that_say_nothing_are_zero_and_none_is_none() -> None:
    assert not shipped().embed(["", "   "]).any()
    assert shipped().embed([]).shape == (0, shipped().dimension)


def test_a_model_without_contrast_is_whole(tmp_path: Path) -> None:
    smaller: Any = embedder_of(embedder=str(smaller_model(tmp_path / "model")))
    assert smaller.contrast is None
    assert shipped().contrast.shape == (shipped().dimension, shipped().dimension)


@pytest.mark.parametrize("broken", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_folder_that_is_no_model_is_told(broken: str, tmp_path: Path) -> None:
    folder = smaller_model(tmp_path / "model")
    (folder / broken).write_text("{")
    with pytest.raises(InvalidConfig, match="not a model2vec folder"):
        embedder_of(embedder=str(folder))
    (folder / broken).unlink()
    with pytest.raises(InvalidConfig, match=rf"No such file.* a model2vec folder, with .*{broken}"):
        Router(sample(), options=Options(embedder=str(folder)))


@pytest.mark.parametrize("name", ["openai:", "no/such/folder", "statc", "x" * 300])
def test_an_embedder_that_is_none_is_told_where_a_router_is_made(name: str) -> None:
    with pytest.raises(InvalidConfig, match="embedder"):
        Router(sample(), options=Options(embedder=name))


def test_each_embedder_has_an_id_of_its_own(tmp_path: Path) -> None:
    folder = str(smaller_model(tmp_path / "model"))
    given = ["static", folder, "openai:m"]
    assert len({embedder_of(embedder=name).id for name in given}) == 3


def test_a_router_that_is_made_has_loaded_no_model() -> None:
    code = "import sys; from orchestrator import *; Router(Catalogue()); print('kitoken' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert ran.stdout == "False\n"


def test_threads_that_end_one_after_the_other_each_open_the_embedder() -> None:
    code = """
import threading
from orchestrator import Catalogue, Router

for _ in range(5):
    thread = threading.Thread(target=lambda: Router(Catalogue()).embedder.embed(["send an email"]))
    thread.start()
    thread.join()
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_threads_that_open_a_tokenizer_at_once_load_the_library_once() -> None:
    code = """
import os
from pathlib import Path
from threading import Barrier, Thread, enumerate
import orchestrator
from orchestrator.index.embedders import tokenizer

definition = (Path(orchestrator.__file__).parent / "data" / "embedder" / "tokenizer.json").read_bytes()
barrier = Barrier(8)

def open_tokenizer():
    barrier.wait()
    tokenizer.tokenizer_of(definition)

threads = [Thread(target=open_tokenizer) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print([thread.name for thread in enumerate()].count("toolroute tokenizers"))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("1\n", "")


def test_the_tokenizer_keeps_no_memory_that_it_needed_for_opening() -> None:
    code = """
from pathlib import Path
import orchestrator
from orchestrator.index.embedders import tokenizer

def kilobytes():
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1])

definition = (Path(orchestrator.__file__).parent / "data" / "embedder" / "tokenizer.json").read_bytes()
before = kilobytes()
opened = tokenizer.tokenizer_of(definition)
print(kilobytes() - before)
"""
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert int(printed) < 24_000
