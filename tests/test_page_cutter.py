"""What fits on a page is found in few steps, and little of its room stays unused."""

import json

from evidence.page_cutter import UNUSED_PART, cut_hit, largest_that_fits
from tests.world import PERSONAL, World, mail

LIST = "/v1/streams/messages/records"


def test_what_fits_whole_is_rendered_once() -> None:
    rendered: list[int] = []

    def render(count: int) -> int:
        rendered.append(count)
        return count

    assert largest_that_fits(5_000, render=render, fits=lambda _: True) == 5_000
    assert rendered == [5_000]
    assert largest_that_fits(5_000, render=render, fits=lambda count: count <= 1_234) == 1_234
    assert largest_that_fits(5_000, render=render, fits=lambda _: False) is None
    assert largest_that_fits(-1, render=render, fits=lambda _: True) is None


def test_cut_texts_leave_little_room_unused(world: World) -> None:
    texts = (mail(f"long{n}", f"2026-08-0{n + 1}T00:00:00Z", body_text="Wörter " * 4_000)
             for n in range(5))  # fmt: skip
    world.put(*((PERSONAL, "messages", text) for text in texts))
    limits = {"max_bytes": 40_000, "form": "compact", "limit": 5}
    for more in ({}, {"max_line_bytes": 30_000}):
        body = world.get(LIST, "dora", connection_id=PERSONAL, **limits, **more).body
        size = len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())
        room = 40_000 if not more else 30_000
        assert len(body["data"]) == 5
        assert room * (1 - 2 / UNUSED_PART) < size <= 40_000


def test_a_cut_excerpt_begins_with_a_word_and_shows_more_after_the_match_than_before() -> None:
    text = "We looked at several houses last week and <mark>signed</mark> the lease for the one by the canal on Friday."
    hit = {"evidence_excerpts": [{"field_path": "body", "preview_text": text}]}

    for chars in range(32, 90):
        shown = cut_hit(hit, chars)["evidence_excerpts"][0]["preview_text"]
        before, _, after = shown.partition("<mark>")
        if before != text.partition("<mark>")[0]:
            assert before.startswith("…")
            assert f" {before[1:]}<mark>" in text
            assert len(after) - len("signed</mark>") >= len(before) - 1
