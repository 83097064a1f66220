"""The table at the end of an import shows what the export has: items, first and last date, and sum."""

import re
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from evidence.models.connections import Connection
from evidence.models.records import Record
from tests.importers.imports import TORTURE, run

pytestmark = pytest.mark.django_db


class Line(NamedTuple):
    """A line of the table. ``sum`` has its currency."""

    items: int
    stream: str
    account: str
    first: str
    last: str
    sum: str


_LINE = re.compile(
    r"(?P<items>[\d,]+) (?P<stream>[a-z_]+)  +(?P<account>\S(?:\S| (?! ))*)"
    r"(?:  +(?P<first>\d{4}-\d\d-\d\d)  +(?P<last>\d{4}-\d\d-\d\d))?(?:  +(?P<sum>-?[\d,.]+ .+))?"
)


def table(output: str) -> list[Line]:
    """Return the lines of the table of an import."""
    matches = filter(None, map(_LINE.fullmatch, map(str.strip, output.splitlines())))
    return sorted(
        Line(int(m["items"].replace(",", "")), m["stream"], m["account"], m["first"] or "",
             m["last"] or "", m["sum"] or "")
        for m in matches
    )  # fmt: skip


def stored_table() -> list[Line]:
    """Return the lines that the stored records make up."""
    return sorted(line for found in Connection.unscoped.all() for line in _lines(found))


def _lines(connection: Connection) -> Iterator[Line]:
    streams = {stream["name"]: stream for stream in _declaration(connection)["streams"]}
    rows = Record.unscoped.filter(connection_id=connection.connection_id)
    names = {row.record_key: row.data["name"] for row in rows.filter(stream="accounts")}
    groups = defaultdict(list)
    for row in rows:
        properties = streams[row.stream]["schema"]["properties"]
        money = [n for n, each in properties.items() if each.get("x_pdpp_type") == "currency"]
        account = names.get(row.data.get("account_id", ""), "")
        currency = row.data.get("currency") or "(no currency)" if money else ""
        groups[row.stream, account, currency, money[0] if money else ""].append(row.data)
    for (stream, account, currency, amount), found in groups.items():
        time = streams[stream].get("consent_time_field") or streams[stream].get("cursor_field")
        days = sorted(data[time][:10] for data in found if data.get(time))
        values = [
            Decimal(str(data[amount])) for data in found if amount and data[amount] is not None
        ]
        yield Line(
            len(found),
            stream,
            ", ".join(filter(None, (connection.display_name, account))),
            days[0] if days else "",
            days[-1] if days else "",
            f"{sum(values):,.2f} {currency}" if values else "",
        )


def _declaration(connection: Connection) -> Any:
    return orjson.loads(connection.source.current_declaration.snapshot)


@pytest.mark.parametrize(
    ("name", "heading"),
    [
        ("mail.mbox", "mbox"),  # a stream within another one
        ("calendar.ics", "icalendar"),  # series
        ("contacts.vcf", "vcard"),  # without dates
        ("places", "places"),  # several streams
        ("bank.csv", "csv"),  # an account without a currency
        ("bank.ofx", "ofx"),
        ("statement.sta", "mt940"),  # several accounts
    ],
)
def test_table_shows_what_was_stored(tmp_path: Path, name: str, heading: str) -> None:
    answers = {"date_order": "dmy", "decimal": "point", "signs": "as-written"}
    output = run(TORTURE / name, column=["date=Buchungstag"], **answers)

    assert table(output) == stored_table() != []
    assert f"{heading}:" in output.splitlines()
