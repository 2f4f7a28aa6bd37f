"""Stores for tests: in a folder, over HTTP, and on a Qdrant server where QDRANT_URL names one."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from orchestrator import Catalogue, Options, Router, Store, Tool, Vectors
from tests.catalogues import taking, tool
from tests.qdrant_front import qdrant_front

SHARED = "shared"
TOOLS, EXPERIENCE = "tools", "experience"
SHIPPED = Path(__file__).resolve().parents[1] / "orchestrator" / "data" / "embedder"
SERVERS = ["http", *(["url"] if os.environ.get("QDRANT_URL") else [])]
KINDS = ["folder", *SERVERS]

MAIL = (
    tool("mail:send_email", "Send an email to a person", input_schema=taking("to", to="Who gets it", body="The text")),
    tool("mail:search_inbox", "Search the messages of the inbox"),
)
FILES = (
    tool("files:read_file", "Read the text of a file", labels={"domain": "disk"}, keywords=("cat", "open")),
    tool("files:delete_file", "Delete a file from the disk"),
    tool("files:list_folder", "List the files of a folder"),
)


def embedder_of(**settings: Any) -> Any:
    """The embedder that these options name."""
    return Router(Catalogue([]), options=Options(**settings)).embedder


@cache
def shipped() -> Any:
    """The shipped embedder, opened once."""
    return embedder_of()


def watched_embedder(before: Callable[[Sequence[str]], object], folder: Path = SHIPPED) -> Any:
    """A model2vec folder's embedder, the shipped one by default, which calls a function before it embeds texts."""
    embedder = embedder_of(embedder=str(folder))
    embed = embedder.embed

    def watched(texts: Sequence[str]) -> Vectors:
        before(texts)
        vectors: Vectors = embed(texts)
        return vectors

    embedder.embed = watched
    return embedder


def smaller_model(folder: Path) -> Path:
    """Another model2vec folder: the first 64 dimensions of the shipped one."""
    folder.mkdir(parents=True)
    tensors = load_file(SHIPPED / "model.safetensors")
    rows = np.ascontiguousarray(tensors["embeddings"][:, :64])
    save_file({**tensors, "embeddings": rows}, folder / "model.safetensors")
    (folder / "tokenizer.json").write_bytes((SHIPPED / "tokenizer.json").read_bytes())
    config = json.loads((SHIPPED / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_dim": 64}))
    return folder


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the location of a store: a folder or a server."""
    if request.param == "folder":
        yield str(tmp_path / "store")
    else:
        with server_place(request.param) as url:
            yield url


@contextmanager
def server_place(kind: str) -> Iterator[str]:
    """The address of a server without collections of this project."""
    if kind == "http":
        with qdrant_front() as front:
            yield front.url
    else:
        url = os.environ["QDRANT_URL"]
        _empty(url)
        yield url


@pytest.fixture
def store(place: str) -> Iterator[Store]:
    """An empty store with the shipped embedder."""
    opened = Store(place, embedder=shipped(), timeout_s=60)
    yield opened
    opened.close()


def by_server(tools: Sequence[Tool]) -> dict[str, list[Tool]]:
    found: dict[str, list[Tool]] = {}
    for one in tools:
        found.setdefault(one.server, []).append(one)
    return found


def _empty(url: str) -> None:
    from qdrant_client import QdrantClient

    # A server two minors older than the client is a warning, which would be a failure here.
    client = QdrantClient(url=url, api_key=os.environ.get("QDRANT_API_KEY"), check_compatibility=False)
    for collection in client.get_collections().collections:
        if collection.name.startswith("tool_"):
            client.delete_collection(collection.name)
    client.close()


def folder_name(tenant: str) -> str:
    """The name of a tenant's folder in a store."""
    return hashlib.sha256(tenant.encode()).hexdigest()[:32]


def folder_of(store: Store, tenant: str) -> Path:
    return Path(store.location) / "tenants" / folder_name(tenant)


def file_of(store: Store, tenant: str, part: str = TOOLS) -> Path:
    return folder_of(store, tenant) / f"{part}.sqlite"
