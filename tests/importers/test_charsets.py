# ruff: noqa: RUF001
"""Texts in any charset arrive as they were written."""

from base64 import b64encode
from pathlib import Path

import pytest

from tests.importers.imports import one, records, run
from tests.importers.torture_kit import read_stream

pytestmark = pytest.mark.django_db

GERMAN = "Grüße aus München, schöne Tage"


def document(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    text = read_stream("documents", path, "documents")[0]["text"]
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize("position", [0, 10, 30])
def test_one_bad_byte_spoils_itself_only(tmp_path: Path, position: int) -> None:
    before, after = GERMAN[:position], GERMAN[position:]

    text = document(tmp_path / "a.txt", before.encode() + b"\xff" + after.encode())

    assert text == f"{before}\ufffd{after}"


def test_utf8_whose_bytes_a_program_replaced_stays_utf8(tmp_path: Path) -> None:
    text = "2005年日本国際博覧会（時間の指定はありません）ホームページ"
    replaced = text.encode().translate(bytes.maketrans(b"\x81\x8d\x8f\x90\x9d", b"?????"))
    assert replaced.decode("utf-8", "replace").count("\ufffd") > 9

    found = document(tmp_path / "a.txt", replaced)

    assert "年日本国際" in found
    assert "覧会（時間" in found


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("cp1252", "Rechnung für März"),
        ("cp1252", "Peña, Señor Núñez: ¿Qué tal? “Bien” – 5 €"),
        ("cp1252", "Prélèvement à Besançon, c’était déjà l’été. Où est l’élève?"),
        ("cp1252", "Não sei, são opções de ação"),
        ("latin-1", "Malmö, Åre og Tromsø"),
        ("cp1254", "Günaydın, nasılsınız? Şimdi değil"),
        ("cp1250", "Dobrý den, přeji hezký víkend, měl jsem"),
        ("cp1250", "Datum zaúčtování; Číslo účtu; Měna účtu; Původní částka"),
        ("cp1250", "Książka jest żółta, proszę"),
        ("iso8859-2", "Książka jest żółta i świetna, proszę"),
        ("cp1250", "URZĄD ŚWINOUJŚCIE"),
        ("iso8859-2", "URZĄD ŚWINOUJŚCIE"),
        ("cp1250", "PŁATNOŚĆ KARTĄ W ŻABKA ŁÓDŹ\nOPŁATA MIESIĘCZNA"),
        ("iso8859-2", "PŁATNOŚĆ KARTĄ W ŻABKA ŁÓDŹ\nOPŁATA MIESIĘCZNA"),
        ("iso8859-2", "PRZELEW WEWNĘTRZNY; ŁÓDŹ; ŚRODKI"),
        ("cp1252", "¡OFERTA! «LÁPIZ» 5£ – MÁS POR 2¥, ½ KILO ±3"),
        ("cp1251", "Привет, как дела? Это письмо о встрече в понедельник."),
        ("cp1251", "Счёт за январь"),
        ("koi8-r", "Привет, как дела? Встретимся завтра у метро."),
        ("koi8-r", "Dear Ida, your order. Ваш заказ отправлен, ждём вас снова. Best regards"),
        ("iso8859-5", "Привет, как дела? Встретимся завтра у метро."),
        ("euc-jp", "お元気ですか。明日駅で会いましょう。"),
        ("euc-jp", "Hello Ida, 会議の資料を送ります。 Thank you"),
        ("gbk", "你好，明天在车站见面。"),
        ("gbk", "一月份的发票"),
        ("big5", "你好，明天在車站見面。"),
        ("euc-kr", "안녕하세요, 내일 역에서 만나요."),
        ("cp1253", "Γεια σου, τα λέμε αύριο στον σταθμό."),
        ("cp1255", "שלום, ניפגש מחר בתחנה"),
        ("cp1256", "مرحبا، نلتقي غدا في المحطة"),
        ("cp874", "สวัสดีครับ พรุ่งนี้เจอกันที่สถานี"),
        ("shift_jis", "これは日本語のテストです。カタカナも。"),
        ("utf-16", GERMAN),
        ("utf-16-le", GERMAN),
        ("utf-16-be", GERMAN),
    ],
)
def test_undeclared_charset_is_found(tmp_path: Path, charset: str, text: str) -> None:
    assert document(tmp_path / "a.txt", text.encode(charset)) == text


def mail(path: Path, *, subject: bytes, body: bytes, charset: str) -> Path:
    path.write_bytes(
        b"From: Jos\xe9 Pe\xf1a <jose@example.org>\nDate: Mon, 5 Jan 2026 08:30:00 +0000\n"
        b"Message-ID: <1@example.org>\nSubject: " + subject + b"\nMIME-Version: 1.0\n"
        b"Content-Type: multipart/mixed; boundary=b\n\n--b\n"
        b'Content-Type: text/plain; charset="' + charset.encode() + b'"\n'
        b"Content-Transfer-Encoding: 8bit\n\n" + body + b"\n--b--\n"
    )
    return path


@pytest.mark.parametrize(
    ("charset", "subject"),
    [
        ("iso-8859-1", "Rechnung für März"),
        ("iso-8859-2", "Książka"),
        ("koi8-r", "Привет"),
        ("KOI8R", "ИИИИ"),
        ("iso88592", "Łódź"),
    ],
)
def test_raw_headers_have_the_charset_of_the_body(
    tmp_path: Path, charset: str, subject: str
) -> None:
    content = subject.encode({"KOI8R": "koi8-r", "iso88592": "iso8859-2"}.get(charset, charset))

    run(mail(tmp_path / "a.eml", subject=content, body=content, charset=charset))

    (message,) = records("messages")
    assert (message["subject"], message["body_text"]) == (subject, subject)


def encoded_words(charset: str, *words: bytes) -> bytes:
    return b" ".join(b"=?%s?B?%s?=" % (charset.encode(), b64encode(word)) for word in words)


@pytest.mark.parametrize(
    ("charset", "words", "subject"),
    [
        ("iso-2022-jp", [b"\x1b$B2q5D-!\x1b(B"], "会議①"),  # of NEC, as Outlook writes it
        ("iso-2022-jp", [b"\x1b$B-j4k6H\x1b(B \x1b$B|b66\x1b(B"], "㈱企業 髙橋"),
        ("iso-2022-jp", [b"\x1b(I6@\x1b(B"], "ｶﾀ"),
        ("iso-2022-jp", [b"\x1b$@2q5D\x1b(J"], "会議"),
        ("iso-2022-jp", [b"\x1b$B2q5D!A-", b"!\x1b(B"], "会議〜①"),
        ("cp50221", [b"\x1b$B2q5D\x1b(B"], "会議"),
        ("us-ascii", [b"\x1b$B2q5D\x1b(B"], "会議"),
        ("iso-2022-kr", ["안녕하세요".encode("iso2022_kr")], "안녕하세요"),
        ("hz-gb-2312", ["你好 ABC".encode("hz")], "你好 ABC"),
        ("gb2312", ["票".encode("gb2312")], "票"),  # also valid in UTF-8
        ("gb2312", ["für".encode()], "für"),  # declared wrong
        ("euc-kr", ["요내".encode("euc_kr")], "요내"),
        ("big5", ["天在".encode("big5")], "天在"),
    ],
)
def test_encoded_words_in_charsets_of_east_asia(
    tmp_path: Path, charset: str, words: list[bytes], subject: str
) -> None:
    content = encoded_words(charset, *words)

    run(mail(tmp_path / "a.eml", subject=content, body=b"text", charset="us-ascii"))

    assert records("messages")[0]["subject"] == subject


def test_colors_of_a_terminal_are_no_japanese(tmp_path: Path) -> None:
    text = "\x1b[1mdone\x1b(B\x1b[m"

    assert document(tmp_path / "a.txt", text.encode()) == text


@pytest.mark.parametrize("charset", ["iso-2022-jp", "us-ascii", "utf-8"])
def test_japanese_of_seven_bits_without_its_charset(tmp_path: Path, charset: str) -> None:
    content = "Re: 会議の資料".encode("iso-2022-jp")

    run(mail(tmp_path / "a.eml", subject=content, body=content, charset=charset))

    (message,) = records("messages")
    assert (message["subject"], message["body_text"]) == ("Re: 会議の資料", "Re: 会議の資料")


def test_a_declared_charset_survives_a_bad_byte(tmp_path: Path) -> None:
    utf8 = GERMAN.encode() + b"\xff!"
    japanese = "これは日本語のテスト文章です".encode("shift_jis") + b"\xff!"
    run(mail(tmp_path / "a.eml", subject=b"utf-8", body=utf8, charset="utf-8"))
    run(mail(tmp_path / "b.eml", subject=b"sjis", body=japanese, charset="shift_jis"))

    assert one("messages", subject="utf-8")["body_text"] == f"{GERMAN}\ufffd!"
    assert one("messages", subject="sjis")["body_text"][:14] == "これは日本語のテスト文章です"


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-le", "utf-16-be", "cp1252", "utf-8-sig"])
@pytest.mark.parametrize("suffix", [".ics", ".bin"])
def test_calendars_and_contacts_in_any_charset(tmp_path: Path, charset: str, suffix: str) -> None:
    event = "BEGIN:VEVENT\nUID:1\nDTSTART:20260105T083000Z\nSUMMARY:Frühstück\nEND:VEVENT\n"
    calendar = f"BEGIN:VCALENDAR\nX-WR-CALNAME:Müller\n{event}END:VCALENDAR\n"
    card = "BEGIN:VCARD\nVERSION:3.0\nFN:Jürgen Müller\nEND:VCARD\n"
    (tmp_path / f"a{suffix}").write_bytes(calendar.encode(charset))
    (tmp_path / f"b{suffix.replace('ics', 'vcf')}").write_bytes(card.encode(charset))

    run(tmp_path)

    event_data = one("events", title="Frühstück")
    assert event_data["calendar"] == "Müller"
    assert one("contacts", name="Jürgen Müller")
