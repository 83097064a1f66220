"""Generate everyday mail in both mailboxes from the templates of texts/mail_*.toml.

A template defines its frequency, its texts, its payment (which also becomes a bank transaction) and
its follow-up messages.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from demo import clock, people, shapes, words
from demo.rng import Rng, stable_id
from demo.words import TemplateFiller

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demo.shapes import Record

LANGUAGES = ("en", "de", "fr", "es", "ja", "zh")
FIRST_WORK_DAY = date(2023, 4, 4)


def records() -> Iterator[Record]:
    for lang in LANGUAGES:
        texts = people.load_toml(f"texts/mail_{lang}.toml")
        for template in texts["mail"]:
            used_values: list[str] = []
            for number, day in enumerate(_days(template)):
                name = f"{template['name']}/{number}"
                filler = TemplateFiller(
                    lang=lang,
                    today=day,
                    rng=Rng(name),
                    slots={**texts["slots"], **template.get("slots", {})},
                    values=_date_values(day, lang=lang),
                    used_values=used_values,
                    office=template.get("box") == "work",
                )
                yield from _thread(template, name=name, filler=filler, reply=texts["reply"])


def _days(template: Record) -> Iterator[date]:
    """Yield the days of a template: monthly on a fixed day, or `per_year` times a year."""
    first = template.get("since", clock.FIRST_DAY)
    if template.get("box") == "work":
        first = max(first, FIRST_WORK_DAY)
    last = template.get("until", clock.LAST_DAY)
    if "monthly" in template:
        yield from (day for day in clock.days(first, last=last) if day.day == template["monthly"])
        return
    rng = Rng(f"mail/{template['name']}")
    hours = 365 * 24 // template["per_year"]
    moment = datetime.combine(first, datetime.min.time())
    while True:
        moment += timedelta(hours=rng.between(hours // 3, hours * 5 // 3))
        day = moment.date()
        if template.get("weekdays") and day.weekday() >= 5:
            day += timedelta(days=7 - day.weekday())
        if day > last:
            return
        yield day


def _thread(template: Record, *, name: str, filler: TemplateFiller, reply: str) -> Iterator[Record]:
    """Yield the mail with its payment, attachment and follow-up messages."""
    rng = filler.rng
    hour = rng.between(8, 17 if filler.office else 22)
    at = clock.local(filler.today, hour=hour, minute=rng.between(0, 59))
    if "pays" in template:
        yield _payment(template, name=name, filler=filler)
    subject = filler.fill(rng.pick(template.get("subjects") or [template["subject"]]))
    message = _mail(template, name=name, at=at, filler=filler, subject=subject)
    yield message
    if "attachment" in template:
        yield _attachment(template, message=message, filler=filler)
    for number, follow_up in enumerate(template.get("then", [])):
        at += timedelta(minutes=rng.between(60 * follow_up["hours"][0], 60 * follow_up["hours"][1]))
        if rng.chance(follow_up["percent"]) and at.date() <= clock.LAST_DAY:
            title = filler.fill(follow_up["subject"]) if "subject" in follow_up else reply + subject
            merged = {**template, "to": ["ida"], **follow_up}
            step = f"{name}/{number}"
            yield _mail(merged, name=step, at=at, filler=filler, subject=title, thread=name)


def _date_values(day: date, *, lang: str) -> dict[str, str]:
    last_month = day.replace(day=1) - timedelta(days=1)
    return {
        "today": words.full_date(day, lang=lang),
        "thismonth": words.month(day, lang=lang),
        "lastmonth": words.month(last_month, lang=lang),
    }


def _mail(
    template: Record,
    *,
    name: str,
    at: datetime,
    filler: TemplateFiller,
    subject: str,
    thread: str | None = None,
) -> Record:
    return shapes.mail(
        f"letter/{name}",
        box=template.get("box", "personal"),
        at=at,
        sender=template["from"],
        to=template.get("to", ["ida"]),
        subject=subject,
        body=filler.fill(template["body"]),
        thread=f"letter/{thread or name}",
        labels=template["labels"],
        folder=template.get("folder"),
        attachments="attachment" in template and thread is None,
    )


def _payment(template: Record, *, name: str, filler: TemplateFiller) -> Record:
    counterparty, category, low, high = template["pays"]
    cents = filler.rng.bell(low, high)
    filler.values["price"] = words.money(cents, lang=filler.lang)
    return shapes.transaction(
        f"letter/{name}",
        day=min(filler.today + timedelta(days=1), clock.LAST_DAY),
        amount=-cents,
        kind="card",
        counterparty=counterparty,
        memo=filler.fill("Ref. {ref}"),
        category=category,
        account="card",
    )


def _attachment(template: Record, *, message: Record, filler: TemplateFiller) -> Record:
    """Return an attachment without text and blob, as if the connector had not fetched it."""
    filename, media_type = template["attachment"]
    key = stable_id("a_", f"attachment/{message['key']}")
    data = {
        "id": key,
        "message_id": message["key"],
        "filename": filler.fill(filename),
        "media_type": media_type,
        "size_bytes": filler.rng.between(18_000, 480_000),
        "received_at": message["data"]["received_at"],
        "text": None,
        "blob_ref": None,
    }
    return {**message, "stream": "attachments", "key": key, "data": data}
