"""``GET`` and ``HEAD /v1/blobs/{blob_id}``, ``POST /v1/blobs``."""

import hashlib
import json
import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest
from django.test import Client as HttpClient
from pytest_django import DjangoAssertNumQueries

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.access.record_details import BlobGone
from evidence.write.blobs import CHUNK_BYTES, put_blob
from evidence.write.record_erasure import delete_record
from tests.world import NOW, Answer, World

FILES: dict[str, Any] = {
    "protocol_version": "0.1.0",
    "connector_id": "https://registry.example/connectors/files",
    "connector_key": "files",
    "version": "1.0.0",
    "display_name": "Files",
    "streams": [
        {
            "name": "attachments",
            "semantics": "mutable_state",
            "schema": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": {"type": "string"},
                    "filename": {"type": "string"},
                    "added_at": {"type": "string", "format": "date-time"},
                    "blob_ref": {"type": "object"},
                },
            },
            "primary_key": ["id"],
            "cursor_field": "added_at",
            "consent_time_field": "added_at",
            "selection": {"fields": True, "resources": True},
        }
    ],
}
ONE, OTHER = "cin_one", "cin_other"
CONTENT = bytes(range(256)) * 3_000
"""Three pieces, the last one shorter."""
TAG = f'"{hashlib.sha256(CONTENT).hexdigest()}"'
PATH = "/v1/blobs/blb_1"


@pytest.fixture
def files(world: World) -> World:
    """A blob of one connection, and Ruth, who may read the attachments of both."""
    world.declare(FILES)
    for connection_id in (ONE, OTHER):
        world.connect(connection_id, "files", connection_id)
    keep(world, ONE, "a1", "blb_1", CONTENT, media_type="application/pdf")
    grant(world, "ruth", connections=(ONE, OTHER))
    return world


def keep(
    world: World, connection_id: str, key: str, blob_id: str, content: bytes, *, media_type: str
) -> None:
    """A record with its blob."""
    world.put(
        (
            connection_id,
            "attachments",
            {"id": key, "added_at": "2026-02-01T00:00:00Z", "blob_ref": {"blob_id": blob_id}},
        )
    )
    put_blob(
        connection_id,
        stream="attachments",
        record_key=key,
        media_type=media_type,
        chunks=[content],
        now=NOW,
        blob_id=blob_id,
    )


def grant(world: World, who: str, *, connections: tuple[str, ...] = (ONE,), **terms: Any) -> None:
    streams = [StreamRequest(name="attachments", **terms)]
    world.grant(who, GrantRequest(connection_ids=connections, streams=streams))


def ask(
    world: World, who: str, path: str = PATH, method: str = "GET", **headers: str
) -> tuple[int, bytes, Mapping[str, str]]:
    """Status, bytes and headers."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    client = HttpClient(headers={"Authorization": f"Bearer {world.tokens[who]}", **sent})
    response = client.generic(method, path)
    content = b"".join(response) if response.streaming else response.content
    return response.status_code, content, response.headers


def test_the_bytes_come_as_they_were_kept(files: World) -> None:
    status, content, headers = ask(files, "ruth")
    assert (status, content) == (200, CONTENT)
    assert headers["Content-Type"] == "application/pdf"
    assert headers["Content-Length"] == str(len(CONTENT))
    assert headers["ETag"] == TAG
    assert headers["Accept-Ranges"] == "bytes"
    assert headers["Cache-Control"] == "private, no-store"


def test_the_record_says_where_its_blob_is(files: World) -> None:
    record = files.get("/v1/streams/attachments/records/a1", "ruth").body
    assert record["data"]["blob_ref"]["fetch_url"] == f"{PATH}?connection_id={ONE}"
    assert ask(files, "ruth", record["data"]["blob_ref"]["fetch_url"])[0] == 200


def test_one_record_says_how_large_its_blob_is(files: World) -> None:
    path = "/v1/streams/attachments/records/a1"
    assert files.get(path, "ruth").body["data"]["blob_ref"]["size_bytes"] == len(CONTENT)
    assert "blob_ref" not in files.get(path, "ruth", fields="filename").body["data"]

    data = {"id": "a9", "added_at": "2026-02-01T00:00:00Z", "blob_ref": {"blob_id": "blb_1"}}
    files.put((ONE, "attachments", data))
    pointing = files.get("/v1/streams/attachments/records/a9", "ruth").body["data"]["blob_ref"]
    assert "size_bytes" not in pointing, "the blob is kept for another record"


def test_head_tells_the_same_without_the_bytes(files: World) -> None:
    status, content, headers = ask(files, "ruth", method="HEAD", Range="bytes=0-1")
    assert (status, content) == (200, b"")
    assert headers["Content-Length"] == str(len(CONTENT))
    assert headers["ETag"] == TAG


@pytest.mark.parametrize("who", ["bob", "no_field", "no_record", "too_late"])
def test_a_hidden_blob_looks_like_one_that_does_not_exist(files: World, who: str) -> None:
    """Ruth can read it; each of these misses one thing that Ruth has."""
    grant(files, "no_field", fields=["filename"])
    grant(files, "no_record", resources=["a2"])
    grant(files, "too_late", since=NOW)
    assert ask(files, "ruth")[0] == 200
    hidden, missing = ask(files, who), ask(files, who, "/v1/blobs/blb_2")
    assert hidden[0] == missing[0] == 404
    assert _error(hidden)["code"] == "blob_not_found"
    assert _error(hidden) == _error(missing)


def test_a_blob_that_its_record_does_not_name_is_not_shown(files: World) -> None:
    assert ask(files, "ruth")[0] == 200
    files.put((ONE, "attachments", {"id": "a1", "added_at": "2026-02-01T00:00:00Z"}))
    assert ask(files, "ruth")[0] == ask(files, "alice")[0] == 404


def test_a_record_that_names_the_blob_of_another_does_not_show_it(files: World) -> None:
    """Whoever writes a record could otherwise open blobs of records that are not granted."""
    files.put((ONE, "attachments", {"id": "a2", "blob_ref": {"blob_id": "blb_1"}}))
    grant(files, "ivan", resources=["a2"])
    assert ask(files, "ivan")[0] == 404


def test_several_connections_with_the_same_id_ask_which(files: World) -> None:
    keep(files, OTHER, "o1", "blb_1", b"other", media_type="text/plain")
    answer = ask(files, "ruth")
    assert (answer[0], _error(answer)["code"]) == (409, "ambiguous_connection")
    candidates = _error(answer)["available_connections"]
    assert [each["connection_id"] for each in candidates] == [ONE, OTHER]
    assert ask(files, "ruth", f"{PATH}?connection_id={OTHER}")[1] == b"other"
    grant(files, "ivan", connections=(ONE,))
    assert ask(files, "ivan")[0] == 200


def test_a_connection_outside_the_grant_is_not_found(files: World) -> None:
    answer = ask(files, "bob", f"{PATH}?connection_id={ONE}")
    assert (answer[0], _error(answer)["code"]) == (404, "connection_not_found")


def test_the_old_name_of_the_connection_works_with_a_warning(files: World) -> None:
    status, _, headers = ask(files, "ruth", f"{PATH}?connector_instance_id={ONE}")
    assert (status, headers["PDPP-Warning"]) == (200, "deprecated_alias_used")


@pytest.mark.parametrize(
    ("wanted", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=10-99", 10, 100),
        (f"bytes={CHUNK_BYTES - 5}-{CHUNK_BYTES + 4}", CHUNK_BYTES - 5, CHUNK_BYTES + 5),
        ("bytes=700000-", 700_000, 768_000),
        ("bytes=700000-99999999", 700_000, 768_000),
        ("bytes=-100", 767_900, 768_000),
        ("bytes=-99999999", 0, 768_000),
    ],
)
def test_a_range_is_answered_with_just_that(
    files: World, wanted: str, start: int, end: int
) -> None:
    status, content, headers = ask(files, "ruth", Range=wanted)
    assert (status, content) == (206, CONTENT[start:end])
    assert headers["Content-Range"] == f"bytes {start}-{end - 1}/768000"
    assert headers["Content-Length"] == str(end - start)


@pytest.mark.parametrize("wanted", ["bytes=768000-", "bytes=-0", "bytes=999999999999-"])
def test_a_range_outside_is_refused_with_the_size(files: World, wanted: str) -> None:
    answer = ask(files, "ruth", Range=wanted)
    assert (answer[0], _error(answer)["code"]) == (416, "range_not_satisfiable")
    assert answer[2]["Content-Range"] == "bytes */768000"


@pytest.mark.parametrize(
    "wanted", ["bytes=0-1,5-6", "bytes=5-2", "bytes=-", "bytes=a-b", "pieces=0-1", "bytes=²-3"]
)
def test_what_is_no_single_range_of_bytes_is_answered_whole(files: World, wanted: str) -> None:
    assert ask(files, "ruth", Range=wanted)[:2] == (200, CONTENT)


def test_a_known_version_is_answered_with_304(files: World) -> None:
    for known in (TAG, f'"x", {TAG}', f"W/{TAG}", "*"):
        status, content, headers = ask(files, "ruth", If_None_Match=known)
        assert (status, content, headers["ETag"]) == (304, b"", TAG)
    assert ask(files, "ruth", If_None_Match='"other"')[0] == 200
    assert ask(files, "bob", If_None_Match="*")[0] == 404


def test_a_range_of_another_version_is_answered_whole(files: World) -> None:
    assert ask(files, "ruth", Range="bytes=0-1", If_Range=TAG)[0] == 206
    assert ask(files, "ruth", Range="bytes=0-1", If_Range='"other"')[:2] == (200, CONTENT)
    assert ask(files, "ruth", Range="bytes=0-1", If_Range=f"W/{TAG}")[0] == 200


@pytest.mark.parametrize(
    ("media_type", "disposition"),
    [
        ("image/png", "inline"),
        ("IMAGE/JPEG", "inline"),
        ("application/pdf", "inline"),
        ("image/svg+xml", "attachment"),
        ("text/html", "attachment"),
        ("text/html; charset=utf-8", "attachment"),
        ("application/xhtml+xml", "attachment"),
        ("text/javascript", "attachment"),
        ("text/plain", "attachment"),
    ],
)
def test_nothing_that_could_run_is_shown_in_place(
    files: World, media_type: str, disposition: str
) -> None:
    keep(files, ONE, "a2", "blb_2", b"<script>alert(1)</script>", media_type=media_type)
    _, _, headers = ask(files, "ruth", "/v1/blobs/blb_2", Accept="text/html")
    assert headers["Content-Type"] == media_type
    assert headers["Content-Disposition"] == f'{disposition}; filename="blb_2"'
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"] == "default-src 'none'; sandbox"


def test_refusals_are_json_whatever_was_asked_for(files: World) -> None:
    status, content, headers = ask(files, "ruth", "/v1/blobs/nothing", Accept="image/png")
    assert (status, headers["Content-Type"]) == (404, "application/json")
    assert json.loads(content)["error"]["code"] == "blob_not_found"


@pytest.mark.parametrize("path", ["/v1/blobs/%00", "/v1/blobs/..%2Fetc", f"/v1/blobs/{'x' * 5000}"])
def test_an_id_that_cannot_be_is_not_found(files: World, path: str) -> None:
    answer = ask(files, "ruth", path)
    assert (answer[0], _error(answer)["code"]) == (404, "blob_not_found")


def test_an_empty_blob_is_empty(files: World) -> None:
    keep(files, ONE, "a2", "blb_2", b"", media_type="text/plain")
    assert ask(files, "ruth", "/v1/blobs/blb_2")[:2] == (200, b"")
    assert ask(files, "ruth", "/v1/blobs/blb_2", Range="bytes=0-")[0] == 416


def test_a_large_blob_passes_through_in_pieces(
    files: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    size = 64 * CHUNK_BYTES
    keep(files, ONE, "a2", "blb_2", bytes(size), media_type="application/zip")
    client = HttpClient(headers={"Authorization": f"Bearer {files.tokens['ruth']}"})
    # token, blob, where the pieces lie, each piece, nine of the ledger
    with django_assert_num_queries(3 + 64 + 7):
        response = client.get("/v1/blobs/blb_2")
        tracemalloc.start()
        try:
            passed = sum(len(piece) for piece in response)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert passed == size
    assert most < 8 * CHUNK_BYTES


def test_a_blob_that_goes_while_it_is_read_breaks_the_answer_off(files: World) -> None:
    client = HttpClient(headers={"Authorization": f"Bearer {files.tokens['ruth']}"})
    bytes_coming = iter(client.get(PATH))
    assert len(next(bytes_coming)) == CHUNK_BYTES
    delete_record(ONE, stream="attachments", record_key="a1", suppress=True, now=NOW)
    with pytest.raises(BlobGone):
        next(bytes_coming)


# Taking in


@pytest.mark.parametrize("sent", [0, 1])
def test_bytes_that_are_replaced_while_they_are_read_are_not_mixed_with_the_new_ones(
    files: World, sent: int
) -> None:
    keep(files, ONE, "a2", "large", b"old" * CHUNK_BYTES, media_type="image/png")
    headers = {"Authorization": f"Bearer {files.tokens['alice']}"}
    answer = HttpClient(headers=headers).get(f"/v1/blobs/large?connection_id={ONE}")
    pieces = iter(answer.streaming_content)
    assert [next(pieces)[:3] for _ in range(sent)] == [b"old"] * sent

    keep(files, ONE, "a2", "large", b"new" * CHUNK_BYTES, media_type="image/png")

    with pytest.raises(BlobGone):
        next(pieces)


def post(world: World, who: str, content: bytes, headers: Any = None, **query: str) -> Answer:
    client = HttpClient(headers={"Authorization": f"Bearer {world.tokens[who]}"})
    response = client.generic(
        "POST", "/v1/blobs", content, content_type="image/png", query_params=query, headers=headers
    )
    return Answer(response.status_code, json.loads(response.content), response.headers)


WHERE = {"connection_id": ONE, "stream": "attachments", "record_key": "a9"}


def test_the_owner_gives_bytes_and_the_record_names_them(files: World) -> None:
    answer = post(files, "alice", CONTENT, **WHERE)
    assert answer.status == 200
    blob_id = answer.body.pop("blob_id")
    assert answer.body == {
        "object": "blob",
        "sha256": TAG.strip('"'),
        "size_bytes": len(CONTENT),
        "mime_type": "image/png",
    }
    path = f"/v1/blobs/{blob_id}"
    assert ask(files, "ruth", path)[0] == 404
    files.put((ONE, "attachments", {"id": "a9", "blob_ref": {"blob_id": blob_id}}))
    assert ask(files, "ruth", path)[1] == CONTENT


def test_the_media_type_may_be_named(files: World) -> None:
    assert post(files, "alice", b"", mime_type="text/csv", **WHERE).body["mime_type"] == "text/csv"


def test_nobody_but_the_owner_gives_bytes(files: World) -> None:
    assert post(files, "alice", b"", **WHERE).status == 200
    answer = post(files, "ruth", b"", **WHERE)
    assert (answer.status, answer.error["code"]) == (403, "permission_error")


@pytest.mark.parametrize(
    ("changed", "status", "param"),
    [
        ({"stream": ""}, 400, "stream"),
        ({"record_key": ""}, 400, "record_key"),
        ({"mime_type": "html"}, 400, "mime_type"),
        ({"mime_type": "text/html\r\nX: y"}, 400, "mime_type"),
        ({"json_path": "/other"}, 400, "json_path"),
        ({"stream": "nothing"}, 404, "stream"),
        ({"connection_id": "cin_nothing"}, 404, "connection_id"),
        ({"limit": "1"}, 400, "limit"),
    ],
)
def test_what_is_not_clear_is_refused_by_name(
    files: World, changed: dict[str, str], status: int, param: str
) -> None:
    answer = post(files, "alice", b"x", **(WHERE | changed))
    assert (answer.status, answer.error["param"]) == (status, param)


def test_a_blob_that_is_too_large_leaves_nothing(
    files: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evidence.limits.BLOB_MAX_BYTES", 1_000)
    assert post(files, "alice", bytes(1_000), **WHERE).status == 200
    answer = post(files, "alice", bytes(1_001), **WHERE)
    assert (answer.status, answer.error["code"]) == (413, "resource_limit")


def _error(answer: tuple[int, bytes, Mapping[str, str]]) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(answer[1])["error"]
    del error["request_id"]
    return error
