"""Invalid lines get receipts, which never quote them, and do not stop an import."""

import json
from io import BytesIO
from typing import Any

import pytest
from django.db import connection

from evidence.models.connections import Connection
from evidence.write.ingest import IngestResult, ingest_lines
from evidence.write.ndjson import CODE_MESSAGES, ReceiptCode, read_lines
from tests.world import BANK, NOW, PERSONAL, World
from tests.write import stored

SECRET = "xylophone"


def line(**members: Any) -> bytes:
    whole = {
        "connection_id": PERSONAL,
        "stream": "messages",
        "key": "bad",
        "data": {"id": "bad", "subject": SECRET},
        "emitted_at": "2026-10-02T00:00:00Z",
    } | members
    return json.dumps({name: value for name, value in whole.items() if value is not ...}).encode()


def raw(value: str) -> bytes:
    """Return a line with ``value`` as JSON text of its subject."""
    return line(data=...)[:-1] + b', "data": {"id": "bad", "subject": %s}}' % value.encode()


def send(world: World, *lines: bytes, longest: int = 1_000_000) -> IngestResult:
    stream = BytesIO(b"\n".join(lines))
    return ingest_lines(read_lines(stream, max_bytes=longest), owner_id=world.owner_id, now=NOW)


BAD = [
    (b'{"key": "half", "subject": "xylophone"', ReceiptCode.MALFORMED_NDJSON, None),
    (b'["xylophone"]', ReceiptCode.MALFORMED_NDJSON, None),
    (b'"xylophone"', ReceiptCode.MALFORMED_NDJSON, None),
    (raw("NaN"), ReceiptCode.MALFORMED_NDJSON, None),
    (raw('"xylophone \\udead"'), ReceiptCode.LONE_SURROGATE, None),
    (raw('"xylophone \\ud83d"'), ReceiptCode.LONE_SURROGATE, None),
    (raw('"xylophone \\u0000"'), ReceiptCode.NUL_CHARACTER, None),
    (raw('"a"').replace(b'"a"', b'"xylophone \x00"'), ReceiptCode.NUL_CHARACTER, None),
    (raw('[{"xylophone\\u0000": 1}]'), ReceiptCode.NUL_CHARACTER, None),
    (raw('"a"').replace(b'"a"', b'"xylophone \xff"'), ReceiptCode.INVALID_UTF8, None),
    (raw("[" * 65 + "]" * 65), ReceiptCode.NESTED_TOO_DEEPLY, "$.data"),
    (raw("[" * 3000 + "]" * 3000), ReceiptCode.NESTED_TOO_DEEPLY, None),
    (raw("[" * 1000 + "9223372036854775807" + "]" * 1000), ReceiptCode.NESTED_TOO_DEEPLY, None),
    (raw("123456789012345678901"), ReceiptCode.NUMBER_OUT_OF_RANGE, None),
    (raw("18446744073709551616"), ReceiptCode.NUMBER_OUT_OF_RANGE, None),
    (raw("1e999"), ReceiptCode.NUMBER_OUT_OF_RANGE, None),
    (line(surprise=SECRET), ReceiptCode.INVALID_ENVELOPE, None),
    (line(stream=...), ReceiptCode.INVALID_ENVELOPE, "$.stream"),
    (line(connection_id=7), ReceiptCode.INVALID_ENVELOPE, "$.connection_id"),
    (line(op="xylophone"), ReceiptCode.INVALID_OP, "$.op"),
    (line(op=["upsert"]), ReceiptCode.INVALID_OP, "$.op"),
    (line(emitted_at=SECRET), ReceiptCode.INVALID_EMITTED_AT, "$.emitted_at"),
    (line(emitted_at="2026-10-02T00:00:00"), ReceiptCode.INVALID_EMITTED_AT, "$.emitted_at"),
    (line(connection_id="cin_nowhere"), ReceiptCode.CONNECTION_NOT_FOUND, None),
    (line(stream="xylophone"), ReceiptCode.STREAM_NOT_DECLARED, None),
    (line(key="other"), ReceiptCode.INVALID_RECORD_IDENTITY, "$.data.id"),
    (line(key=..., data={"subject": SECRET}), ReceiptCode.INVALID_RECORD_KEY, "$.key"),
    (line(key=""), ReceiptCode.INVALID_RECORD_KEY, "$.key"),
    (line(key="x" * 201, data={"id": "x" * 201}), ReceiptCode.INVALID_RECORD_KEY, "$.key"),
    (line(key="é" * 101, data={"id": "é" * 101}), ReceiptCode.INVALID_RECORD_KEY, "$.key"),
    (line(key="a\nb", data={"id": "a\nb"}), ReceiptCode.INVALID_RECORD_KEY, "$.key"),
    (line(key=["bad", "more"]), ReceiptCode.INVALID_RECORD_KEY, "$.key"),
    (
        line(data={"id": "bad", "size_bytes": SECRET}),
        ReceiptCode.INVALID_RECORD,
        "$.data.size_bytes",
    ),
    (line(data=...), ReceiptCode.INVALID_RECORD, "$.data"),
    (line(data=[SECRET]), ReceiptCode.INVALID_RECORD, "$.data"),
]


@pytest.mark.parametrize(("bad", "code", "path"), BAD)
def test_bad_line_gets_a_code_and_other_lines_are_stored(
    world: World, bad: bytes, code: ReceiptCode, path: str | None
) -> None:
    good = [line(key=key, data={"id": key}) for key in ("before", "after")]
    outcome = send(world, good[0], bad, good[1])
    assert [(each.line, each.code, each.path) for each in outcome.receipts] == [(2, code, path)]
    assert (outcome.lines, outcome.created, outcome.rejected) == (3, 2, 1)
    assert stored.data(PERSONAL, "before")
    assert stored.data(PERSONAL, "after")
    assert SECRET not in repr(outcome)


def test_too_long_line_is_skipped(world: World) -> None:
    long = line(data={"id": "bad", "subject": "x" * 300_000})
    outcome = send(world, long, line(key="ok", data={"id": "ok"}), long, longest=200_000)
    assert [(each.line, each.code) for each in outcome.receipts] == [
        (1, ReceiptCode.LINE_TOO_LONG),
        (3, ReceiptCode.LINE_TOO_LONG),
    ]
    assert stored.data(PERSONAL, "ok") == {"id": "ok"}


def test_line_of_maximum_length_is_stored(world: World) -> None:
    content = line()
    assert send(world, content, content, longest=len(content)).created == 1


def test_blank_lines_bom_and_carriage_returns_are_ignored(world: World) -> None:
    outcome = send(world, b"\xef\xbb\xbf" + line() + b"\r", b"", b"  ", b"nonsense")
    assert outcome.created == 1
    assert [(each.line, each.code) for each in outcome.receipts] == [
        (4, ReceiptCode.MALFORMED_NDJSON)
    ]


def test_receipt_ids_are_unique(world: World) -> None:
    receipts = send(world, b"{", b"{", b"{").receipts
    assert len({each.receipt_id for each in receipts}) == 3
    assert all(each.receipt_id.startswith("rcp_") for each in receipts)


def test_revoked_connection_accepts_no_records(world: World) -> None:
    Connection.unscoped.filter(connection_id=PERSONAL).update(status="revoked")
    assert send(world, line()).by_code == {ReceiptCode.CONNECTION_NOT_WRITABLE: 1}


def test_connection_of_another_owner_is_not_found(world: World) -> None:
    outcome = ingest_lines(read_lines(BytesIO(line())), owner_id="somebody else", now=NOW)
    assert outcome.by_code == {ReceiptCode.CONNECTION_NOT_FOUND: 1}


@pytest.mark.one_server("Citus reports a row that COPY refuses without its SQLSTATE.")
def test_record_rejected_by_the_database_gets_a_receipt(world: World) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE evidence_record ADD CHECK (record_key NOT LIKE 'poison%')")
    keys = ["k0", "k1", "poison1", "k2", "k3", "k4", "poison2"]
    outcome = send(world, *(line(key=key, data={"id": key}) for key in keys))
    assert outcome.created == 5
    assert [(each.line, each.code) for each in outcome.receipts] == [
        (3, ReceiptCode.NOT_STORABLE),
        (7, ReceiptCode.NOT_STORABLE),
    ]
    assert stored.counts() == stored.true_counts()


@pytest.mark.parametrize(
    "key", ["a/b", "..", "../../etc/passwd", "back\\slash", "鍵", " ", '["a"]', "k" * 200, "%2F"]
)
def test_keys_that_look_like_paths_are_accepted(world: World, key: str) -> None:
    assert send(world, line(key=key, data={"id": key, "subject": "x"})).created == 1
    assert stored.data(PERSONAL, key) == {"id": key, "subject": "x"}


@pytest.mark.parametrize(
    "text",
    [
        "tab\tnewline\nreturn\r",
        "back\\slash \\N \\. \\u0041",
        "'quoted' \"twice\"",
        "\x7f\x85\u2028",
    ],
)
def test_all_characters_are_stored_unchanged(world: World, text: str) -> None:
    send(world, line(key="odd", data={"id": "odd", "subject": text, "body_text": text}))
    send(world, line(connection_id=BANK, stream="transactions", key="odd", data={
        "id": "odd", "date": "2026-01-01", "amount": 1, "name": text}))  # fmt: skip
    assert stored.data(PERSONAL, "odd")["body_text"] == text
    typed = stored.record(BANK, "odd", "transactions")
    assert typed is not None
    assert typed.words == [text]


def test_escaped_nul_text_is_stored(world: World) -> None:
    send(world, raw('"written \\\\u0000 like this"'))
    assert stored.data(PERSONAL, "bad")["subject"] == "written \\u0000 like this"


@pytest.mark.parametrize("number", [9007199254740993, 2**64 - 1, -(2**63), 0.1, 1e-300])
def test_numbers_are_stored_unchanged(world: World, number: float) -> None:
    send(world, raw('"x"').replace(b'"x"', b'"x", "number": %s' % repr(number).encode()))
    assert stored.data(PERSONAL, "bad")["number"] == number


def test_every_receipt_code_has_a_message() -> None:
    assert set(CODE_MESSAGES) == set(ReceiptCode)
