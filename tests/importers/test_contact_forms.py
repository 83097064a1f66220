"""Contacts as other programs write them."""

from pathlib import Path
from typing import Any

import pytest

from tests.importers.imports import receipts, records, run
from tests.importers.torture_kit import read_stream

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
        (card("FN:A", "item1.TEL:1", "item1.X-ABLabel:_$!<Mobile>!$_"),
         {"phones": ["1"], "labels": ["Mobile: 1"]}),
        (card("FN:A", "TEL;TYPE=WORK,VOICE:1", "TEL;TYPE=pref;TYPE=cell:2", "EMAIL;TYPE=home:a@b", "TEL:3"),
         {"phones": ["1", "2", "3"], "labels": ["work: 1", "cell: 2", "home: a@b"]}),
        (card("FN:A", "BDAY:1604-05-06"), {"birthday": "--05-06"}),
        (card("FN:A", "BDAY:16040506"), {"birthday": "--05-06"}),
        (card("FN:A", "BDAY:19800506", "BDAY:1981-01-01"),
         {"birthday": "1980-05-06", "other_values": ["bday: 1981-01-01"]}),
        (card("EMAIL:mailto:a@b"), {"emails": ["a@b"], "name": "a@b"}),
        (card("FN:A", "EMAIL:MAILTO\\:a%2Bc@b?subject=x", "EMAIL:A. <a@b>; c@d"),
         {"emails": ["a+c@b", "a@b", "c@d"]}),
        (card("FN:A", "EMAIL:a@x,b@y"), {"emails": ["a@x", "b@y"]}),
        (card("FN:A", "TEL;VALUE=uri:TEL:+1-555", "TEL;TYPE=\"voice,home\";VALUE=uri:tel:+1-556"),
         {"phones": ["+1-555", "+1-556"]}),
        (card("FN:A", "URL:http\\://x.org/a", "NOTE:see http\\://x\\, and\\ny"),
         {"urls": ["http://x.org/a"], "note": "see http://x, and\ny"}),
        (card("FN:A", "ANNIVERSARY:20100506", "RELATED;TYPE=spouse;VALUE=text:Jo", version="4.0"),
         {"anniversary": "2010-05-06", "related": ["spouse: Jo"]}),
        (card("FN:A", "item1.X-ABRELATEDNAMES:Jo", "item1.X-ABLabel:_$!<Spouse>!$_",
              "item2.X-ABDATE:2010-05-06", "item2.X-ABLabel:_$!<Anniversary>!$_"),
         {"related": ["Spouse: Jo"], "other_values": ["Anniversary: 2010-05-06"]}),
        (card("FN:A", "IMPP;X-SERVICE-TYPE=Skype:x-apple:eva", "IMPP:xmpp\\:a@b", "X-SKYPE:eva"),
         {"instant_messages": ["Skype:eva", "xmpp:a@b"], "other_values": ["skype: eva"]}),
        (card("FN:A", "ADR:;;Weg 1;Bonn;;;", "LABEL:Weg 1\\nBonn", "LABEL:Hof 2\\nUlm"),
         {"addresses": ["Weg 1, Bonn", "Hof 2 Ulm"]}),
        (card("FN:Pals", "KIND:group", "UID:urn:uuid:9", "MEMBER:urn:uuid:1", version="4.0"),
         {"kind": "group", "uid": "9", "members": ["1"]}),
        (card("FN:Pals", "X-ADDRESSBOOKSERVER-KIND:group", "X-ADDRESSBOOKSERVER-MEMBER:urn:uuid:1"),
         {"kind": "group", "members": ["1"]}),
        (card("N:Lang;Eva;Maria;Dr.;PhD", "N:Other;X", "ORG:A", "ORG:B"),
         {"name": "Dr. Eva Maria Lang PhD", "other_values": ["n: X Other", "org: B"]}),
        (card("FN:A", "GENDER:F", "X-FOO:a\\,b", version="4.0"),
         {"other_values": ["gender: F", "foo: a,b"]}),
        (card("FN:A", "REV:2024-01-02T03:04:05.678Z"),
         {"updated_at": "2024-01-02T03:04:05.678000+00:00"}),
        (card("FN:A", "REV:20240102"), {"updated_at": "2024-01-02T00:00:00+00:00"}),
        (card("FN:A", "NOTE:C:\\temp\\new", version="2.1"), {"note": "C:\\temp\\new"}),
        (card("FN:A", "NOTE:in C:\\new", version="2.1"), {"note": "in C:\\new"}),
        (card("FN:A", "NOTE:C:\\\\temp\\\\new\\nb"), {"note": "C:\\temp\\new\nb"}),
    ],
)  # fmt: skip
def test_contact_is_read_as_it_was_written(
    tmp_path: Path, content: bytes, expected: dict[str, Any]
) -> None:
    path = tmp_path / "a.vcf"
    path.write_bytes(content)

    (record,) = read_stream("vcard", path, "contacts")

    assert {name: record[name] for name in expected} == expected


def test_lines_of_a_card_that_cannot_be_read_have_receipts(tmp_path: Path) -> None:
    path = tmp_path / "a.vcf"
    path.write_bytes(card("FN:A", "REV:yesterday", "NOTE broken", "TEL:1"))

    run(path)

    assert records("contacts")[0]["phones"] == ["1"]
    assert receipts() == {("bad_date", "line 1"), ("partly_imported", "line 1")}


def test_file_without_contacts_has_a_receipt(tmp_path: Path) -> None:
    path = tmp_path / "a.vcf"
    path.write_bytes(b"Name;Phone\n")

    run(path)

    assert receipts() == {("empty", "a.vcf")}
