"""Addresses of the owner's pages, about records with names as long and as strange as they may be."""

import copy
from pathlib import Path

from django.contrib.admin.utils import quote
from django.utils import timezone

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, issue, register_client
from evidence.access.quotas import set_quotas
from evidence.access.tokens import create_collector, create_token
from evidence.models.connections import Connection
from evidence.models.grants import AccessToken, Collector
from evidence.write.erasure_orders import ErasureScope, create_erasure
from importers.models import ImportReceipt, ImportRun, WaitingExport
from importers.runs import uploads
from operations.backup import schedule
from operations.notifications.delivery import send_test
from owner.records import people_index
from owner.records.models import PersonCount
from tests.operations.notification_receivers import add_channel
from tests.owner.pages.test_backups import KEY, MADE, add_copy
from tests.world import BANK, CHAT, MAIL, PERSONAL, World, mail

LONG = "W" * 200
STRANGE = "مرحبا <b>bold</b> <script>alert(1)</script> 👩🏽"
HOSTILE = f"{STRANGE}\u200b\u202egnp.exe"
CHAT_EXPORT = b"03/04/26, 08:30 - Jonas: hi\n05/06/26, 08:30 - Jonas: ho\n"

EMPTY = ("/", "/search", "/search?q=lease", "/day/2026-01-10", "/people", "/activity",
    "/activity/refused", "/connected", "/connected/give", "/accounts", "/backups", "/notifications",
    "/storage", "/admin/", "/imports",
    "/connections", "/erasures",
    "/tokens",
)  # fmt: skip
"""Pages that list something, where nothing is there yet."""

PAGES = (
    "/",
    "/search",
    "/search?q=lease",
    "/settings",
    "/day/2026-01-10",
    "/people",
    "/people/{person}",
    "/records/{personal}/messages/?thread=t1",
    "/records/{personal}/messages/",
    "/records/{personal}/messages/m1",
    "/records/{personal}/messages/m8",
    "/records/{personal}/messages/none",
    "/records/cin_bank/transactions/?month=2026-01",
    "/records/cin_bank/transactions/b1",
    "/demo/remove",
    "/notifications",
    "/notifications/add/mail",
    "/notifications/add/ntfy",
    "/notifications/add/webhook",
    "/accounts",
    "/accounts/connect/imap",
    "/accounts/connect/caldav",
    "/accounts/connect/imap/other",
    "/accounts/{account}",
    "/accounts/{account}/choices",
    "/backups",
    "/backups/key",
    "/backups/schedule",
    "/backups/{backup}/drill",
    "/storage",
    "/connect",
    "/connect/doctor",
    "/connected",
    "/connected/give",
    "/connected/pause?client={client}",
    "/connected/resume?client={client}",
    "/connected/end?client={client}",
    "/connected/narrow?grant={grant}",
    "/ask/{ask}",
    "/device",
    "/login/confirm",
    "/activity",
    "/activity?client={client}",
    "/activity/reading?client={client}&since=2026-01-01T00:00:00Z&until=2126-01-01T00:00:00Z",
    "/activity/refused",
    "/owners",
    "/owners/owner/remove",
    "/second-factor",
    "/password",
    "/tokens",
    "/tokens/{token}/revoke",
    "/connections",
    "/collectors",
    "/collectors/{collector}/revoke",
    "/connections/{personal}",
    "/retention?connection={personal}",
    "/who?connection={personal}&stream=messages&key=m1",
    "/erase?of=stream&connection={personal}&stream=messages",
    "/erasures",
    "/erasures/{erasure}",
    "/grants/{grant}",
    "/grants/{grant}/limits",
    "/grants/{grant}/revoke",
    "/grants/{grant}/token",
    "/imports",
    "/imports/upload/{upload}",
    "/imports/waiting/{waiting}",
    "/imports/{run}",
)
"""With the values of `arrange`."""

OTHER_TESTS = {"", "login", "login/second", "oauth/authorize", "authorize", "set-up/<str:token>/"}
"""Routes of pages that need no owner, or a question of an app."""

NO_PAGES = {
    "docs/",  # draws itself with the library of the API's documentation
    "activity/export.<str:name>",
    "search/export",
    "files/<str:connection_id>/<path:blob_id>",
    "html/<str:connection_id>/<str:stream>",  # the frame of a mail
    "export/<str:connection_id>/<str:stream>",
    "mail/<str:connection_id>/<str:stream>",
    "admin/",
    "admin/<app_label>/",
    "admin/<url>",
    "sse",
}


def arrange(world: World, var: Path) -> dict[str, str]:
    """Store records, apps, exports and backups, and return the values of `PAGES`."""
    now = timezone.now()
    Connection.unscoped.filter(pk=PERSONAL).update(display_name=LONG)
    Connection.unscoped.filter(pk=BANK).update(display_name=STRANGE)
    Connection.unscoped.filter(pk=CHAT).update(demo=True)
    client = register_client(LONG, owner_id=world.owner_id, now=now)
    wanted = GrantRequest(connection_ids=[PERSONAL], streams=[StreamRequest(name="messages")])
    package, [grant] = issue([wanted], client=client, now=now)
    set_quotas(grant.pk, {("calls", "day"): 500}, now=now)
    token = create_token(package, resource="/v1", now=now)
    create_collector(LONG, [PERSONAL], now=now)
    send_test(add_channel("ntfy", url=f"https://127.0.0.1/{LONG}"), now=now)
    asked = world.get("/v1/streams/threads/records", token).error["ask_url"].rpartition("/")[2]
    backup = add_copy(world, name=LONG, folder=f"/{LONG}", drill_problem=LONG, drilled_at=MADE).pk
    schedule.save_key(world.owner_id, KEY.recipient, now=now)
    erasure = create_erasure(ErasureScope.STREAM, owner_id=world.owner_id, by="alice", now=now,
        connection_id="cin_work", stream="messages")  # fmt: skip
    values = {
        "person": _put_person(world),
        "client": client.pk,
        "grant": grant.pk,
        "source": str(grant.source_id),
        "token": AccessToken.unscoped.get(package=package).pk,
        "collector": Collector.unscoped.get().pk,
        "personal": PERSONAL,
        "ask": asked,
        "backup": str(backup),
        "erasure": erasure.pk,
    } | _arrange_imports(world, var)
    return values | {f"quoted_{name}": quote(value) for name, value in values.items()}


def _put_person(world: World) -> str:
    """Store a mail of a person, and return the person."""
    document = copy.deepcopy(MAIL)
    document["version"] = "1.1.0"
    document["streams"][0]["schema"]["properties"]["thread_id"]["x_pdpp_role"] = "thread"
    world.declare(document)
    world.put((PERSONAL, "messages", mail("m8", "2026-01-11T09:00:00Z", thread_id="t1",
        subject=LONG, from_name=HOSTILE, from_email="eva@example.org", body_text=LONG)))  # fmt: skip
    sum(people_index.derive_people())
    rows = PersonCount.unscoped.values_list("person", flat=True)
    return rows.get(identity="mail:eva@example.org")


def _arrange_imports(world: World, var: Path) -> dict[str, str]:
    """Store an upload, an export that waits for an answer, and a run that stopped."""
    now = timezone.now()
    upload = uploads.create_upload(
        uploads.root_of(var / "imports", world.owner_id),
        name="W" * 120 + ".txt",
        size=len(CHAT_EXPORT),
    )
    upload.path.write_bytes(CHAT_EXPORT)
    upload.save(phase="received")
    watched = var / f"{'W' * 120} <b>.txt"
    watched.write_bytes(CHAT_EXPORT)
    waiting = WaitingExport.unscoped.create(waiting_id="wex_1", owner_id=world.owner_id,
        path=str(watched), question="Is the day or the month first?", flag="--date-order",
        asked_at=now)  # fmt: skip
    run = ImportRun.unscoped.create(run_id="run_1", owner_id=world.owner_id, connection_id=BANK,
        kind="csv", label=f"{LONG}.csv", fingerprint="f", status="stopped", created=3, left_out=1,
        started_at=now, updated_at=now)  # fmt: skip
    ImportReceipt.unscoped.create(
        connection_id=BANK,
        run=run,
        item=1,
        file=LONG,
        place=LONG,
        code="bad_date",
        detail=HOSTILE,
    )
    return {"upload": upload.upload_id, "waiting": waiting.pk, "run": run.pk}
