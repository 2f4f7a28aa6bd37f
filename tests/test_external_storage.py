"""Buckets for large payloads: their names, and the settings with which the Temporal commands connect."""

import sys

import pytest

from orchestrator import Options, external_storage
from orchestrator.cli.runs.temporal import connect, target
from orchestrator.errors import InvalidConfig, MissingExtra


@pytest.mark.parametrize("url", ["payloads", "s3://", "s3://payloads/folder", "https://payloads", "az://payloads"])
def test_what_names_no_bucket_is_refused(url: str) -> None:
    with pytest.raises(InvalidConfig, match="give s3://BUCKET or gs://BUCKET"):
        external_storage(url)


@pytest.mark.parametrize(("url", "package"), [("s3://b", "aioboto3"), ("gs://b", "gcloud")])
async def test_a_missing_package_is_named(url: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    server = target(Options.from_env({"TOOLROUTE_EXTERNAL_STORAGE": url}))
    with pytest.raises(MissingExtra, match=f"pip install '{package}"):
        await connect(server)
