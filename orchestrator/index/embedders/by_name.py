"""The embedder that the options name: the shipped static model, a model2vec folder or an endpoint."""

import os
from importlib.resources import files
from pathlib import Path

from orchestrator.common.json_input import why_unread
from orchestrator.common.regular import regular
from orchestrator.errors import InvalidConfig
from orchestrator.index.embedders.embedder import Embedder
from orchestrator.index.embedders.endpoint import OpenAIEmbedder
from orchestrator.index.embedders.static import FILES, StaticEmbedder, read_model, static_id
from orchestrator.options import Options, model_key


def embedder_for(options: Options) -> Embedder:
    """Return the embedder that `options.embedder` names: `static`, `openai:MODEL`, or a model2vec folder."""
    embedder = named_embedder(options)
    return StaticEmbedder(embedder) if isinstance(embedder, Path) else embedder


def named_embedder(options: Options) -> Path | OpenAIEmbedder:
    """Return a static model's folder or an endpoint without loading or calling it. Raises InvalidConfig otherwise."""
    name = options.embedder
    if name.startswith("openai:"):
        return OpenAIEmbedder(
            name.removeprefix("openai:"), base_url=options.model_url, api_key=model_key()
        )
    folder = _shipped_folder() if name == "static" else Path(name)
    try:
        for file in FILES:
            os.close(regular(str(folder / file), os.O_RDONLY))
    except OSError as error:
        form = f"give `static`, `openai:MODEL`, or a model2vec folder, with {', '.join(FILES)}"
        raise InvalidConfig(f"embedder {name!r} ({why_unread(error)}): {form}") from None
    return folder


def embedder_id(options: Options) -> str:
    """Return the id of the embedder in the options. Reads a static model's files without loading the model."""
    embedder = named_embedder(options)
    return static_id(*read_model(embedder)) if isinstance(embedder, Path) else embedder.id


def _shipped_folder() -> Path:
    return Path(str(files("orchestrator") / "data" / "embedder"))
