"""Publishing declarations: errors, snapshots and migration of records."""

import copy
import json
from typing import Any

import pytest

from evidence.errors import ConnectorInvalid, IngestStorageError
from evidence.models.sources import Source, SourceDeclaration, load_declarations
from evidence.write import targets
from evidence.write.batches import BatchPreparer
from evidence.write.declaration_store import PublishedDeclaration, declare
from evidence.write.ndjson import NdjsonLine
from evidence.write.writer import IngestRun, write_batch
from tests.world import MAIL, NOW, PERSONAL, RECORDS, World
from tests.write import stored


def take(world: World, document: Any, **more: Any) -> PublishedDeclaration:
    return declare(json.dumps(document), owner_id=world.owner_id, now=NOW, **more)


def changed(**stream_members: Any) -> dict[str, Any]:
    """Return MAIL as a later version with a changed messages stream."""
    document = copy.deepcopy(MAIL) | {"version": "2.0.0"}
    document["streams"][0] |= stream_members
    return document


def query(**members: Any) -> dict[str, Any]:
    return {"query": copy.deepcopy(MAIL["streams"][0]["query"]) | members}


def test_publishing_again_changes_nothing(world: World) -> None:
    before = SourceDeclaration.unscoped.count()
    reordered = dict(reversed(MAIL.items()))
    for document in (MAIL, reordered):
        again = take(world, document)
        assert not again.changed
        assert again.revision == 1
    assert SourceDeclaration.unscoped.count() == before


def test_snapshot_is_stored_byte_for_byte(world: World) -> None:
    text = "\n " + json.dumps(changed(), indent=3) + "\n"
    accepted = declare(text.encode(), owner_id=world.owner_id, now=NOW)
    assert SourceDeclaration.unscoped.get(pk=accepted.declaration_id).snapshot == text


def test_new_version_adds_a_revision(world: World) -> None:
    accepted = take(world, changed(description="More mail."))
    assert (accepted.revision, accepted.version, accepted.changed) == (2, "2.0.0", True)
    source = Source.unscoped.get(connector_key="mail")
    assert source.current_declaration_id == accepted.declaration_id
    kept = SourceDeclaration.unscoped.filter(source=source).order_by("revision")
    assert [each.revision for each in kept] == [1, 2]


def test_invalid_declaration_lists_errors_and_stores_nothing(world: World) -> None:
    bad = changed(primary_key=["nope"], cursor_field="never")
    with pytest.raises(ConnectorInvalid) as refused:
        take(world, bad)
    faults: Any = refused.value.extra["faults"]
    assert {(fault["path"], fault["code"]) for fault in faults} == {
        ("$.streams[0].primary_key[0]", "source.declaration.unknown_schema_field"),
        ("$.streams[0].cursor_field", "source.declaration.unknown_schema_field"),
    }
    assert Source.unscoped.get(connector_key="mail").current_declaration is not None
    assert SourceDeclaration.unscoped.filter(version="2.0.0").count() == 0


@pytest.mark.parametrize("document", ["", "{", '{"a": \ud800}', b"\xff\xfe", "[1]", "null"])
def test_document_must_be_a_json_object(world: World, document: str | bytes) -> None:
    with pytest.raises(ConnectorInvalid) as refused:
        declare(document, owner_id=world.owner_id, now=NOW)
    assert refused.value.extra["faults"]


def test_connector_key_of_another_source_is_refused(world: World) -> None:
    other = MAIL | {"connector_id": "https://elsewhere.example/connectors/mail"}
    with pytest.raises(ConnectorInvalid) as refused:
        take(world, other)
    faults: Any = refused.value.extra["faults"]
    assert [fault["path"] for fault in faults] == ["$.connector_key"]


def test_new_search_field_is_indexed(world: World) -> None:
    search = {"lexical_fields": ["subject", "from_name", "from_email", "body_text", "thread_id"]}
    assert "t1" not in stored.terms(PERSONAL, "m1")
    take(world, changed(**query(search=search)))
    assert "t1" in stored.terms(PERSONAL, "m1")
    assert "lease" in stored.terms(PERSONAL, "m1")


def test_new_typed_field_is_stored_without_change_entries(world: World) -> None:
    history = stored.kinds(PERSONAL)
    aggregations = {"count": True, "group_by": ["from_name", "is_seen", "thread_id"]}
    accepted = take(world, changed(**query(aggregations=aggregations)))
    layout = load_declarations([accepted.declaration_id])[accepted.declaration_id].layout[
        "messages"
    ]
    slot, position = layout["typed"]["thread_id"]
    assert slot == "w"
    record = stored.record(PERSONAL, "m1")
    assert record is not None
    assert record.words is not None
    assert record.words[int(position) - 1] == "t1"
    assert stored.kinds(PERSONAL) == history


def test_new_cursor_and_consent_time_fields_are_stored(world: World) -> None:
    document = changed(cursor_field="subject")
    del document["streams"][0]["consent_time_field"]
    take(world, document)
    record = stored.record(PERSONAL, "m1")
    assert record is not None
    assert record.sort_key == "sLease signed"
    assert record.consent_time is None
    take(world, MAIL)
    record = stored.record(PERSONAL, "m1")
    assert record is not None
    assert record.sort_key == "t2026-01-10T09:00:00.000000"


def test_recomputation_reports_progress_and_keeps_field_times(world: World) -> None:
    world.put(
        (PERSONAL, "messages", {"id": "m1", "subject": "Lease signed"}),
        emitted_at="2026-10-05T00:00:00Z",
    )
    before = stored.record(PERSONAL, "m1")
    told: list[int] = []
    take(world, changed(cursor_field="subject"), on_progress=told.append)
    after = stored.record(PERSONAL, "m1")
    assert told[-1] == sum(stream == "messages" and connection_id in {"cin_personal", "cin_work"}
                           for connection_id, stream, _ in RECORDS)  # fmt: skip
    assert before is not None
    assert after is not None
    assert (after.field_emitted, after.change_seq) == (before.field_emitted, before.change_seq)


def test_batch_of_the_previous_declaration_is_not_written(
    world: World,
) -> None:
    late = {"connection_id": PERSONAL, "stream": "messages", "data": {"id": "late"}}
    preparer = BatchPreparer(targets.load_all_targets(world.owner_id), None, NOW)
    (batch,) = preparer.batches([NdjsonLine(1, json.dumps(late).encode())])
    take(world, changed(description="In between."))
    with pytest.raises(IngestStorageError, match="changed during the import"):
        write_batch(batch.records, run=IngestRun(NOW))
    assert stored.record(PERSONAL, "late") is None
    assert world.send([late]).created == 1
