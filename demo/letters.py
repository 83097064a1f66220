"""Everyday mail in both boxes, made from the templates of texts/mail_*.toml.

A template says how often it comes, what it may say, whether it is paid for (then the bank has the
payment too) and what follows it in its thread.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from demo import cast, clock, shapes, words
from demo.dice import Dice, opaque
from demo.words import Filling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demo.shapes import Record

LANGUAGES = ("en", "de", "fr", "es", "ja", "zh")
FIRST_WORK_DAY = date(2023, 4, 4)


def records() -> Iterator[Record]:
    for lang in LANGUAGES:
        texts = cast.text_file(f"texts/mail_{lang}.toml")
        for template in texts["mail"]:
            picked: list[str] = []
            for number, day in enumerate(_days(template)):
                name = f"{template['name']}/{number}"
                filling = Filling(
                    lang=lang,
                    today=day,
                    dice=Dice(name),
                    slots={**texts["slots"], **template.get("slots", {})},
                    said=_known(day, lang=lang),
                    picked=picked,
                    office=template.get("box") == "work",
                )
                yield from _thread(template, name=name, filling=filling, reply=texts["reply"])


def _days(template: Record) -> Iterator[date]:
    """When the template comes: on a day of each month, or so many times a year."""
    first = template.get("since", clock.FIRST_DAY)
    if template.get("box") == "work":
        first = max(first, FIRST_WORK_DAY)
    last = template.get("until", clock.LAST_DAY)
    if "monthly" in template:
        yield from (day for day in clock.days(first, last=last) if day.day == template["monthly"])
        return
    dice = Dice(f"mail/{template['name']}")
    hours = 365 * 24 // template["per_year"]
    moment = datetime.combine(first, datetime.min.time())
    while True:
        moment += timedelta(hours=dice.between(hours // 3, hours * 5 // 3))
        day = moment.date()
        if template.get("weekdays") and day.weekday() >= 5:
            day += timedelta(days=7 - day.weekday())
        if day > last:
            return
        yield day


def _thread(template: Record, *, name: str, filling: Filling, reply: str) -> Iterator[Record]:
    """The mail, its attachment, its payment, and what follows."""
    dice = filling.dice
    hour = dice.between(8, 17 if filling.office else 22)
    at = clock.local(filling.today, hour=hour, minute=dice.between(0, 59))
    if "pays" in template:
        yield _payment(template, name=name, filling=filling)
    subject = filling.fill(dice.pick(template.get("subjects") or [template["subject"]]))
    message = _mail(template, name=name, at=at, filling=filling, subject=subject)
    yield message
    if "attachment" in template:
        yield _attachment(template, message=message, filling=filling)
    for number, after in enumerate(template.get("then", [])):
        at += timedelta(minutes=dice.between(60 * after["hours"][0], 60 * after["hours"][1]))
        if dice.chance(after["percent"]) and at.date() <= clock.LAST_DAY:
            title = filling.fill(after["subject"]) if "subject" in after else reply + subject
            joined = {**template, "to": ["ida"], **after}
            step = f"{name}/{number}"
            yield _mail(joined, name=step, at=at, filling=filling, subject=title, thread=name)


def _known(day: date, *, lang: str) -> dict[str, str]:
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
    filling: Filling,
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
        body=filling.fill(template["body"]),
        thread=f"letter/{thread or name}",
        labels=template["labels"],
        folder=template.get("folder"),
        attachments="attachment" in template and thread is None,
    )


def _payment(template: Record, *, name: str, filling: Filling) -> Record:
    counterparty, category, low, high = template["pays"]
    cents = filling.dice.bell(low, high)
    filling.said["price"] = words.money(cents, lang=filling.lang)
    return shapes.transaction(
        f"letter/{name}",
        day=min(filling.today + timedelta(days=1), clock.LAST_DAY),
        amount=-cents,
        kind="card",
        counterparty=counterparty,
        memo=filling.fill("Ref. {ref}"),
        category=category,
        account="card",
    )


def _attachment(template: Record, *, message: Record, filling: Filling) -> Record:
    """A file that the connector has listed but not fetched: no text, no blob."""
    filename, media_type = template["attachment"]
    key = opaque("a_", f"attachment/{message['key']}")
    data = {
        "id": key,
        "message_id": message["key"],
        "filename": filling.fill(filename),
        "media_type": media_type,
        "size_bytes": filling.dice.between(18_000, 480_000),
        "received_at": message["data"]["received_at"],
        "text": None,
        "blob_ref": None,
    }
    return {**message, "stream": "attachments", "key": key, "data": data}
