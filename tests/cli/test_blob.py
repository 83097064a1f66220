"""`pdpp blob` downloads, resumes and verifies blobs."""

import hashlib
from pathlib import Path

import httpx2
import pytest

from cli import http_client
from evidence import record_ids
from tests.cli.conftest import Shell

CONTENT = bytes(range(256)) * 400
TAG = f'"{hashlib.sha256(CONTENT).hexdigest()}"'


@pytest.fixture
def blobs(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Serve one blob with range requests, without pauses between retries."""

    def send(request: httpx2.Request) -> httpx2.Response:
        if request.url.path != "/v1/blobs/blb_1":
            return httpx2.Response(404, json={"error": {"code": "blob_not_found"}}, request=request)
        start = int(request.headers.get("range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        if start >= len(CONTENT):
            error = {"error": {"code": "range_not_satisfiable"}}
            return httpx2.Response(416, json=error, request=request)
        ranged = "range" in request.headers and request.headers.get("if-range") == TAG
        headers = {"etag": TAG, "content-type": "application/pdf"}
        if ranged:
            headers["content-range"] = f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"
        return httpx2.Response(
            206 if ranged else 200,
            content=CONTENT[start:] if ranged else CONTENT,
            headers=headers,
            request=request,
        )

    monkeypatch.setenv("PDPP_ACCESS_TOKEN", "at")
    monkeypatch.setenv("PDPP_PROVIDER_URL", "https://rs.example")
    monkeypatch.setattr(http_client.time, "sleep", lambda _seconds: None)
    shell.send = send
    return shell


def break_connections(shell: Shell, *, after: int, times: int) -> None:
    """Break the next `times` responses after `after` bytes."""
    working, remaining = shell.send, [times]

    class BrokenStream(httpx2.SyncByteStream):
        def __init__(self, content: bytes) -> None:
            self.content = content

        def __iter__(self):  # type: ignore[no-untyped-def]
            yield self.content[:after]
            raise httpx2.ReadError("connection reset")

    def send(request: httpx2.Request) -> httpx2.Response:
        answer = working(request)
        if remaining[0] and answer.is_success:
            remaining[0] -= 1
            headers = {
                name: answer.headers[name] for name in answer.headers if "length" not in name
            }
            return httpx2.Response(
                answer.status_code,
                stream=BrokenStream(answer.content),
                headers=headers,
                request=request,
            )
        return answer

    shell.send = send


def test_blob_is_saved_under_its_id(blobs: Shell, tmp_path: Path) -> None:
    result = blobs("blob", "blb_1")

    assert result.out == f"{len(CONTENT)} bytes in blb_1\n"
    assert (tmp_path / "blb_1").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["blb_1"]


@pytest.mark.parametrize(
    "name",
    [
        "/v1/blobs/blb_1?connection_id=cin_a",
        "https://rs.example/v1/blobs/blb_1?connection_id=cin_a",
        record_ids.blob_uri("blb_1", connection_id="cin_a"),
    ],
)
def test_blob_accepts_every_form_of_its_id(blobs: Shell, name: str) -> None:
    assert blobs("blob", name, "-o", "out.bin").code == 0
    assert blobs.requests[-1].url.params["connection_id"] == "cin_a"


def test_blob_download_resumes_after_connection_loss(blobs: Shell, tmp_path: Path) -> None:
    break_connections(blobs, after=40_000, times=2)

    result = blobs("blob", "blb_1")

    assert result.code == 0
    assert (tmp_path / "blb_1").read_bytes() == CONTENT
    ranges = [request.headers.get("range") for request in blobs.requests]
    assert ranges == [None, "bytes=40000-", "bytes=80000-"]


def test_same_command_resumes_interrupted_download(blobs: Shell, tmp_path: Path) -> None:
    working = blobs.send
    break_connections(blobs, after=10_000, times=5)
    interrupted = blobs("blob", "blb_1")
    blobs.send = working

    resumed = blobs("blob", "blb_1")

    assert (interrupted.code, resumed.code) == (69, 0)
    assert blobs.requests[-1].headers["range"] == "bytes=50000-"
    assert (tmp_path / "blb_1").read_bytes() == CONTENT


def test_download_with_wrong_sha256_is_deleted(blobs: Shell, tmp_path: Path) -> None:
    working = blobs.send

    def send(request: httpx2.Request) -> httpx2.Response:
        answer = working(request)
        return httpx2.Response(
            200, content=answer.content[:-1] + b"!", headers={"etag": TAG}, request=request
        )

    blobs.send = send

    result = blobs("blob", "blb_1")

    assert result.code == 76
    assert not (tmp_path / "blb_1").exists()


def test_blob_id_cannot_escape_the_working_directory(blobs: Shell, tmp_path: Path) -> None:
    blobs.send = lambda request: httpx2.Response(200, content=b"x", request=request)

    blobs("blob", "../../etc/passwd")

    assert [path.name for path in tmp_path.iterdir()] == ["_.._etc_passwd"]


def test_missing_blob_leaves_no_file(blobs: Shell, tmp_path: Path) -> None:
    assert blobs("blob", "blb_2").code == 66
    assert list(tmp_path.iterdir()) == []
