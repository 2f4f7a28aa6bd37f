"""External storage of large payloads in a bucket, for workers on several machines.

A URL selects one of Temporal's drivers.
"""

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from orchestrator.errors import InvalidConfig, MissingExtra
from orchestrator.extras import install_command

if TYPE_CHECKING:
    from temporalio.converter import ExternalStorage

KINDS = {"s3": "s3", "gs": "gcs"}
"""The extra that each kind of bucket needs, by its URL scheme."""


def external_storage(url: str) -> "ExternalStorage":
    """Return the external storage in a bucket, for the data converter of clients and workers.

    The region, the endpoint and the keys come from the cloud's own variables and files. Each payload opens a
    connection, so nothing needs to be closed. A workflow's client and its worker use the same data converter:
    `dataclasses.replace(DataConverter.default, external_storage=external_storage("s3://payloads"))`.

    Args:
        url: `s3://BUCKET` or `gs://BUCKET`. The bucket must exist.

    Returns:
        An ExternalStorage for payloads of 256 KiB or more, which is Temporal's default.

    Raises:
        InvalidConfig: The URL is malformed.
        MissingExtra: The package for this kind of bucket is not installed: the extra `s3` or `gcs`.

    Examples:
        >>> from orchestrator import InvalidConfig, external_storage
        >>> try:
        ...     external_storage("payloads")
        ... except InvalidConfig as error:
        ...     print(error)
        external_storage='payloads': give s3://BUCKET or gs://BUCKET
    """
    parts = urlsplit(url)
    if parts.scheme not in KINDS or not parts.netloc or parts.path.strip("/"):
        raise InvalidConfig(f"external_storage={url!r}: give s3://BUCKET or gs://BUCKET")
    try:
        driver = _s3(parts.netloc) if parts.scheme == "s3" else _gcs(parts.netloc)
    except ImportError as error:
        extra = KINDS[parts.scheme]
        raise MissingExtra(f"{url}: {error}; install it with {install_command(extra)}") from error
    from temporalio.converter import ExternalStorage

    return ExternalStorage(drivers=[driver])


def _s3(bucket: str) -> Any:
    import aioboto3
    from temporalio.contrib.aws.s3driver import S3StorageDriver, S3StorageDriverClient
    from temporalio.contrib.aws.s3driver.aioboto3 import new_aioboto3_client

    session = aioboto3.Session()

    class Client(S3StorageDriverClient):
        async def put_object(self, *, bucket: str, key: str, data: bytes) -> None:
            async with session.client("s3") as opened:
                await new_aioboto3_client(opened).put_object(bucket=bucket, key=key, data=data)

        async def object_exists(self, *, bucket: str, key: str) -> bool:
            async with session.client("s3") as opened:
                return await new_aioboto3_client(opened).object_exists(bucket=bucket, key=key)

        async def get_object(self, *, bucket: str, key: str) -> bytes:
            async with session.client("s3") as opened:
                return await new_aioboto3_client(opened).get_object(bucket=bucket, key=key)

    return S3StorageDriver(client=Client(), bucket=bucket)


def _gcs(bucket: str) -> Any:
    from gcloud.aio.storage import Storage
    from temporalio.contrib.gcp.gcsdriver import GCSStorageDriver, GCSStorageDriverClient
    from temporalio.contrib.gcp.gcsdriver.gcloud_aio import new_gcloud_aio_client

    class Client(GCSStorageDriverClient):
        async def put_object(self, *, bucket: str, object_name: str, data: bytes) -> None:
            async with Storage() as opened:
                await new_gcloud_aio_client(opened).put_object(
                    bucket=bucket, object_name=object_name, data=data
                )

        async def object_exists(self, *, bucket: str, object_name: str) -> bool:
            async with Storage() as opened:
                return await new_gcloud_aio_client(opened).object_exists(
                    bucket=bucket, object_name=object_name
                )

        async def get_object(self, *, bucket: str, object_name: str) -> bytes:
            async with Storage() as opened:
                return await new_gcloud_aio_client(opened).get_object(
                    bucket=bucket, object_name=object_name
                )

    return GCSStorageDriver(client=Client(), bucket=bucket)
