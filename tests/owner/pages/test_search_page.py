"""Searching from the owner's pages: hits, facets, months and the state in the URL."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from evidence.ledger.disclosures import disclosures_of_record, read_disclosures
from tests.owner.pages.browser import Browser, Form, Page
from tests.world import BANK, CHAT, PERSONAL, WORK, World


def search(alice: Browser, **query: str) -> Page:
    return alice.press(_filled(alice, query))


def _filled(alice: Browser, query: dict[str, str]) -> Form:
    page = alice.open("/search")
    [form] = [each for each in page.forms if each.action.endswith("/search")]
    for name, value in query.items():
        form.fill(name, value)
    return form


def hits(page: Page) -> list[str]:
    return [at for words, at in page.links if at.startswith("/records/")]


def test_a_search_finds_records_of_every_source(world: World, alice: Browser) -> None:
    page = search(alice, q="canal")

    assert set(hits(page)) == {f"/records/{PERSONAL}/messages/m3", f"/records/{CHAT}/messages/c2"}
    assert "2 records" in page.text
    assert "Jonas Weber" in page.text
    assert "Personal mail Messages · 5 Mar 2026" in page.text
    assert "5 Mar 2026, 18:30" in page.text
    assert "<mark>canal</mark>" in page.html


def test_the_search_box_is_on_every_page(world: World, alice: Browser) -> None:
    for address in ("/connected", "/connect", f"/records/{BANK}/transactions/"):
        forms = alice.open(address).forms
        assert any(form.action.endswith("/search") for form in forms), address


def test_facets_narrow_and_keep_the_rest_of_the_search(world: World, alice: Browser) -> None:
    page = search(alice, q="budget OR lease OR deposit")
    assert {f"/records/{CHAT}/messages/c1", f"/records/{BANK}/transactions/b1"} <= set(hits(page))

    narrowed = alice.open(page.link("Bank account"))
    assert hits(narrowed) == [f"/records/{BANK}/transactions/b1"]
    assert alice.open(narrowed.link("Remove all filters")).text == page.text
    by_year = alice.open(page.link("2025"))
    assert hits(by_year) == [f"/records/{PERSONAL}/messages/m0"]
    assert parse_qs(urlsplit(page.link("2025")).query)["q"] == ["budget OR lease OR deposit"]
    by_kind = alice.open(page.link("Chat"))
    assert hits(by_kind) == [f"/records/{CHAT}/messages/c1"]


def test_a_month_of_the_histogram_narrows(world: World, alice: Browser) -> None:
    page = search(alice, q="lease")
    [url] = {at for tag, given in page.elements if tag == "a"
             for at in [given.get("href") or ""] if "period=2026-01" in at}  # fmt: skip

    assert sorted(hits(alice.open(url))) == [
        f"/records/{PERSONAL}/messages/m1",
        f"/records/{PERSONAL}/messages/m2",
    ]


def test_what_a_search_finds_is_exported_as_json_lines_and_recorded(
    world: World, alice: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("owner.records.search_page.EXPORT_BATCH", 2)
    page = search(alice, q="lease")
    assert "Matches by month, June 2025 to January 2026. Tallest bar: 2 records." in page.text

    def exported(page: Page) -> list[str]:
        answer = alice.http.get(page.link("Export as JSON lines"))
        assert answer["Content-Disposition"] == 'attachment; filename="search.jsonl"'
        lines = [json.loads(line) for line in b"".join(answer).splitlines()]
        assert all(line["data"]["id"] == line["key"] for line in lines)
        return [f"/records/{x['connection_id']}/{x['stream']}/{x['key']}" for x in lines]

    assert exported(page) == hits(page)
    assert len(hits(page)) == 3
    assert exported(alice.open(page.link("2025"))) == [f"/records/{PERSONAL}/messages/m0"]
    [latest, *_] = read_disclosures(disclosures_of_record(PERSONAL, "messages", "m0"))
    assert latest.route == "admin export"
    refused = alice.http.get("/search/export?q=%22")
    assert refused["Location"] == "/search?q=%22"


def test_newest_first_begins_with_a_possible_date(world: World, alice: Browser) -> None:
    world.put(*((PERSONAL, "messages", {"id": f"d{year}", "subject": "Report",
                 "received_at": f"{year}-06-01T00:00:00Z"}) for year in ("2099", "1969", "2026")),
              (PERSONAL, "messages", {"id": "undated", "subject": "Report"}))  # fmt: skip
    best = search(alice, q="report")

    newest = alice.open(best.link("Newest first"))
    others = alice.open(newest.link("Show other dates"))

    assert "left out" not in best.text
    assert [words for words, at in best.links if "period=" in at] == [
        "2026",
        "Other dates",
        "June 2026: 1",
    ]
    assert 'aria-label="June 2099' not in best.html
    mail = f"/records/{PERSONAL}/messages"
    assert hits(newest) == [f"{mail}/d2026", f"{mail}/d1969", f"{mail}/undated"]
    assert hits(others) == [f"{mail}/d2099", f"{mail}/d1969"]
    assert others.text == alice.open(alice.open(best.link("Other dates")).link("Newest first")).text


def test_pages_follow_one_another(world: World, alice: Browser) -> None:
    world.put(*((WORK, "messages", {"id": f"x{n}", "subject": f"Report {n}",
                 "received_at": f"2026-04-{n % 28 + 1:02}T00:00:00Z"}) for n in range(45)))  # fmt: skip
    page = search(alice, q="report", sort="newest")
    found = hits(page)
    while page.has_link("More results"):
        page = alice.open(page.link("More results"))
        found += hits(page)

    assert len(found) == len(set(found)) == 45


@pytest.mark.parametrize("query", ['"', "period=99", "after=nonsense", "kind=none"])
def test_what_cannot_be_searched_is_said(world: World, alice: Browser, query: str) -> None:
    name, _, value = query.partition("=")
    page = alice.open(f"/search?q=lease&{name}={value}" if value else f"/search?q={name}")

    assert page.status == 200


def test_what_a_hit_says_does_nothing(world: World, alice: Browser) -> None:
    world.put((PERSONAL, "messages", {"id": "h", "subject": "<script>zebra</script>\u202e",
        "body_text": "a <img src=x onerror=alert(1)> zebra", "received_at": "2026-05-01T00:00:00Z"}))  # fmt: skip
    page = search(alice, q="zebra")

    assert "<script>" not in page.html
    assert "<img" not in page.html
    assert "\u202e" not in page.html
    assert "⟨U+202E⟩" in page.text


def test_what_was_found_is_on_record(world: World, alice: Browser) -> None:
    search(alice, q="canal")

    answer = alice.http.get("/activity/export.json?client=you")
    [entry] = json.loads(b"".join(answer.streaming_content))
    assert entry["route"] == "admin search"
    assert {"m3", "c2"} <= {each["record_key"] for each in entry["records"]}


def test_counts_of_very_many_matches_are_estimates(
    world: World, alice: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put(*((WORK, "messages", {"id": f"x{n}", "subject": f"Report {n}",
                 "received_at": f"202{n % 3}-04-{n % 28 + 1:02}T00:00:00Z"}) for n in range(45)),
              (PERSONAL, "messages", {"id": "p", "subject": "Report", "received_at": "2023-05-01T00:00:00Z"}))  # fmt: skip
    counted = search(alice, q="report")
    assert "Work mail 45" in counted.text
    monkeypatch.setattr("evidence.read.search.COUNT_LIMIT", 10)

    page = search(alice, q="report")
    assert "these numbers are estimates" in page.text
    # Every month has fewer records than are read of it, so that the estimates are exact.
    assert "Work mail about 45" in page.text
    assert "2023 about 1" in page.text
    assert hits(page) == hits(counted)

    monkeypatch.setattr("evidence.access.record_counts.SAMPLE_ROWS", 1)
    assert "about" in search(alice, q="report").text
    assert len(hits(alice.open(page.link("2021")))) == 15


def test_a_phrase_is_counted_only_in_the_first_texts(
    world: World, alice: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evidence.search.lexical.UNCOUNTED_LIMIT", 25)
    monkeypatch.setattr("evidence.search.lexical.CANDIDATE_BATCH_SIZE", 25)
    world.put(*((WORK, "messages", {"id": f"x{n}", "subject": f"grand canal {n}",
                 "received_at": f"2026-04-{n % 28 + 1:02}T00:00:00Z"}) for n in range(45)),
              (PERSONAL, "messages", {"id": "rare", "subject": "a canal grand tour",
                                      "received_at": "2020-05-01T00:00:00Z"}))  # fmt: skip
    page = search(alice, q='"grand canal"')
    assert "More than 25 records" in page.text
    found = hits(page)
    while page.has_link("More results"):
        page = alice.open(page.link("More results"))
        found += hits(page)
    assert len(found) == len(set(found)) == 45

    assert hits(search(alice, q='"canal grand"')) == [f"/records/{PERSONAL}/messages/rare"]


def test_a_phrase_that_few_of_very_many_candidates_contain_is_found(
    world: World, alice: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evidence.search.lexical.COUNT_LIMIT", 10)
    monkeypatch.setattr("evidence.search.lexical.UNCOUNTED_CANDIDATES", 4)
    subjects = ["a grand canal"] * 8 + ["a canal grand tour"] + ["a grand canal"] * 4
    world.put(*((WORK, "messages", {"id": f"x{n}", "subject": subject,
                 "received_at": f"2026-04-{20 - n:02}T00:00:00Z"})
                for n, subject in enumerate(subjects)))  # fmt: skip
    assert hits(search(alice, q='"canal grand"')) == [f"/records/{WORK}/messages/x8"]
    of_many = hits(search(alice, q='"grand canal"'))
    assert of_many == [f"/records/{WORK}/messages/x{n}" for n in (*range(8), 9, 10)]
