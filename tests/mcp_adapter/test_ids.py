"""The grammar of ids and URIs."""

import base64
import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_adapter import ids
from mcp_adapter.ids import InvalidId, RecordRef
from tests.scenarios import scenario

PLAIN = st.text(string.ascii_letters + string.digits + "_-~ é日", min_size=1, max_size=30)
KEYS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=60)


@given(connection=PLAIN, stream=PLAIN, key=KEYS)
def test_whatever_the_key_the_shown_name_opens_the_same_record(
    connection: str, stream: str, key: str
) -> None:
    ref = RecordRef(connection, stream, key)

    assert ids.parse(ids.handle(ref)) == ref


@given(stream=PLAIN, key=KEYS)
def test_without_a_connection_the_name_is_the_legacy_one_or_a_uri(stream: str, key: str) -> None:
    shown = ids.handle(RecordRef(None, stream, key))

    assert ids.parse(shown) == RecordRef(None, stream, key)
    assert shown in {f"{stream}:{key}", shown if shown.startswith("pdpp://record/") else ""}


@scenario("A1")
def test_an_ordinary_record_is_named_connection_stream_record() -> None:
    assert ids.handle(RecordRef("cin_4f2a", "orders", "o1:b")) == "cin_4f2a/orders:o1:b"


@scenario("A8")
@pytest.mark.parametrize("key", ["a/b", "a\\b", "../x", "a..b", "."])
def test_a_key_that_the_grammar_cannot_carry_is_named_by_a_uri(key: str) -> None:
    shown = ids.handle(RecordRef("cin_a", "messages", key))

    assert shown.startswith("pdpp://record/")
    assert ids.parse(shown) == RecordRef("cin_a", "messages", key)


@scenario("A8")
@pytest.mark.parametrize("connection", ["cin/a", "..", "cin\\a", "."])
def test_a_connection_that_the_grammar_cannot_carry_is_never_wrapped(connection: str) -> None:
    shown = ids.handle(RecordRef(connection, "messages", "m1"))

    assert shown == "messages:m1"
    assert not ids.names_connection(shown, connection)


@scenario("A5")
@pytest.mark.parametrize(
    "shown",
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
def test_a_malformed_id_is_refused_by_name(shown: str) -> None:
    with pytest.raises(InvalidId) as refusal:
        ids.parse(shown)

    assert refusal.value.body["error"]["code"] == "invalid_id"


def test_a_record_key_may_hold_colons_and_percent_signs() -> None:
    assert ids.parse("cin_a/messages:a:b%2Fc").record_id == "a:b%2Fc"


def test_a_record_uri_may_carry_the_plain_grammar_percent_encoded() -> None:
    ref = RecordRef("cin_a", "messages", "m_9")

    assert ids.parse("pdpp://record/cin_a%2Fmessages%3Am_9") == ref
    assert ids.parse("pdpp://record/cin_a/messages:m_9") == ref


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
def test_a_handle_that_is_not_ours_is_refused(members: object) -> None:
    packed = base64.urlsafe_b64encode(json.dumps(members).encode()).decode().rstrip("=")

    with pytest.raises(InvalidId):
        ids.parse(f"pdpp://record/{packed}")


@given(key=KEYS, offset=st.integers(0, 10**9), q=st.text(min_size=1, max_size=20))
def test_a_field_window_uri_keeps_its_place(key: str, offset: int, q: str) -> None:
    ref = RecordRef("cin_a", "messages", key)
    window = {"field_path": "body", "offset_chars": offset, "q": q}

    uri = ids.parse_uri(ids.field_window_uri(ref, window=window))

    assert (uri.kind, uri.record, uri.window) == ("field-window", ref, window)


@pytest.mark.parametrize(
    "window", [{}, {"field_path": ""}, {"field_path": 3}, {"field_path": "b", "evil": 1}]
)
def test_a_field_window_uri_with_anything_else_in_it_is_refused(window: dict[str, object]) -> None:
    shown = ids.field_window_uri(RecordRef("cin_a", "messages", "m1"), window=window)

    with pytest.raises(InvalidId):
        ids.parse_uri(shown)


def test_a_blob_uri_and_a_stream_uri_keep_their_names() -> None:
    blob = ids.parse_uri(ids.blob_uri("blob_9", connection_id="cin_a"))
    stream = ids.parse_uri(ids.stream_uri("sent_é"))

    assert (blob.kind, blob.name, blob.connection_id) == ("blob", "blob_9", "cin_a")
    assert (stream.kind, stream.name) == ("stream", "sent_é")


@given(text=st.text(max_size=120))
def test_any_text_is_either_a_record_or_refused(text: str) -> None:
    try:
        ref = ids.parse(text)
    except InvalidId:
        return
    assert ref.stream
    assert ref.record_id
