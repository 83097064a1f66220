"""Keep backups in a bucket of any store that speaks the protocol of Amazon S3.

boto3 signs the requests; this module sends them, over connections that the outbound filter has checked
and to the host that the owner entered alone.
"""

import http.client
import ssl
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

from evidence.write.sealed_values import SealedError
from importers.core.source import ProblemCode, SourceError
from importers.core.source_http import HttpClient, TooLargeError
from importers.core.source_process import ServerNetwork
from operations.backup import plans
from operations.backup.errors import (
    BackupError,
    BackupMissingError,
    StoreBlockedError,
    StoreDeniedError,
    StoreExtraMissingError,
    StoreFailedError,
    StoreMissingError,
    StorePlainError,
    StoreSealedError,
    StoreUnreachableError,
)
from operations.backup.models import BackupPlan

PART_BYTES = 16 * 1024 * 1024
MAX_PARTS = 9_000
MAX_RESPONSE_BYTES = PART_BYTES + 1024 * 1024
ANSWER_SECONDS = 60.0
ATTEMPTS = 3
CHECK_NAME = "pdpp-check"
ERRORS: dict[str, type[BackupError]] = {
    "NoSuchBucket": StoreMissingError,
    "NoSuchKey": BackupMissingError,
    "AccessDenied": StoreDeniedError,
    "InvalidAccessKeyId": StoreDeniedError,
    "SignatureDoesNotMatch": StoreDeniedError,
    "401": StoreDeniedError,
    "403": StoreDeniedError,
}
CONNECTION_ERRORS: dict[ProblemCode, type[BackupError]] = {
    ProblemCode.PRIVATE_ADDRESS: StoreBlockedError,
    ProblemCode.HOST_UNKNOWN: StoreUnreachableError,
    ProblemCode.UNREACHABLE: StoreUnreachableError,
    ProblemCode.CONNECTION_LOST: StoreUnreachableError,
    ProblemCode.NO_TLS: StorePlainError,
}

UNREACHABLE = (
    http.client.HTTPException, ssl.SSLError, ConnectionError, TimeoutError, TooLargeError,
)  # fmt: skip


class Store:
    """A folder of a bucket. Raises BackupError for every failure."""

    def __init__(self, settings: Mapping[str, Any], secret: str) -> None:
        try:
            import boto3
            from botocore.config import Config
        except ImportError:
            raise StoreExtraMissingError from None
        url = str(settings["url"])
        network = ServerNetwork(
            allows_private=settings["allows_private"],
            allows_plain=settings["allows_private"],
            seconds=ANSWER_SECONDS,
        )
        self.address = address(settings)
        self._bucket, self._prefix = str(settings["bucket"]), str(settings["folder"])
        self._http = HttpClient(network, url)
        self._client = boto3.session.Session().client(
            "s3",
            endpoint_url=url,
            region_name=settings["region"],
            aws_access_key_id=settings["access_key"],
            aws_secret_access_key=secret,
            config=Config(
                signature_version="s3v4",
                s3={"addressing_style": "path"},
                retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
                # Other stores than Amazon's do not know the newer checksums; the file has its own.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
        self._client.meta.events.register("before-send.s3", self._send)

    def put(self, path: Path, name: str) -> Generator[None, None, None]:
        """Upload a file in steps. It appears in the bucket when it is complete."""
        key = {"Bucket": self._bucket, "Key": self._prefix + name}
        size = max(PART_BYTES, path.stat().st_size // MAX_PARTS)
        with _failures(self.address), path.open("rb") as file:
            upload = {**key, "UploadId": self._client.create_multipart_upload(**key)["UploadId"]}
            try:
                parts: list[dict[str, Any]] = []
                while content := file.read(size):
                    number = len(parts) + 1
                    part = self._client.upload_part(**upload, PartNumber=number, Body=content)
                    parts.append({"ETag": part["ETag"], "PartNumber": number})
                    yield
                self._client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
            except BaseException:
                with suppress(Exception):
                    self._client.abort_multipart_upload(**upload)
                raise

    def get(self, name: str, path: Path) -> Generator[None, None, None]:
        """Download an object in steps."""
        key = {"Bucket": self._bucket, "Key": self._prefix + name}
        with _failures(self.address), path.open("xb") as file:
            start, size = 0, 1
            while start < size:
                wanted = f"bytes={start}-{start + PART_BYTES - 1}"
                part = self._client.get_object(**key, Range=wanted)
                size = int(part["ContentRange"].rpartition("/")[2])
                file.write(part["Body"].read())
                start += PART_BYTES
                yield

    def delete(self, name: str) -> None:
        with _failures(self.address):
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + name)

    def check(self) -> None:
        """Write and delete a small object."""
        with _failures(self.address):
            name = self._prefix + CHECK_NAME
            self._client.put_object(Bucket=self._bucket, Key=name, Body=b"pdpp")
            self._client.delete_object(Bucket=self._bucket, Key=name)

    def _send(self, request: Any, **_: object) -> Any:
        """Send a signed request and return its response, which boto3 takes for its own."""
        from botocore.awsrequest import AWSResponse

        body = request.body.read() if hasattr(request.body, "read") else request.body
        headers = {
            name: value.decode() if isinstance(value, bytes) else str(value)
            for name, value in request.headers.items()
            if name.lower() != "expect"
        }
        response = self._http.request(
            request.method, request.url, headers=headers, body=body, max_bytes=MAX_RESPONSE_BYTES
        )
        raw = _Body(response.body)
        return AWSResponse(request.url, response.status, dict(response.headers.items()), raw)


class _Body(BytesIO):
    """A body as boto3 reads it."""

    def stream(self, **_: object) -> Iterator[bytes]:
        yield self.read()


def address(settings: Mapping[str, Any]) -> str:
    """Return the place of the copies in a store."""
    return f"{settings['url']}/{settings['bucket']}/{settings['folder']}"


def open_store(plan: BackupPlan) -> Store:
    """Return the store of a plan. Raises BackupError."""
    try:
        return Store(plan.store or {}, plans.open_store_secret(plan))
    except SealedError:
        raise StoreSealedError from None


@contextmanager
def _failures(place: str) -> Iterator[None]:
    """Convert the errors of boto3 and of the connection to BackupError."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))[:100]
        kind = ERRORS.get(code, StoreFailedError)
        details = {StoreFailedError: f"{code}.", BackupMissingError: f"{place}."}
        raise kind(details.get(kind, "")) from None
    except SourceError as error:
        kind = CONNECTION_ERRORS.get(error.code, StoreFailedError)
        raise kind(f"{error.detail or error.code}.") from None
    except (*UNREACHABLE, BotoCoreError) as error:
        raise StoreUnreachableError(f"{place} ({type(error).__name__}).") from None
