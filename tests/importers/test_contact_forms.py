"""Contacts as other programs write them."""

from pathlib import Path
from typing import Any

import pytest

from tests.importers.imports import receipts, records, run

pytestmark = pytest.mark.django_db


def card(*lines: str, version: str = "3.0") -> bytes:
    content = "\r\n".join(lines)
    return f"BEGIN:VCARD\r\nVERSION:{version}\r\n{content}\r\nEND:VCARD\r\n".encode()


QUOTED = "CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (card("FN:Zoë").replace("ë".encode(), b"\xc3\r\n \xab"), {"name": "Zoë"}),
        (card("FN:Zoë", "TEL:1").replace(b"\r\n", b"\r"), {"name": "Zoë", "phones": ["1"]}),
        (card("FN:Zoë", "TEL;VALUE=uri:tel:+49-1", version="4.0"), {"phones": ["+49-1"]}),
        (card("FN:Zoë", "BDAY:--0113", version="4.0"), {"birthday": "--0113"}),
        (card("FN:Zoë", "BDAY;X-APPLE-OMIT-YEAR=1604:1604-01-13"), {"birthday": "--01-13"}),
        (card(f"FN;{QUOTED}:Zo=C3=AB =\r\nM=C3=BCller", "TEL:1", version="2.1"),
         {"name": "Zoë Müller", "phones": ["1"]}),
        (card("FN;CHARSET=ISO-8859-1;ENCODING=QUOTED-PRINTABLE:Zo=EB", version="2.1"),
         {"name": "Zoë"}),
        (card("FN:Zoë").decode().encode("cp1252"), {"name": "Zoë"}),
        (card("FN:Zoë").decode().encode("utf-16"), {"name": "Zoë"}),
        (card("FN:Lang, Eva", "NOTE:a, b\\, c\\nd", "TITLE:x, y", "ORG:Acme, Inc;Sales", version="2.1"),
         {"organization": "Acme, Inc, Sales", "name": "Lang, Eva", "note": "a, b, c\nd", "job_title": "x, y"}),
        (card(f"FN;{QUOTED}:Lang=2C Zo=C3=AB", f"NOTE;{QUOTED}:a, b", version="2.1"),
         {"name": "Lang, Zoë", "note": "a, b"}),
        (card("FN:A", "NICKNAME:a,b", "CATEGORIES:a,b", "URL:http://x.org/a,b"),
         {"nickname": "a,b", "categories": ["a", "b"], "urls": ["http://x.org/a,b"]}),
        (card("FN;ENCODING=b:Wm/Dqw==", "NOTE;ENCODING=BASE64:SGFsbG8="),
         {"name": "Zoë", "note": "Hallo"}),
        (card("FN:A", "item1.TEL:1", "item1.X-ABLabel:x"), {"phones": ["1"]}),
    ],
)  # fmt: skip
def test_contact_is_read_as_it_was_written(
    tmp_path: Path, content: bytes, expected: dict[str, Any]
) -> None:
    path = tmp_path / "a.vcf"
    path.write_bytes(content)

    run(path)

    (record,) = records("contacts")
    assert {name: record[name] for name in expected} == expected
    assert receipts() == set()


def test_contact_whose_name_was_cut_off_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.vcf"
    path.write_bytes(card("FN:Lang") + card("FN:Other"))
    run(path)
    path.write_bytes(card("FN:Lang, Eva") + card("FN:Lang, Max"))

    run(path)
    run(path)

    assert {record["name"] for record in records("contacts")} == {"Lang, Eva", "Lang, Max", "Other"}


def test_file_without_contacts_has_a_receipt(tmp_path: Path) -> None:
    path = tmp_path / "a.vcf"
    path.write_bytes(b"Name;Phone\n")

    run(path)

    assert receipts() == {("empty", "a.vcf")}
