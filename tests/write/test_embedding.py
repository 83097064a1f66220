"""Outdated vectors are deleted at once; the backfill adds missing ones."""

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django.fixtures import Settings

from evidence.models.connections import EmbeddedStream
from evidence.write.record_erasure import erase_connection
from evidence.write.vectors import exists
from tests.world import MAIL, PERSONAL, WORK, World, mail

DAY = "2026-01-10T09:00:00Z"


def passages(key: str, connection_id: str = PERSONAL) -> dict[str, list[tuple[int, int]]]:
    """Return the start and end of passages by field."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT field, start_chars, end_chars FROM evidence_passage"
            " WHERE connection_id = %s AND record_key = %s AND embedding IS NOT NULL"
            " ORDER BY field, passage",
            [connection_id, key],
        )
        found: dict[str, list[tuple[int, int]]] = {}
        for field, start, end in cursor.fetchall():
            found.setdefault(field, []).append((start, end))
        return found


def body(key: str) -> str:
    from tests.write.stored import data

    text: str = data(PERSONAL, key)["body_text"]
    return text


def test_semantic_texts_get_passages(embedded: World) -> None:
    assert passages("m1") == {"body_text": [(0, len(body("m1")))]}
    assert set(passages("w2", WORK)) == {"body_text"}


def test_long_text_has_one_vector_per_passage(embedded: World) -> None:
    text = "A sentence about the garden. " * 60
    embedded.put((PERSONAL, "messages", mail("long", DAY, body_text=text)))
    embedded.embed()

    found = passages("long")["body_text"]

    assert len(found) > 5
    assert found[0][0] == 0
    assert found[-1][1] == len(text.rstrip())


def test_changed_text_gets_new_vectors(embedded: World) -> None:
    embedded.put((PERSONAL, "messages", mail("m1", DAY, body_text="Short.")))
    assert passages("m1") == {}
    embedded.embed()
    assert passages("m1") == {"body_text": [(0, 6)]}


def test_vectors_of_unchanged_fields_stay(embedded: World) -> None:
    before = passages("m1")
    changed = mail("m1", DAY, subject="Another subject", body_text=body("m1"))
    embedded.put((PERSONAL, "messages", changed))
    assert passages("m1") == before


def test_deleted_record_leaves_no_vectors(embedded: World) -> None:
    embedded.send([{"connection_id": PERSONAL, "stream": "messages", "key": "m1", "op": "delete"}])
    assert passages("m1") == {}


def test_erased_connection_leaves_no_vectors(embedded: World) -> None:
    erase_connection(PERSONAL)
    assert passages("m1") == {}
    assert passages("w2", WORK)
    assert not EmbeddedStream.unscoped.filter(connection_id=PERSONAL).exists()


def test_changed_consent_time_updates_vectors(embedded: World) -> None:
    embedded.put((PERSONAL, "messages", mail("m1", "2024-05-05T00:00:00Z", body_text=body("m1"))))
    with connection.cursor() as cursor:
        cursor.execute("SELECT authored_at FROM evidence_passage WHERE record_key = 'm1'"
            " AND connection_id = %s", [PERSONAL])  # fmt: skip
        ((at,),) = cursor.fetchall()
    assert at.isoformat() == "2024-05-05T00:00:00+00:00"


def test_newly_declared_field_gets_vectors(embedded: World) -> None:
    first, *others = MAIL["streams"]
    search = {**first["query"]["search"], "semantic_fields": ["subject", "body_text"]}
    stream = {**first, "query": {**first["query"], "search": search}}
    embedded.declare({**MAIL, "version": "1.1.0", "streams": [stream, *others]})
    embedded.embed()
    assert set(passages("m1")) == {"subject", "body_text"}


def test_recomputed_stream_gets_its_vectors_again(embedded: World) -> None:
    first, *others = MAIL["streams"]
    changed = {name: each for name, each in first.items() if name != "consent_time_field"}
    embedded.declare({**MAIL, "version": "1.1.0", "streams": [changed, *others]})
    assert passages("m1") == {}
    embedded.embed()
    assert passages("m1")


def test_text_without_vector_is_tried_once(embedded: World) -> None:
    embedded.put((PERSONAL, "messages", mail("blank", DAY, body_text="   \n")))
    embedded.embed()
    assert passages("blank") == {}
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM evidence_passage WHERE record_key = 'blank'")
        assert cursor.fetchone() == (1,)


def test_another_model_recreates_the_table(embedded: World, settings: Settings) -> None:
    settings.PDPP_EMBEDDER = "tests.embedder.Letters"
    embedded.embed()
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT vector_dims(embedding) FROM evidence_passage")
        assert cursor.fetchall() == [(26,)]
    assert set(EmbeddedStream.unscoped.values_list("model", flat=True)) == {"letters"}


def test_command_reports_the_number_of_texts(
    embedded: World, capsys: pytest.CaptureFixture[str]
) -> None:
    embedded.put((PERSONAL, "messages", mail("new", DAY, body_text="New.")))
    call_command("embed")
    assert capsys.readouterr().out.startswith("Embedded 1 texts with words")


def test_command_fails_without_a_model(world: World, settings: Settings) -> None:
    settings.PDPP_EMBEDDER = "none"
    with pytest.raises(CommandError, match="make semantic"):
        call_command("embed")


def test_everything_else_works_without_pgvector(
    world: World, embedder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evidence.write.vectors.AVAILABLE", "SELECT false")
    assert world.embed() is False
    with pytest.raises(CommandError, match="needs pgvector"):
        call_command("embed")
    world.send([{"connection_id": PERSONAL, "stream": "messages", "key": "m1", "op": "delete"}])
    assert not exists()


def test_embedding_skips_texts_that_have_vectors(embedded: World) -> None:
    known = EmbeddedStream.unscoped.get(connection_id=PERSONAL, stream="messages")
    embedded.put((PERSONAL, "messages", mail("new", DAY, body_text="New.")))
    embedded.embed()
    later = EmbeddedStream.unscoped.get(connection_id=PERSONAL, stream="messages")
    assert later.seq > known.seq
