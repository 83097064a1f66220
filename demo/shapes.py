"""Build the records of each stream according to its declaration."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from demo import clock, people
from demo.rng import Rng, stable_id

if TYPE_CHECKING:
    from datetime import date, datetime

Record = dict[str, Any]

MAIL = {"personal": "cin_demo_mail_personal", "work": "cin_demo_mail_work"}
CHAT = {"work": "cin_demo_chat_work", "friends": "cin_demo_chat_friends"}
BANK, CALENDAR, HEALTH = "cin_demo_bank", "cin_demo_calendar", "cin_demo_health"
PERSON = "ida"
"""The owner of the records."""
# Connectors deliver a record shortly after the event.
SYNC_DELAY = timedelta(seconds=5)


def record(connection_id: str, *, stream: str, key: str, data: Record, emitted_at: str) -> Record:
    """Return a record in the format of records.jsonl."""
    return {
        "connector_key": _CONNECTOR[connection_id],
        "connection_id": connection_id,
        "stream": stream,
        "key": key,
        "data": data,
        "emitted_at": emitted_at,
    }


_CONNECTOR = {
    MAIL["personal"]: "mailbox",
    MAIL["work"]: "mailbox",
    CHAT["work"]: "chat",
    CHAT["friends"]: "chat",
    BANK: "bank",
    CALENDAR: "calendar",
    HEALTH: "health",
}


def mail(
    name: str,
    *,
    box: str,
    at: datetime,
    sender: str,
    to: list[str],
    subject: str,
    body: str,
    thread: str | None = None,
    labels: list[str] | None = None,
    folder: str | None = None,
    attachments: bool = False,
) -> Record:
    """Build a mail. `sender` and `to` are ids of texts/cast.toml or `Name <address>`.

    `name` is unique and determines the ids of the record.
    """
    key = stable_id("m_", f"mail/{name}")
    who, address = people.name_and_address(sender, box=box)
    body = body.strip() + "\n"
    data: Record = {
        "id": key,
        "thread_id": stable_id("t_", f"thread/{thread or name}"),
        "folder": folder or ("sent" if sender == PERSON else "inbox"),
        "subject": subject,
        "from_name": who,
        "from_email": address,
        "to": [people.name_and_address(person, box=box)[1] for person in to],
        "received_at": clock.utc(at),
        "labels": labels or [],
        "is_read": Rng(f"read/{name}").chance(94),
        "has_attachments": attachments,
        "size_bytes": len(body.encode()),
        "body_text": body,
    }
    when = clock.utc(at + SYNC_DELAY)
    return record(MAIL[box], stream="messages", key=key, data=data, emitted_at=when)


def author_id(author: str) -> str:
    """Return the id of a chat member."""
    return stable_id("u_", author, length=8)


def identities(connection_id: str) -> list[str]:
    """Return the identities of the owner in the source of a connection."""
    if connection_id in CHAT.values():
        return [author_id(PERSON)]
    for box, mailbox in MAIL.items():
        if connection_id == mailbox:
            return [people.name_and_address(PERSON, box=box)[1]]
    return []


def chat(
    name: str,
    *,
    space: str,
    channel: str,
    at: datetime,
    author: str,
    text: str,
    thread: str | None = None,
    replies: int = 0,
    reactions: int | None = None,
) -> Record:
    key = stable_id("c_", f"chat/{name}")
    if reactions is None:
        reactions = Rng(f"reactions/{name}").pick([0, 0, 0, 0, 1, 1, 2, 4])
    data: Record = {
        "id": key,
        "channel_id": channel_id(space, channel=channel),
        "thread_id": stable_id("t_", f"thread/{thread}") if thread else None,
        "author_id": author_id(author),
        "author_name": people.name_and_address(author, box="personal")[0],
        "sent_at": clock.utc(at),
        "edited_at": clock.utc(at + timedelta(minutes=3))
        if Rng(f"edited/{name}").chance(2)
        else None,
        "reply_count": replies,
        "reaction_count": reactions,
        "has_files": False,
        "text": text.strip(),
    }
    when = clock.utc(at + SYNC_DELAY)
    return record(CHAT[space], stream="messages", key=key, data=data, emitted_at=when)


def channel_id(space: str, *, channel: str) -> str:
    return stable_id("ch_", f"{space}/{channel}", length=8)


def transaction(
    name: str,
    *,
    day: date,
    amount: int,
    kind: str,
    counterparty: str,
    memo: str = "",
    category: str | None = None,
    account: str = "giro",
    iban: str | None = None,
    original: tuple[int, str] | None = None,
) -> Record:
    """Build a transaction. `amount` is in euro cents, negative for debits."""
    key = stable_id("tx_", f"bank/{name}")
    data: Record = {
        "id": key,
        "account_id": f"acc_{account}",
        "date": day.isoformat(),
        "amount": amount,
        "currency": "EUR",
        "original_amount": original[0] if original else None,
        "original_currency": original[1] if original else None,
        "type": kind,
        "counterparty": counterparty,
        "counterparty_iban": iban,
        "category": category,
        "memo": memo or None,
    }
    when = clock.utc(clock.local(day, hour=18))
    return record(BANK, stream="transactions", key=key, data=data, emitted_at=when)


def event(
    name: str,
    *,
    calendar: str,
    title: str,
    starts: datetime,
    ends: datetime,
    location: str | None = None,
    organizer: str = "Ida Falkner",
    attendees: list[str] | None = None,
    all_day: bool = False,
    status: str = "confirmed",
    description: str | None = None,
) -> Record:
    key = stable_id("ev_", f"event/{name}")
    data: Record = {
        "id": key,
        "calendar": calendar,
        "title": title,
        "starts_at": clock.with_offset(starts),
        "ends_at": clock.with_offset(ends),
        "is_all_day": all_day,
        "location": location,
        "organizer": organizer,
        "attendees": attendees or [],
        "status": status,
        "description": description.strip() if description else None,
    }
    # Events are created some days before they start.
    created = starts - timedelta(days=Rng(f"noted/{name}").between(1, 20))
    return record(CALENDAR, stream="events", key=key, data=data, emitted_at=clock.utc(created))


def workout(
    name: str,
    *,
    sport: str,
    starts: datetime,
    seconds: int,
    metres: int | None = None,
    pulse: int | None = None,
    note: str | None = None,
) -> Record:
    key = stable_id("w_", f"workout/{name}")
    data: Record = {
        "id": key,
        "sport": sport,
        "started_at": clock.utc(starts),
        "duration_seconds": seconds,
        "distance_m": metres,
        "average_heart_rate": pulse,
        "note": note,
    }
    when = clock.utc(starts + timedelta(seconds=seconds) + SYNC_DELAY)
    return record(HEALTH, stream="workouts", key=key, data=data, emitted_at=when)


def measurement(kind: str, *, at: datetime, value: int | float, unit: str, device: str) -> Record:
    day = at.date().isoformat()
    key = f"{day}-{kind}"
    data: Record = {
        "id": key,
        "kind": kind,
        "value": value,
        "unit": unit,
        "measured_at": clock.utc(at),
        "device": device,
    }
    when = clock.utc(at + SYNC_DELAY)
    return record(HEALTH, stream="measurements", key=key, data=data, emitted_at=when)
