"""Record ids and pdpp:// URIs are formatted and parsed."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import record_ids
from evidence.record_ids import ParsedUri, RecordRef
from tests.scenarios import scenario
from tests.uris import field_window_uri, handle

PLAIN = st.text(string.ascii_letters + string.digits + "_-~ é日", min_size=1, max_size=30)
REF = RecordRef("cin_a", "messages", "m1")
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
    with pytest.raises(ValueError, match=r"\.$"):
        record_ids.parse_id(f"pdpp://record/{handle(members)}")


@given(key=KEYS, offset=st.integers(0, 10**9), q=st.text(min_size=1, max_size=20))
def test_field_window_uri_round_trips(key: str, offset: int, q: str) -> None:
    ref = RecordRef("cin_a", "messages", key)
    window = {"field_path": "body", "offset_chars": offset, "q": q}

    uri = record_ids.parse_uri(field_window_uri(ref, window=window))

    assert (uri.kind, uri.record, uri.window) == ("field-window", ref, window)


@pytest.mark.parametrize(
    "window", [{}, {"field_path": ""}, {"field_path": 3}, {"field_path": "b", "evil": 1}]
)
def test_field_window_uri_with_invalid_member_is_rejected(window: dict[str, object]) -> None:
    record_id = field_window_uri(RecordRef("cin_a", "messages", "m1"), window=window)

    with pytest.raises(ValueError, match=r"\.$"):
        record_ids.parse_uri(record_id)


@pytest.mark.parametrize(
    ("uri", "parsed"),
    [
        ("pdpp://stream/sent_%C3%A9", ParsedUri("stream", name="sent_é")),
        (
            "pdpp://stream/messages?connection_id=cin%3D_a",
            ParsedUri("stream", name="messages", connection_id="cin=_a"),
        ),
        (
            "pdpp://stream/messages?connection_id=cin=a",
            ParsedUri("stream", name="messages", connection_id="cin=a"),
        ),
        (
            record_ids.blob_uri("blob/9", connection_id="cin_a"),
            ParsedUri("blob", name="blob/9", connection_id="cin_a"),
        ),
        (record_ids.blob_uri("b", connection_id=None), ParsedUri("blob", name="b")),
        (record_ids.record_uri(REF), ParsedUri("record", REF, connection_id="cin_a")),
        ("pdpp://record/cin_a%2fmessages%3am1", ParsedUri("record", REF, connection_id="cin_a")),
        ("pdpp://record/cin_a/messages:m1", ParsedUri("record", REF, connection_id="cin_a")),
        (
            field_window_uri(REF, window={"field_path": "b", "cursor": "4"}),
            ParsedUri(
                "field-window",
                REF,
                connection_id="cin_a",
                window={"field_path": "b", "cursor": "4"},
            ),
        ),
    ],
)
def test_uri_is_parsed_into_its_parts(uri: str, parsed: ParsedUri) -> None:
    assert "=" not in uri.partition("?")[0]
    assert record_ids.parse_uri(uri) == parsed


@pytest.mark.parametrize("connection_id", ["cin_a", "cin_ab", "cin_abc", None])
def test_blob_uri_round_trips_without_padding(connection_id: str | None) -> None:
    uri = record_ids.blob_uri("blob/9", connection_id=connection_id)
    assert "=" not in uri
    parsed = ParsedUri("blob", name="blob/9", connection_id=connection_id)
    assert record_ids.parse_uri(uri) == parsed


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("https://record/cin_a%2Fmessages%3Am1", "is not a pdpp:// URI of this server"),
        ("pdpp://stream/", "is not a pdpp:// URI of this server"),
        ("pdpp://stream/a://b", "A name in the URI is missing, too long"),
        ("pdpp://stream/" + "x" * 201, "A name in the URI is missing, too long"),
        ("pdpp://stream/x?stream=y", "takes connection_id only"),
        ("pdpp://stream/x?connection_id=", "A name in the URI is missing"),
        ("pdpp://other/x", "The URI has an unknown kind"),
        ("pdpp://blob/x:y", "The handle of the URI cannot be decoded"),
        (f"pdpp://blob/{handle([1])}", "The handle of the URI cannot be decoded"),
        (f"pdpp://blob/{handle({'v': 1, 'kind': 'blob'})}", "The id in the URI is missing"),
        (
            f"pdpp://blob/{handle({'v': 1, 'kind': 'blob', 'blob_id': 7})}",
            "The id in the URI is missing",
        ),
        (field_window_uri(REF, window={}), "has no field_path"),
        (field_window_uri(REF, window={"field_path": "b", "x": 1}), "has an invalid member"),
    ],
)
def test_malformed_uri_is_rejected(uri: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        record_ids.parse_uri(uri)


@pytest.mark.parametrize(
    ("record_id", "message"),
    [
        ("pdpp://stream/messages", "A pdpp://stream URI does not name a record"),
        ("messages", "has no ':' between stream and record"),
        ("cin_a/:m1", "The stream part of the id"),
        ("cin_a/messages/x:m1", "The stream part of the id"),
        ("cin_a/messages:", "The record part of the id"),
        ("/messages:m1", "The connection part of the id"),
        ("m:" + "x" * 3_999, "The id is too long"),
    ],
)
def test_message_names_the_malformed_part(record_id: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        record_ids.parse_id(record_id)


def test_longest_ids_are_accepted() -> None:
    assert record_ids.parse_id("m:" + "x" * 3_998).stream == "m"
    uri = "pdpp://record/m:"
    assert record_ids.parse_id(uri + "x" * (4_000 - len(uri))).stream == "m"
    with pytest.raises(ValueError, match="is not a pdpp:// URI of this server"):
        record_ids.parse_id(uri + "x" * (4_001 - len(uri)))
    name = "x" * 200
    assert record_ids.parse_uri(f"pdpp://stream/{name}").name == name


def test_stream_with_a_colon_is_formatted_as_uri() -> None:
    ref = RecordRef("cin_a", "a:b", "m1")
    assert record_ids.format_id(ref).startswith("pdpp://record/")
    assert record_ids.parse_id(record_ids.format_id(ref)) == ref


@pytest.mark.parametrize(
    ("record_id", "included"),
    [
        ("cin_a/messages:m1", True),
        (record_ids.record_uri(REF), True),
        ("cin_b/messages:m1", False),
        ("messages:m1", False),
        ("cin_a", False),
    ],
)
def test_formatted_id_may_include_the_connection(record_id: str, *, included: bool) -> None:
    assert record_ids.includes_connection(record_id, "cin_a") is included


@pytest.mark.parametrize(
    ("text", "segment"),
    [("a/b é", "a%2Fb%20%C3%A9"), (".", "%2E"), ("..", "%2E%2E"), ("X.", "X."), ("a.b", "a.b")],
)
def test_path_segment_survives_every_client(text: str, segment: str) -> None:
    assert record_ids.path_segment(text) == segment


@given(text=st.text(max_size=120))
def test_any_text_parses_or_raises_value_error(text: str) -> None:
    try:
        ref = record_ids.parse_id(text)
    except ValueError:
        return
    assert ref.stream
    assert ref.record_id
