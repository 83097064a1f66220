"""New languages or a new analyser: indexed anew in the background, and said meanwhile."""

import io
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from evidence.errors import ConnectionNotFound
from evidence.models.connections import Connection
from evidence.models.records import SearchText
from evidence.write.connections import create_connection, set_languages
from evidence.write.reindex import mark_outdated, outdated_connections, reindex, reindex_batch
from operations import background_jobs
from tests.owners import OWNER_ID
from tests.world import NOW, PERSONAL, WORK, Answer, World
from tests.write import stored

SEARCH = "/v1/search"


@pytest.fixture
def french(world: World) -> World:
    """Bob may see two mails in French; the mailbox has just been told that it is."""
    for key in ("f1", "f2"):
        mail(world, key, "les chevaux")
    assert set_languages(PERSONAL, languages=["fr"], now=NOW)
    return world


def mail(world: World, key: str, subject: str) -> None:
    data = {"id": key, "subject": subject, "received_at": "2026-05-01T00:00:00Z"}
    world.put((PERSONAL, "messages", data))


def asked(world: World, q: str, who: str = "bob", **query: Any) -> Answer:
    answer = world.get(SEARCH, who, q=q, **query)
    assert answer.status == 200, answer.body
    return answer


def halfway() -> int:
    """Indexes record by record up to the first mail in French; how many."""
    done = 0
    while "cheval" not in stored.terms(PERSONAL, "f1"):
        done += reindex_batch(PERSONAL, limit=1) or 0
    return done


def test_before_and_during_it_a_search_finds_what_it_can_and_says_so(french: World) -> None:
    assert asked(french, "cheval").ids == []
    assert set(asked(french, "chevaux").ids) == {"f1", "f2"}
    halfway()

    answer = asked(french, "cheval")

    assert answer.ids == ["f1"]
    meta = answer.body["meta"]
    assert meta["index_maintenance"]["pending_scopes"] == [
        {"connection_id": PERSONAL, "stream": "messages"}
    ]
    assert (meta["count_accuracy"], meta["recall"]["complete"]) == ("estimated", False)


def test_after_it_everything_is_found_and_nothing_is_said(french: World) -> None:
    sum(reindex([PERSONAL]))

    answer = asked(french, "cheval")

    assert set(answer.ids) == {"f1", "f2"}
    assert "index_maintenance" not in answer.body["meta"]
    assert answer.body["meta"]["recall"]["complete"] is True


def test_what_was_cut_short_goes_on_where_it_was(french: World) -> None:
    held = sum(each["record_count"] for each in streams(french) if searched(each))
    done = halfway()
    assert outdated_connections() == [PERSONAL]

    assert sum(reindex(outdated_connections())) == held - done
    assert sum(reindex([PERSONAL])) == 0
    assert "cheval" in stored.terms(PERSONAL, "f2")


def test_other_languages_meanwhile_begin_it_again(french: World) -> None:
    halfway()
    set_languages(PERSONAL, languages=["en"], now=NOW)
    sum(reindex(outdated_connections()))
    assert "cheval" not in stored.terms(PERSONAL, "f1")


def test_what_is_stored_meanwhile_is_of_the_new_languages(french: World) -> None:
    halfway()
    mail(french, "f3", "un cheval")
    mail(french, "f1", "rien")
    assert set(asked(french, "chevaux").ids) == {"f2", "f3"}
    sum(reindex(outdated_connections()))
    assert set(asked(french, "chevaux").ids) == {"f2", "f3"}


def test_it_leaves_records_and_changes_as_they_were(french: World) -> None:
    before = stored.changes(PERSONAL), stored.record(PERSONAL, "f1")
    sum(reindex([PERSONAL]))
    assert (stored.changes(PERSONAL), stored.record(PERSONAL, "f1")) == before


def test_only_readers_of_the_connection_see_its_maintenance(french: World) -> None:
    assert "index_maintenance" in asked(french, "lease").body["meta"]
    assert "index_maintenance" not in asked(french, "lease", "charlie").body["meta"]
    alone = asked(french, "lease", "dora", connection_id=WORK)
    assert "index_maintenance" not in alone.body["meta"]


def streams(world: World, who: str = "alice") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = world.get("/v1/streams", who).body["data"]
    return found


def searched(stream: dict[str, Any]) -> bool:
    return (stream["connection_id"], stream["name"]) == (PERSONAL, "messages")


def said(world: World, who: str) -> set[tuple[str, str]]:
    return {
        (each["connection_id"], each["name"])
        for each in streams(world, who)
        if "index_maintenance" in each["freshness"]
    }


def test_the_lists_of_streams_say_it_where_a_search_would_miss_it(french: World) -> None:
    assert said(french, "alice") == {(PERSONAL, "messages")}
    assert said(french, "bob") == {(PERSONAL, "messages")}
    assert said(french, "charlie") == set()
    schema = french.get("/v1/schema", "bob", stream="messages", detail="full").body
    assert "'index_maintenance': True" in str(schema)
    sum(reindex([PERSONAL]))
    assert said(french, "alice") == set()


def test_a_new_analyser_outdates_every_connection(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert outdated_connections() == []
    for module in ("search.query_planner", "write.reindex", "write.rows"):
        monkeypatch.setattr(f"evidence.{module}.VERSION", 7)
    assert "index_maintenance" in asked(world, "lease").body["meta"]

    assert sum(background_jobs.words()) > 0

    assert outdated_connections() == []
    assert "index_maintenance" not in asked(world, "lease").body["meta"]


def test_the_same_languages_or_an_empty_connection_have_nothing_to_do(world: World) -> None:
    assert not set_languages(WORK, languages=Connection.unscoped.get(pk=WORK).languages, now=NOW)
    made = create_connection("mail", owner_id=world.owner_id, now=NOW, display_name="Mail")
    assert set_languages(made, languages=["fr"], now=NOW)
    assert outdated_connections() == []
    with pytest.raises(ConnectionNotFound):
        set_languages("cin_nowhere", languages=["fr"], now=NOW)


def command(*arguments: str) -> str:
    out = io.StringIO()
    call_command("reindex", *arguments, owner=OWNER_ID, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_the_command_does_what_is_pending(french: World) -> None:
    assert "All search text is up to date.\n" in command("--connection", WORK)
    assert "records of 1 connections." in command()
    assert set(asked(french, "cheval").ids) == {"f1", "f2"}
    assert command() == "All search text is up to date.\n"
    assert "records of 1 connections." in (said := command("--connection", WORK, "--all"))
    assert "Collected the people of 2 records." in said


def test_the_command_knows_its_connections(world: World) -> None:
    with pytest.raises(CommandError, match="No connection cin_nowhere"):
        command("--connection", "cin_nowhere")


def test_a_phrase_is_found_whatever_order_of_words_an_older_analyser_stored(world: World) -> None:
    mail(world, "p1", "a grand canal")
    SearchText.unscoped.update(word_order=[])
    mark_outdated([PERSONAL])
    assert asked(world, '"grand canal"').ids == ["p1"]

    sum(reindex([PERSONAL]))
    assert asked(world, '"grand canal"').ids == ["p1"]
