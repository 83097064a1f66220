"""Loading and removing demo data, and the scope of demo tokens."""

import datetime as dt
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from demo import life
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, issue
from evidence.models.clients import Client as AgentClient
from evidence.models.connections import Connection
from evidence.models.owners import get_or_create_owner
from evidence.models.records import Record
from evidence.write.connections import create_connection
from operations import demo_data

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _own_directory(settings: Any, tmp_path: Path) -> None:
    settings.PDPP_VAR = tmp_path


@pytest.fixture
def short_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit the demo data to a few records per connection."""
    taken: dict[tuple[str, str], list[Any]] = {}
    for record in life.records():
        some = taken.setdefault((record["connection_id"], record["stream"]), [])
        if len(some) < 5:
            some.append(record)
    chosen = [record for some in taken.values() for record in some]

    def records() -> Iterator[Any]:
        return iter(chosen)

    monkeypatch.setattr(life, "records", records)
    call_command("seed", stdout=StringIO())


def schema(bearer: str) -> Any:
    return Client().get("/v1/schema?view=compact", headers={"Authorization": f"Bearer {bearer}"})


def connection_ids(answer: Any) -> set[str]:
    return {
        each["connection_id"]
        for connector in answer.json()["connectors"]
        for each in connector["granted_connections"]
    }


@pytest.mark.usefixtures("short_life")
def test_second_load_changes_nothing() -> None:
    assert demo_data.is_demo_loaded()
    said = StringIO()
    before = Connection.unscoped.filter(demo=True).count()

    call_command("seed", stdout=said)

    assert before == Connection.unscoped.filter(demo=True).count() == len(life.connections())
    assert "Loaded" in said.getvalue()


@pytest.mark.usefixtures("short_life")
def test_each_token_reads_demo_connections_at_one_resource() -> None:
    owner = get_or_create_owner(timezone.now())
    create_connection(
        "mailbox", display_name="Real mail", owner_id=owner.owner_id, now=timezone.now()
    )

    tokens = demo_data.create_demo_tokens(timezone.now())

    assert tokens is not None
    answer = schema(tokens.rest)
    assert answer.status_code == 200
    assert connection_ids(answer) == {each["connection_id"] for each in life.connections()}
    assert schema(tokens.mcp).status_code == 401


@pytest.mark.usefixtures("short_life")
def test_tokens_expire_after_a_day() -> None:
    yesterday = timezone.now() - dt.timedelta(hours=24, seconds=1)

    tokens = demo_data.create_demo_tokens(yesterday)

    assert tokens is not None
    assert schema(tokens.rest).status_code == 401


@pytest.mark.usefixtures("short_life")
def test_each_start_creates_tokens_for_the_same_grants() -> None:
    one, other = (
        demo_data.create_demo_tokens(timezone.now()),
        demo_data.create_demo_tokens(timezone.now()),
    )

    assert one is not None
    assert other is not None
    assert one != other
    bodies = [schema(each.rest).json() for each in (one, other)]
    bearers = [body.pop("bearer") for body in bodies]
    assert bodies[0] == bodies[1]
    assert bearers[0]["grant_ids"] == bearers[1]["grant_ids"]
    assert AgentClient.unscoped.count() == 1


@pytest.mark.usefixtures("short_life")
def test_demo_tokens_exclude_other_grants_of_the_client() -> None:
    now = timezone.now()
    demo_data.create_demo_tokens(now)
    client = AgentClient.unscoped.get()
    real = create_connection("bank", display_name="Real bank", owner_id=client.owner_id, now=now)
    streams = [StreamRequest(name="transactions")]
    issue([GrantRequest(connection_ids=[real], streams=streams)], client=client, now=now)

    tokens = demo_data.create_demo_tokens(now)

    assert tokens is not None
    assert real not in connection_ids(schema(tokens.rest))


@pytest.mark.usefixtures("short_life")
def test_removed_demo_stays_removed() -> None:
    now = timezone.now()
    tokens = demo_data.create_demo_tokens(now)
    owner_id = get_or_create_owner(now).owner_id
    real = create_connection("bank", display_name="Real bank", owner_id=owner_id, now=now)
    said = StringIO()

    call_command("demo", "remove", stdout=said)

    assert f"Removed {len(life.connections())} demo connections" in said.getvalue()
    assert list(Connection.unscoped.values_list("connection_id", flat=True)) == [real]
    assert tokens is not None
    assert schema(tokens.rest).status_code == 403
    assert demo_data.is_demo_loaded()
    assert demo_data.create_demo_tokens(now) is None


def test_a_year_has_its_records_with_the_rows_they_belong_to() -> None:
    cutoff = "2025-11-01"
    year = list(life.last_year())

    assert {each["stream"] for each in year} == {each["stream"] for each in life.records()}
    assert all(
        each["emitted_at"] >= cutoff
        for each in year
        if each["stream"] not in ("channels", "accounts")
    )
    assert 2_000 < len(year) < life.RECORD_COUNT / 2


def test_generated_records_are_loaded_once_and_removed_with_the_demo() -> None:
    said = StringIO()

    for _ in range(2):
        call_command("seed", "--records", "40", stdout=said)

    assert said.getvalue() == "Loaded 40 records.\n" * 2
    assert Record.unscoped.count() == 40
    call_command("demo", "remove", stdout=said)
    assert not Record.unscoped.exists()
    assert not Connection.unscoped.exists()


@pytest.mark.usefixtures("short_life")
def test_a_year_of_the_demo_counts_as_loaded() -> None:
    call_command("seed", "--year", stdout=StringIO())

    assert demo_data.is_demo_loaded()
    assert Connection.unscoped.filter(demo=True).count() == len(life.connections())
