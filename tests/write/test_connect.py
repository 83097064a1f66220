"""Creating connections with valid ids, labels and languages."""

from typing import Any

import pytest

from evidence.errors import InvalidRequest, NotFound
from evidence.models.connections import Connection
from evidence.write.connections import create_connection, rename
from tests.world import NOW, PERSONAL, World


def make(world: World, key: str = "mail", **more: Any) -> str:
    return create_connection(
        key, owner_id=world.owner_id, now=NOW, **{"display_name": "Mail"} | more
    )


def test_connection_gets_an_id(world: World) -> None:
    one, other = make(world), make(world)
    assert one != other
    assert one.startswith("cin_")
    assert len(one) == len("cin_") + 24


def test_connection_has_source_and_languages(world: World) -> None:
    made = make(world, languages=["EN", "de", "en"], display_name="  Mail, private ", demo=True)
    row = Connection.unscoped.select_related("source").get(connection_id=made)
    assert (row.source.connector_key, row.display_name) == ("mail", "Mail, private")
    assert (row.languages, row.demo, row.status) == (["en", "de"], True, "active")


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"display_name": " "}, "display_name"),
        ({"display_name": "x" * 201}, "display_name"),
        ({"display_name": "two\nlines"}, "display_name"),
        ({"languages": ["english"]}, "languages"),
        ({"connection_id": "cin/slash"}, "connection_id"),
        ({"connection_id": ""}, "connection_id"),
        ({"connection_id": PERSONAL}, "connection_id"),
    ],
)
def test_invalid_argument_is_refused_by_name(
    world: World, wrong: dict[str, Any], param: str
) -> None:
    before = Connection.unscoped.count()
    with pytest.raises(InvalidRequest) as refused:
        make(world, **wrong)
    assert refused.value.param == param
    assert Connection.unscoped.count() == before


def test_undeclared_source_is_refused(world: World) -> None:
    with pytest.raises(NotFound):
        make(world, "nothing")


def test_a_second_connection_of_a_name_gets_a_number(world: World) -> None:
    makes = [make(world), make(world, display_name="mail"), make(world, key="account")]

    names = dict(Connection.unscoped.values_list("connection_id", "display_name"))
    assert [names[each] for each in makes] == ["Mail", "mail 2", "Mail 3"]


def test_a_long_name_leaves_room_for_its_number(world: World) -> None:
    one, other = make(world, display_name="x" * 200), make(world, display_name="x" * 200)

    names = dict(Connection.unscoped.values_list("connection_id", "display_name"))
    assert (names[one], names[other]) == ("x" * 200, "x" * 198 + " 2")


def test_no_connection_is_renamed_to_the_name_of_another(world: World) -> None:
    with pytest.raises(InvalidRequest, match="Another connection is named 'work MAIL'") as refusal:
        rename(PERSONAL, display_name="work MAIL", owner_id=world.owner_id, now=NOW)

    assert refusal.value.param == "display_name"
    assert rename(
        PERSONAL, display_name="PERSONAL mail", owner_id=world.owner_id, now=NOW
    ).display_name == "PERSONAL mail"  # fmt: skip
