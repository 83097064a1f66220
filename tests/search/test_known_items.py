# ruff: noqa: RUF001 - letters that look like others are what is tested here
"""Known-item search: a question in free words finds its text, in every named language."""

import pytest

from evidence.search.analysis.highlighter import best_passages
from evidence.search.analysis.matcher import verify
from evidence.search.analysis.query import parse

LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pt", "ru")

MAILS = {
    "en": "Hi Ana, the plumber's coming on Tuesday to fix the leaking taps; he charges $1,250.00.",
    "de": "Liebe Ana, die Schlüssel für die Häuser am See liegen beim Hausmeister in der Hauptstraße.",
    "fr": "Chère Ana, j'ai réservé deux chambres à l'hôtel de la gare, 1\u00a0250,50 € petit-déjeuner compris.",
    "es": "Querida Ana, las habitaciones ya están reservadas; pagué la señal por transferencia.",
    "it": "Cara Ana, l'appartamento in città è dell'avvocato Rossi, le bollette arrivano a marzo.",
    "nl": "Lieve Ana, de huizen aan de gracht zijn verkocht; de makelaar belt over de sleutels.",
    "pt": "Querida Ana, as traduções das certidões ficaram prontas, o cartório fecha às 17:30.",
    "ru": "Дорогая Аня, я отправил книги ёлочной бандеролью, ждите посылку к пятнице.",
    "zh": "安娜你好，租房合同已经签好了，押金两个月，钥匙下周一给你。",
    "ja": "アンナ様、来週の東京出張の際に、契約書の内容について改めてご相談させてください。",
    "ko": "안나 님, 학교에서 보낸 입학 서류를 확인했습니다. 다음 주에 답장하겠습니다.",
    "mixed": "Rechnung INV-2024/0017 vom 05.03.2024 an ana.gomez@example.com: Tokyo 東京 ホテル 🎉",
}


@pytest.mark.parametrize(
    ("q", "item"),
    [
        ("plumber leaks", "en"),
        ("fixed tap", "en"),
        ('"plumber is coming" OR "leaking tap"', "en"),
        ("1250 plumber", "en"),
        ("schlussel haus see", "de"),
        ("HAUPTSTRASSE", "de"),
        ("Häusern", "de"),
        ("reservee OR réservés hotel", "fr"),
        ("hôtels gare", "fr"),
        ("1.250,50", "fr"),
        ("habitación reservada", "es"),
        ("senal transferencia", "es"),
        ("appartamenti citta", "it"),
        ("avvocati bolletta", "it"),
        ("huis gracht", "nl"),
        ("traducoes certidões", "pt"),
        ("tradução pronta", "pt"),
        ("17:30", "pt"),
        ("книга посылка", "ru"),
        ("елочная", "ru"),
        ("合同", "zh"),
        ("租房 押金", "zh"),
        ("東京出張", "ja"),
        ("契約書 相談", "ja"),
        ("アンナ", "ja"),
        ("학교", "ko"),
        ("서류 답장", "ko"),
        ("inv-2024/0017", "mixed"),
        ("0017", "mixed"),
        ("2024-03-05", "mixed"),
        ("ana.gomez@example.com", "mixed"),
        ("example.com", "mixed"),
        ("ホテル tokyo", "mixed"),
        ("🎉", "mixed"),
    ],
)
def test_known_item_is_the_only_hit_and_has_an_excerpt(q: str, item: str) -> None:
    query = parse(q)
    found = [
        name for name, mail in MAILS.items() if verify({"body": mail}, query, languages=LANGUAGES)
    ]
    assert found == [item]
    assert best_passages(MAILS[item], query, languages=LANGUAGES, field="body")
