"""The blob of a hidden record changes no answer: what ``tests/test_non_interference.py`` asks of
JSON, for bytes and headers too."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from evidence.write.blobs import put_blob
from tests.api.test_blobs import CONTENT, FILES, ONE, OTHER, TAG, ask, grant, keep
from tests.world import NOW, World

GRANTS: dict[str, dict[str, Any]] = {
    "too_late": {"since": datetime(2026, 3, 1, tzinfo=UTC)},
    "another_record": {"resources": ["a1"]},
    "no_field": {"fields": ["filename", "added_at"]},
    "another_connection": {},
}
RECORDS = "/v1/streams/attachments/records"
BLOBS = ("blb_1", "blb_2", "blb_3")
VOLATILE = re.compile(
    rb'"request_id": ?"[^"]*"|(?<="next_changes_since":")[^"]+|(?<=changes_since=)[\w-]{40,}'
)
OF_EACH_REQUEST = frozenset({"Request-Id", "X-Request-Id"})


def requests() -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """Method, path and headers of every way to hear of a blob."""
    for blob_id in BLOBS:
        path = f"/v1/blobs/{blob_id}"
        yield "GET", path, {}
        yield "HEAD", path, {}
    for query in (f"connection_id={ONE}", f"connection_id={OTHER}", "connector_id=files"):
        yield "GET", f"/v1/blobs/blb_1?{query}", {}
    for sent in (
        {"Range": "bytes=1-9"}, {"Range": "bytes=900000-"}, {"If_None_Match": TAG},
    ):  # fmt: skip
        yield "GET", "/v1/blobs/blb_1", sent
    for key in ("a1", "a2"):
        yield "GET", f"{RECORDS}/{key}", {}
        yield "GET", f"{RECORDS}/{key}/field-window?field=blob_ref", {}
    for path in (
        RECORDS,
        f"{RECORDS}?count=exact",
        f"{RECORDS}?changes_since=beginning",
        "/v1/streams/attachments/aggregate?metric=count",
        "/v1/schema",
        "/v1/streams",
        "/v1/connectors",
    ):
        yield "GET", path, {}


def told(world: World, who: str) -> list[tuple[object, ...]]:
    """All answers with their headers, what may differ set aside."""
    answers = []
    for method, path, sent in requests():
        status, content, headers = ask(world, who, path, method, **sent)
        kept = {name: value for name, value in headers.items() if name not in OF_EACH_REQUEST}
        plain = VOLATILE.sub(b"", content)
        answers.append((method, path, tuple(sent.items()), status, plain, kept))
    return answers


@pytest.mark.parametrize("who", GRANTS)
def test_a_blob_outside_the_grant_changes_no_answer(world: World, who: str) -> None:
    world.declare(FILES)
    for connection_id in (ONE, OTHER):
        world.connect(connection_id, "files", connection_id)
    keep(world, ONE, "a1", "blb_1", CONTENT, media_type="application/pdf")
    grant(world, who, **GRANTS[who])

    before = told(world, who)
    _change_what_is_hidden(world, who)
    after = told(world, who)

    assert [each[3] for each in before].count(200) > 5
    for one, other in zip(before, after, strict=True):
        assert one == other


def _change_what_is_hidden(world: World, who: str) -> None:
    """A blob of the same id where the grant does not reach, and others where it does but for one."""
    keep(world, OTHER, "a1", "blb_1", b"other bytes", media_type="text/html")
    keep(world, OTHER, "a3", "blb_3", b"more bytes", media_type="text/html")
    if who in ("too_late", "another_record"):
        keep(world, ONE, "a2", "blb_2", b"hidden bytes", media_type="image/png")
    if who in ("too_late", "no_field"):
        put_blob(
            ONE,
            stream="attachments",
            record_key="a1",
            media_type="image/gif",
            chunks=[b"new bytes"],
            now=NOW,
            blob_id="blb_1",
        )
