"""A tenant's index as a file, so that a new process need not read every tool's texts again.

The file has NumPy arrays, and two of them are JSON in UTF-8, so nothing in it can run:

    head        {"key": "...", "version": "...", "tools": [["stripe", ...], ["refund", ...], ...], "terms": [...], ...}
    documents   compressed: [[["give", "money"], "refund", ["charge"], false, false], ...], one row for each tool
    terms, fields, twins, sizes, vectors, deprecation_factor

It is valid for one embedder and this code. Otherwise, or if it is damaged, it is ignored. A file of an earlier version
of the tools serves as the index from which the new one is made.
"""

import gc
import json
import os
import time
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple
from functools import cache, partial
from hashlib import sha256
from itertools import repeat, starmap
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.catalogue.catalogue import in_order
from orchestrator.common.regular import regular
from orchestrator.index.always import Capability
from orchestrator.index.bm25 import Corpus
from orchestrator.index.documents import FIELD_WEIGHTS, Document, Reading
from orchestrator.index.flags import cleaned
from orchestrator.index.index import Index, Sizes
from orchestrator.records.relation import Relation
from orchestrator.records.tool import Annotations, Kind, Tool
from orchestrator.store.tools.stored_tools import Stored

_FIELDS = "server name description input_schema kind keywords labels annotations hash relations title".split()
_PUT = [Tool.__dict__[name].__set__ for name in _FIELDS]
_UNREAD_S = 30 * 86_400
"""The index of a tenant that nobody asks for is only a copy. It is made again when it is needed."""
_KINDS = {str(kind): kind for kind in Kind}


def save(file: Path, stored: Stored, embedder: str, index: Index) -> None:
    """Write the file. It is replaced completely or not at all.

    Args:
        file: The path of the file.
        stored: The tools.
        embedder: The id of the embedder.
        index: The Index of the tools.

    Raises:
        OSError: The file cannot be written.
    """
    reading = index.reading
    sizes = index.sizes
    head = {
        "key": _key(embedder),
        "version": stored.version,
        "tools": _columns(stored.tools),
        "terms": list(reading.corpus.ids),
        "words": sorted(reading.words),
        "actions": sorted(reading.actions),
        "suspicions": list(reading.suspicions.items()),
    }
    fields = np.bincount(reading.corpus.runs, minlength=len(stored.tools) * len(FIELD_WEIGHTS))
    arrays: dict[str, Any] = {
        "head": np.frombuffer(json.dumps(head).encode(), np.uint8),
        "documents": np.frombuffer(_packed(index.documents.all()), np.uint8),
        "terms": reading.corpus.terms.astype(np.uint32),
        "fields": fields.astype(np.uint32),
        "twins": reading.write_variants,
        "sizes": np.array([sizes.tokens, sizes.plain]),
    }
    if stored.vectors is not None:
        arrays["vectors"] = stored.vectors
    if reading.deprecation_factor is not None:
        arrays["deprecation_factor"] = reading.deprecation_factor
    new = file.with_name(f"{file.stem}-{os.urandom(4).hex()}.tmp")
    try:
        with open(new, "xb", opener=regular) as out:
            np.savez(out, **arrays)
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


def make_room(file: Path) -> None:
    """Create the file's folder in the user's cache, and remove files there that no process has read for a month."""
    for folder in (file.parent.parent, file.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for saved_file in file.parent.parent.glob("*/index*"):
        with suppress(FileNotFoundError):
            if (
                max(saved_file.stat().st_atime, saved_file.stat().st_mtime)
                < time.time() - _UNREAD_S
            ):
                saved_file.unlink()


def load(
    file: Path, embedder: str, capabilities: Sequence[Capability], unlisted: frozenset[str]
) -> tuple[Stored, Index] | None:
    """Return the stored tools and their Index. Return None if the file cannot be read or is of another embedder.

    Args:
        file: The path of the file.
        embedder: The id of the embedder.
        capabilities: The always-available capabilities.
        unlisted: The servers that could not be listed.
    """
    try:
        with (
            _no_collection(),
            open(file, "rb", opener=regular) as source,
            np.load(source, allow_pickle=False) as arrays,
        ):
            head = json.loads(arrays["head"].tobytes())
            if head["key"] != _key(embedder):
                return None
            catalogue = in_order(_tools(head["tools"]))
            reading = _reading(head, arrays)
            vectors = arrays.get("vectors")
            index = Index(catalogue, capabilities, vectors, absent=unlisted, reading=reading)
            index.sizes = Sizes(*arrays["sizes"])
            rows = zip(*arrays["sizes"].tolist(), strict=True)
            index.documents.sizes = dict(zip(index.documents.hashes, rows, strict=True))
            index.documents.saved = partial(
                _unpacked, arrays["documents"].tobytes(), catalogue.tools, reading
            )
    except Exception:
        # The file may have any content, and zip and NumPy raise many kinds of errors.
        return None
    return Stored(
        catalogue=catalogue, vectors=vectors, version=head["version"], unlisted=unlisted
    ), index


def _packed(documents: Sequence[Document]) -> bytes:
    """Return the fields of these documents that the other arrays do not have, as compressed JSON."""
    rows = [
        [sorted(document.words), document.action, document.thing, document.reads, document.outdated]
        for document in documents
    ]
    return zlib.compress(json.dumps(rows).encode(), 1)


def _unpacked(packed: bytes, tools: Sequence[Tool], reading: Reading) -> dict[str, Document]:
    """Return the documents of these tools by hash."""
    corpus = reading.corpus
    names = list(corpus.ids)
    terms = [names[number] for number in corpus.terms.tolist()]
    kinds = len(corpus.weights)
    ends = np.bincount(corpus.runs, minlength=len(tools) * kinds).cumsum().tolist()
    starts = [0, *ends]
    documents: dict[str, Document] = {}
    for position, (tool, row) in enumerate(
        zip(tools, json.loads(zlib.decompress(packed)), strict=True)
    ):
        words, action, thing, reads, outdated = row
        suspicions = reading.suspicions.get(position, ())
        fields = range(position * kinds, (position + 1) * kinds)
        documents[tool.hash] = Document(
            tool=cleaned(tool) if suspicions else tool,
            suspicions=suspicions,
            terms=tuple(tuple(terms[starts[field] : starts[field + 1]]) for field in fields),
            words=frozenset(words),
            action=action,
            thing=tuple(thing),
            reads=reads,
            outdated=outdated,
        )
    return documents


def _reading(head: Mapping[str, Any], arrays: Any) -> Reading:
    terms = head["terms"]
    fields = arrays["fields"]
    corpus = Corpus(
        ids=dict(zip(terms, range(len(terms)), strict=True)),
        terms=arrays["terms"].astype(np.int64),
        runs=np.arange(len(fields)).repeat(fields),
        weights=tuple(FIELD_WEIGHTS.values()),
        size=len(head["tools"][0]),
    )
    return Reading(
        corpus=corpus,
        words=frozenset(head["words"]),
        actions=frozenset(head["actions"]),
        suspicions={place: tuple(reasons) for place, reasons in head["suspicions"]},
        write_variants=arrays["twins"],
        deprecation_factor=arrays.get("deprecation_factor"),
    )


def _columns(tools: Sequence[Tool]) -> list[list[Any]]:
    """Return a column of values for each field of the tools."""
    values: dict[str, list[Any]] = {
        name: [getattr(tool, name) for tool in tools] for name in _FIELDS
    }
    values["annotations"] = [astuple(annotations) for annotations in values["annotations"]]
    values["relations"] = [[astuple(relation) for relation in own] for own in values["relations"]]
    return list(values.values())


def _tools(columns: Sequence[Sequence[Any]]) -> list[Tool]:
    """Return the tools of these columns. They were checked when they were saved.

    One field of all tools is set at a time. To make one tool after the other takes three times as long.
    """
    values = dict(zip(_FIELDS, columns, strict=True))
    values["kind"] = [_KINDS[kind] for kind in values["kind"]]
    values["keywords"] = list(map(tuple, values["keywords"]))
    values["annotations"] = list(starmap(_annotations, values["annotations"]))
    values["relations"] = list(map(_relations, values["relations"]))
    tools = list(map(object.__new__, repeat(Tool, len(values["hash"]))))
    for put, column in zip(_PUT, values.values(), strict=True):
        if len(column) != len(tools):
            raise ValueError("the columns have different lengths")
        deque(map(put, tools, column), maxlen=0)
    return tools


def _relations(rows: Sequence[Sequence[Any]]) -> tuple[Relation, ...]:
    return tuple([Relation(to=to, type=type_, weight=weight) for to, type_, weight in rows])


@cache
def _annotations(*hints: bool | None) -> Annotations:
    return Annotations(**dict(zip(Annotations.__dataclass_fields__, hints, strict=True)))


def _key(embedder: str) -> str:
    return f"{embedder} {_code()}"


@cache
def _code() -> str:
    """Return a digest of the code and the data from which an index is made."""
    package = Path(__file__).parents[1]
    digest = sha256()
    for folder in ("index", "catalogue", "common", "records", "data", "runtime"):
        for file in sorted((package / folder).glob("*.*")):
            if file.is_file():
                digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the garbage collector. Otherwise it walks over the growing data again and again, which takes half of
    the time.
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # Move everything to the oldest generation without a walk.
            gc.freeze()
            gc.unfreeze()
        if on:
            gc.enable()
