"""Generate an mbox file, a Health export and bank statements of any size in bounded memory."""

import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

FIRST = datetime(2012, 1, 1, tzinfo=UTC)
PROSE = (
    "the plumber comes on Thursday and brings the new pipe for kitchen while we are at the office"
    " please send me the invoice by the end of month because the bank wants to see it before April"
    " I have booked a table for four people near the canal they also have rooms if you want to stay"
    " meeting moved again could you ask Jonas whether he still needs the slides from last week"
)
WORDS = PROSE.split()
PEOPLE = [f"person{number}@example.org" for number in range(400)]


def mailbox(path: Path, *, size: int, rng: random.Random) -> int:
    """Write messages of 1 to 6 kB, a third of them HTML only, and return their number."""
    count = 0
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(_mail(count, rng))
            count += 1
    return count


def _mail(number: int, rng: random.Random) -> bytes:
    at = FIRST + timedelta(minutes=11 * number)
    text = "\n".join(
        " ".join(rng.choices(WORDS, k=rng.randint(8, 14))) for _ in range(rng.randint(8, 60))
    )
    kind = "plain"
    if number % 3 == 0:
        kind = "html"
        lines = "".join(f"<p style='margin:0'>{line}</p>\n" for line in text.splitlines())
        text = f"<html><head><style>p {{ color: black }}</style></head><body>{lines}</body></html>"
    references = f"References: <{number - number % 5}@example.org>\n" if number % 5 else ""
    return (
        f"From x@example.org {at:%a %b %d %H:%M:%S %Y}\n"
        f"From: Somebody <{rng.choice(PEOPLE)}>\nTo: {rng.choice(PEOPLE)}\n"
        f"Subject: {' '.join(rng.choices(WORDS, k=5))}\nDate: {format_datetime(at)}\n"
        f"Message-ID: <{number}@example.org>\n{references}"
        f"Content-Type: text/{kind}; charset=utf-8\n\n{text}\n\n"
    ).encode()


def health(path: Path, *, size: int, rng: random.Random) -> int:
    """Write steps and heart rates of a phone and a watch, and return their number."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n<HealthData locale="en_DE">\n')
        while file.tell() < size:
            file.write(_measurement(count, rng))
            count += 1
        file.write("</HealthData>\n")
    return count


def _measurement(number: int, rng: random.Random) -> str:
    start = FIRST + timedelta(minutes=3 * number)
    end = start + timedelta(minutes=3)
    kind, unit = (("StepCount", "count"), ("HeartRate", "count/min"))[number % 2]
    source = ("iPhone", "Apple Watch")[number // 2 % 2]
    form = "%Y-%m-%d %H:%M:%S +0000"
    return (
        f' <Record type="HKQuantityTypeIdentifier{kind}" sourceName="{source}"'
        f' sourceVersion="11.0" unit="{unit}" creationDate="{end:{form}}"'
        f' startDate="{start:{form}}" endDate="{end:{form}}" value="{rng.randint(1, 200)}"/>\n'
    )


def bookings_csv(path: Path, *, count: int) -> int:
    """Write bookings of a German bank, and return their number."""
    with path.open("w", encoding="utf-8") as file:
        file.write('"Konto";"Girokonto";"DE89370400440532013000"\n""\n')
        file.write('"Buchungsdatum";"Wertstellung";"Status";"Zahlungspflichtige*r";')
        file.write('"Zahlungsempfänger*in";"Verwendungszweck";"Umsatztyp";"IBAN";"Betrag (€)"\n')
        for day, cents, name, note in map(_booking, range(count)):
            euros = f"{cents // 100:,}".replace(",", ".") + f",{cents % 100:02}"
            file.write(f'"{day:%d.%m.%Y}";"{day:%d.%m.%Y}";"Gebucht";"Eva Lang";"{name}";"{note}";')
            file.write(f'"Ausgang";"";"-{euros}"\n')
    return count


def bookings_ofx(path: Path, *, count: int) -> int:
    """Write the first of the same bookings in the form of OFX, and return their number."""
    with path.open("w", encoding="ascii") as file:
        file.write(
            "OFXHEADER:100\nDATA:OFXSGML\nVERSION:102\nENCODING:USASCII\n\n"
            "<OFX><BANKMSGSRSV1><STMTTRNRS><STMTRS><CURDEF>EUR<BANKACCTFROM><BANKID>37040044"
            "<ACCTID>DE89370400440532013000<ACCTTYPE>CHECKING</BANKACCTFROM><BANKTRANLIST>\n"
        )
        for number, (day, cents, name, note) in enumerate(map(_booking, range(count))):
            file.write(
                f"<STMTTRN><TRNTYPE>DEBIT<DTPOSTED>{day:%Y%m%d}<TRNAMT>-{cents / 100:.2f}"
                f"<FITID>F{number}<NAME>{name}<MEMO>{note}</STMTTRN>\n"
            )
        file.write("</BANKTRANLIST></STMTRS></STMTTRNRS></BANKMSGSRSV1></OFX>\n")
    return count


def _booking(number: int) -> tuple[datetime, int, str, str]:
    shop = f"Shop {number * 7 % 211}"
    return (
        FIRST + timedelta(hours=2 * number),
        100 + number * 7919 % 250_000,
        shop,
        f"Order {number}",
    )
