"""Record ids and pdpp:// URIs are formatted and parsed."""

import base64
import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import record_ids
from evidence.record_ids import RecordRef
from tests.scenarios import scenario

PLAIN = st.text(string.ascii_letters + string.digits + "_-~ é日", min_size=1, max_size=30)
KEYS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=60)


@given(connection=PLAIN, stream=PLAIN, key=KEYS)
def test_formatted_id_parses_to_the_same_record(connection: str, stream: str, key: str) -> None:
    ref = RecordRef(connection, stream, key)

    assert record_ids.parse_id(record_ids.format_id(ref)) == ref


@given(stream=PLAIN, key=KEYS)
def test_id_without_connection_is_legacy_or_uri(stream: str, key: str) -> None:
    record_id = record_ids.format_id(RecordRef(None, stream, key))

    assert record_ids.parse_id(record_id) == RecordRef(None, stream, key)
    assert record_id in {
        f"{stream}:{key}",
        record_id if record_id.startswith("pdpp://record/") else "",
    }


@scenario("A1")
def test_plain_id_is_connection_stream_record() -> None:
    assert record_ids.format_id(RecordRef("cin_4f2a", "orders", "o1:b")) == "cin_4f2a/orders:o1:b"


@scenario("A8")
@pytest.mark.parametrize("key", ["a/b", "a\\b", "../x", "a..b", "."])
def test_key_with_separator_is_formatted_as_uri(key: str) -> None:
    record_id = record_ids.format_id(RecordRef("cin_a", "messages", key))

    assert record_id.startswith("pdpp://record/")
    assert record_ids.parse_id(record_id) == RecordRef("cin_a", "messages", key)


@scenario("A8")
@pytest.mark.parametrize("connection", ["cin/a", "..", "cin\\a", "."])
def test_unsafe_connection_id_is_left_out(connection: str) -> None:
    record_id = record_ids.format_id(RecordRef(connection, "messages", "m1"))

    assert record_id == "messages:m1"
    assert not record_ids.includes_connection(record_id, connection)


@scenario("A5")
@pytest.mark.parametrize(
    "record_id",
    [
        "/messages:m1",
        "cin_a/:m1",
        "cin_a/messages:",
        "cin_a/messages",
        "messages",
        ":m1",
        "messages:",
        "cin_a/messages/x:m1",
        "cin_a/messages:a/b",
        "cin_a//messages:m1",
        "../messages:m1",
        "cin_a/..:m1",
        "cin_a/messages:..",
        "cin_a/messages:../../etc",
        "cin_a/messages:a\\b",
        "cin_a/mess\nages:m1",
        "cin_a/messages:.",
        "./messages:m1",
        "",
        "pdpp://record/",
        "pdpp://record/%%%",
        "pdpp://secret/abc",
        "https://elsewhere.example/x",
        "x" * 5_000,
    ],
)
def test_malformed_id_is_rejected(record_id: str) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        record_ids.parse_id(record_id)


def test_key_may_contain_colons_and_percent_signs() -> None:
    assert record_ids.parse_id("cin_a/messages:a:b%2Fc").record_id == "a:b%2Fc"


def test_record_uri_accepts_percent_encoded_plain_id() -> None:
    ref = RecordRef("cin_a", "messages", "m_9")

    assert record_ids.parse_id("pdpp://record/cin_a%2Fmessages%3Am_9") == ref
    assert record_ids.parse_id("pdpp://record/cin_a/messages:m_9") == ref


@pytest.mark.parametrize(
    "members",
    [
        {"v": 2, "kind": "record", "stream": "s", "record_id": "r"},
        {"v": 1, "kind": "blob", "stream": "s", "record_id": "r"},
        {"v": 1, "kind": "record", "record_id": "r"},
        {"v": 1, "kind": "record", "stream": "s"},
        {"v": 1, "kind": "record", "stream": "../s", "record_id": "r"},
        {"v": 1, "kind": "record", "stream": "s", "record_id": "a\nb"},
        {"v": 1, "kind": "record", "stream": 7, "record_id": "r"},
        {"v": 1, "kind": "record", "connection_id": "../c", "stream": "s", "record_id": "r"},
        ["record"],
    ],
)
def test_invalid_handle_is_rejected(members: object) -> None:
    packed = base64.urlsafe_b64encode(json.dumps(members).encode()).decode().rstrip("=")

    with pytest.raises(ValueError, match=r"\.$"):
        record_ids.parse_id(f"pdpp://record/{packed}")


@given(key=KEYS, offset=st.integers(0, 10**9), q=st.text(min_size=1, max_size=20))
def test_field_window_uri_round_trips(key: str, offset: int, q: str) -> None:
    ref = RecordRef("cin_a", "messages", key)
    window = {"field_path": "body", "offset_chars": offset, "q": q}

    uri = record_ids.parse_uri(record_ids.field_window_uri(ref, window=window))

    assert (uri.kind, uri.record, uri.window) == ("field-window", ref, window)


@pytest.mark.parametrize(
    "window", [{}, {"field_path": ""}, {"field_path": 3}, {"field_path": "b", "evil": 1}]
)
def test_field_window_uri_with_invalid_member_is_rejected(window: dict[str, object]) -> None:
    record_id = record_ids.field_window_uri(RecordRef("cin_a", "messages", "m1"), window=window)

    with pytest.raises(ValueError, match=r"\.$"):
        record_ids.parse_uri(record_id)


def test_blob_and_stream_uris_round_trip() -> None:
    blob = record_ids.parse_uri(record_ids.blob_uri("blob_9", connection_id="cin_a"))
    stream = record_ids.parse_uri("pdpp://stream/sent_%C3%A9")

    assert (blob.kind, blob.name, blob.connection_id) == ("blob", "blob_9", "cin_a")
    assert (stream.kind, stream.name) == ("stream", "sent_é")


@given(text=st.text(max_size=120))
def test_any_text_parses_or_raises_value_error(text: str) -> None:
    try:
        ref = record_ids.parse_id(text)
    except ValueError:
        return
    assert ref.stream
    assert ref.record_id
