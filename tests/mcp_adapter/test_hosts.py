"""Hosts that show only part of a result still lead to the next step, for every tool."""

import json
import re
from collections.abc import Callable
from typing import Any

import mcp_types as types
import pytest

from tests.mcp_adapter.fake_rest import BANK, HOME, WORK, FakeRest
from tests.mcp_adapter.hosts import call, structured, text_of

CLIP = 12_000
SENTENCE = "We signed the lease in the old town hall. "
ID = re.compile(r'(cin_\w+/\w+:[^"\\ ]+)')
CURSOR = re.compile(r'\\?"next_cursor\\?":\s?\\?"([^"\\]+)')


def text_only(result: types.CallToolResult) -> str:
    """Return the view of a host that drops structuredContent."""
    return text_of(result)


def structured_only(result: types.CallToolResult) -> str:
    """Return the view of a host that drops the text."""
    return json.dumps(structured(result), ensure_ascii=False, separators=(",", ":"))


def truncated(result: types.CallToolResult) -> str:
    """Return the view of a host that cuts the middle out of long results."""
    text = structured_only(result)
    if len(text) <= CLIP:
        return text
    return f"{text[: CLIP // 2]}…{text[-CLIP // 2 :]}"


HOSTS = [text_only, structured_only, truncated]
Host = Callable[[types.CallToolResult], str]
on_every_host = pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.__name__)
sizes = pytest.mark.parametrize("size", [{}, {"max_bytes": 50_000}], ids=["default", "widest"])


def rest() -> FakeRest:
    return FakeRest(
        connections=[WORK, HOME, BANK],
        records=[
            (("cin_work", "cin_home")[n % 2], "messages", f"m{n}",
             {"subject": f"Mail {n}", "body": SENTENCE * (n + 1) * 9})
            for n in range(80)
        ] + [("cin_bank", "transactions", f"t{n}", {"name": f"Shop {n}"}) for n in range(3)],
    )  # fmt: skip


@on_every_host
@sizes
def test_search_leads_to_fetch_and_the_end_of_the_text(host: Host, size: dict[str, Any]) -> None:
    fake = rest()
    hits = host(call(fake, "search", q="lease", limit=50, **size))
    hit_ids = ID.findall(hits)

    document = host(call(fake, "fetch", id=hit_ids[0], **size))
    far = host(call(fake, "fetch", id=hit_ids[-1], **size))

    assert SENTENCE.strip()[:20] in document
    assert re.search(r"read_record_field|complete\\?\":\s?true", far)


@on_every_host
def test_fetch_offers_next_arguments(host: Host) -> None:
    fake = rest()
    view = host(call(fake, "fetch", id="cin_home/messages:m79"))
    offset = int(re.findall(r'offset_chars\\?":\s?(\d+)', view)[0])

    onward = host(
        call(fake, "read_record_field", id=ID.findall(view)[0], field_path="body",
             offset_chars=offset)
    )  # fmt: skip

    assert "town hall" in onward
    assert re.search(r'next\\?":\s?{', onward)


@on_every_host
@sizes
def test_query_records_leads_to_next_page_and_records(host: Host, size: dict[str, Any]) -> None:
    fake = rest()
    record_ids: list[str] = []
    extra: dict[str, str] = {}
    for _ in range(3):
        view = host(
            call(fake, "query_records", stream="messages", fields=["subject"], limit=100,
                 **size, **extra)
        )  # fmt: skip
        record_ids += dict.fromkeys(ID.findall(view))
        if not (cursor := CURSOR.findall(view)):
            break
        extra = {"cursor": cursor[-1]}

    assert len(record_ids) == len(set(record_ids)) > 40
    for record_id in (record_ids[0], record_ids[-1]):
        assert not call(fake, "fetch", id=record_id).is_error


@on_every_host
def test_schema_leads_to_stream_and_valid_query(host: Host) -> None:
    fake = rest()
    index = host(call(fake, "schema"))
    assert "transactions" in index
    assert "cin_bank" in index

    scoped = host(call(fake, "schema", stream="transactions", connection_id="cin_bank"))
    field = re.findall(r'"(\w+)":"t=string', scoped)[0]
    listed = host(
        call(fake, "query_records", stream="transactions", connection_id="cin_bank", fields=[field])
    )

    assert field == "name"
    assert "Shop 1" in listed


@on_every_host
def test_aggregate_shows_value_and_next_step(host: Host) -> None:
    view = host(call(rest(), "aggregate", stream="messages", metric="count"))

    assert '"value":80' in view


@on_every_host
def test_error_names_next_call(host: Host) -> None:
    fake = FakeRest(
        records=[("cin_work", "messages", "m1", {"a": 1}), ("cin_home", "messages", "m1", {"a": 1})]
    )
    view = host(call(fake, "fetch", id="messages:m1"))

    assert "ambiguous_connection" in view
    assert not call(
        fake, "fetch", id="messages:m1", connection_id=re.findall(r"cin_\w+", view)[0]
    ).is_error


@on_every_host
def test_window_offers_next_and_previous_arguments(host: Host) -> None:
    fake = rest()
    view = host(
        call(fake, "read_record_field", id="cin_work/messages:m2", field_path="body",
             offset_chars=100, limit_chars=50)
    )  # fmt: skip

    next_args = re.search(r'"next":{"tool":"read_record_field","args":({[^}]*})', view)
    previous_args = re.search(r'"previous":{"tool":"read_record_field","args":({[^}]*})', view)
    assert next_args is not None
    assert previous_args is not None
    for args in (next_args[1], previous_args[1]):
        assert not call(fake, "read_record_field", **json.loads(args)).is_error
