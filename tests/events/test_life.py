"""The life cycle of a subscription, from creation to its end (contract 6)."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings
from standardwebhooks import WebhookVerificationError

from evidence import limits
from evidence.access.grants import revoke_package
from evidence.models.events import Event, Subscription
from tests.access.test_narrowed_meanwhile import overtake
from tests.events.receiving import (
    SUBSCRIPTIONS,
    Receiver,
    create_active_subscription,
    create_round,
    deliver_round,
    send_json,
)
from tests.world import World

HTTPS = "https://receiver.example/hook"


def test_subscription_is_pending_until_verified(world: World, receiver: Receiver) -> None:
    created = send_json(world, "POST", SUBSCRIPTIONS, callback_url=receiver.url)

    assert created.status == 201
    assert set(created.body) == {
        "subscription_id", "secret", "status", "callback_url", "created_at"
    }  # fmt: skip
    assert re.fullmatch("sub_[0-9a-f]{24}", created.body["subscription_id"])
    assert created.body["secret"].startswith("whsec_")
    assert created.body["status"] == "pending_verification"

    deliver_round()

    [verification] = receiver.received
    assert verification.verified(created.body["secret"]) == verification.envelope
    assert verification.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert re.fullmatch("evt_[0-9a-f]{24}", verification.envelope["id"])
    assert verification.headers["webhook-id"] == verification.envelope["id"]
    assert verification.envelope | {"id": "", "time": "", "data": {}} == {
        "specversion": "1.0",
        "pdppversion": "1",
        "id": "",
        "type": "pdpp.subscription.verify",
        "source": f"{SUBSCRIPTIONS}/{created.body['subscription_id']}",
        "time": "",
        "datacontenttype": "application/json",
        "data": {},
    }
    subscription = world.get(f"{SUBSCRIPTIONS}/{created.body['subscription_id']}").body
    assert subscription["status"] == "active"
    assert "secret" not in subscription


@pytest.mark.parametrize("body", [b"{}", b"", b'{"challenge": "another"}', b'{"challenge": 7}'])
def test_success_without_challenge_does_not_verify(
    world: World, receiver: Receiver, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver, "answer", lambda _message: (200, body))
    send_json(world, "POST", SUBSCRIPTIONS, callback_url=receiver.url)

    deliver_round()

    [row] = world.get(SUBSCRIPTIONS).body["data"]
    assert row["status"] == "pending_verification"


def test_signature_rejects_foreign_messages(world: World, receiver: Receiver) -> None:
    _, secret = create_active_subscription(world, receiver)
    [verification] = receiver.received
    forged = verification.content.replace(b"verify", b"verifY")

    with pytest.raises(WebhookVerificationError):
        type(verification)(verification.path, verification.headers, forged).verified(secret)


def test_subscription_shows_scope_of_its_grant(world: World, receiver: Receiver) -> None:
    path, _ = create_active_subscription(world, receiver)

    subscription = world.get(path).body

    assert subscription["scope"] == {
        "streams": ["messages"],
        "source": {"kind": "connector", "id": "https://registry.example/connectors/mail"},
    }
    assert subscription["grant_id"] == world.grants["bob"][0].grant_id
    assert subscription["authority_kind"] == "client_grant"
    assert subscription["client_id"] == world.packages["bob"].client_id
    assert world.get(SUBSCRIPTIONS).body == {"data": [subscription]}


def test_package_subscription_covers_all_its_grants(world: World, receiver: Receiver) -> None:
    path, _ = create_active_subscription(
        world, receiver, "dora", filters={"streams": ["threads", "messages"]}
    )

    subscription = world.get(path, "dora").body

    assert subscription["grant_id"] is None
    assert subscription["grant_ids"] == sorted(grant.grant_id for grant in world.grants["dora"])
    assert subscription["scope"] == {
        "streams": ["messages", "threads"],
        "filters": {"streams": ["messages", "threads"]},
    }


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE", "test"])
def test_subscription_of_another_client_is_not_found(
    world: World, receiver: Receiver, method: str
) -> None:
    path, _ = create_active_subscription(world, receiver)
    absent = f"{SUBSCRIPTIONS}/sub_{'0' * 24}"
    way, end = ("POST", "/test-event") if method == "test" else (method, "")

    theirs = send_json(world, way, path + end, "charlie")
    none = send_json(world, way, absent + end, "charlie")

    assert theirs.status == none.status == 404
    assert theirs.error | {"request_id": ""} == none.error | {"request_id": ""}
    assert world.get(SUBSCRIPTIONS, "charlie").body == {"data": []}
    assert world.get(path).status == 200


def test_owner_token_cannot_subscribe(world: World, receiver: Receiver) -> None:
    refused = send_json(world, "POST", SUBSCRIPTIONS, "alice", callback_url=receiver.url)

    assert (refused.status, refused.error["code"]) == (403, "grant_invalid")
    assert world.get(SUBSCRIPTIONS, "alice").error["code"] == "grant_invalid"


URLS: tuple[Any, ...] = (
    None, 7, "", "hook", "/hook", "ftp://receiver.example/", "http://receiver.example/",
    "http://127.0.0.1/", "http://localhost:8000/", "http://[::1]/", "https://",
    "https://user:word@receiver.example/", "https://receiver.example/#part",
    "https://receiver.example:99999/", "https://receiver.example:0/",
    "https://receiver.example/ a", "https://réceiver.example/", "https://a\\b.example/",
    "https://receiver.example/" + "a" * 2048, "javascript:alert(1)", "https://[::1/",
)  # fmt: skip


def test_invalid_callback_url_is_refused(world: World) -> None:
    for url in URLS:
        refused = send_json(world, "POST", SUBSCRIPTIONS, callback_url=url)

        assert (refused.status, refused.error.get("param")) == (400, "callback_url"), url
    assert not Subscription.unscoped.exists()


def test_plain_http_is_allowed_only_for_local_receivers(world: World, settings: Settings) -> None:
    settings.PDPP_LOCAL_RECEIVERS = True

    for url in ("http://127.0.0.1:9/", "http://localhost/hook", "http://[::1]:9/"):
        assert send_json(world, "POST", SUBSCRIPTIONS, callback_url=url).status == 201
    for url in ("http://receiver.example/", "http://127.0.0.2/", "http://localhost.example/"):
        assert send_json(world, "POST", SUBSCRIPTIONS, callback_url=url).status == 400


FILTERS: tuple[tuple[Any, str], ...] = (
    ({"streams": ["threads"]}, "filters.streams"),
    ({"streams": ["transactions"]}, "filters.streams"),
    ({"streams": ["nothing"]}, "filters.streams"),
    ({"streams": []}, "filters.streams"),
    ({"streams": "messages"}, "filters.streams"),
    ({"records": ["m1"]}, "filters"),
    (["messages"], "filters"),
)


def test_stream_outside_the_grant_is_refused(world: World) -> None:
    """Declared but not granted streams and unknown streams get the same error."""
    for filters, param in FILTERS:
        refused = send_json(world, "POST", SUBSCRIPTIONS, callback_url=HTTPS, filters=filters)

        assert (refused.status, refused.error["param"]) == (400, param), filters


def test_unknown_body_members_are_refused_by_name(world: World) -> None:
    refused = send_json(world, "POST", SUBSCRIPTIONS, callback_url=HTTPS, secret="mine")

    assert (refused.status, refused.error["param"]) == (400, "secret")


def test_subscriptions_per_client_are_limited(world: World) -> None:
    for _ in range(limits.SUBSCRIPTIONS_PER_PACKAGE):
        assert send_json(world, "POST", SUBSCRIPTIONS, callback_url=HTTPS).status == 201

    assert send_json(world, "POST", SUBSCRIPTIONS, callback_url=HTTPS).status == 413


def test_subscription_limit_applies_under_concurrency(
    committed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SUBSCRIPTIONS_PER_PACKAGE", 1)
    statuses = list[int]()

    def subscribe() -> None:
        statuses.append(send_json(committed, "POST", SUBSCRIPTIONS, callback_url=HTTPS).status)

    overtake(subscribe, subscribe)
    assert statuses == [201, 413]


def test_reenabled_subscription_is_verified_again(world: World, receiver: Receiver) -> None:
    path, _ = create_active_subscription(world, receiver)

    off = send_json(world, "PATCH", path, enabled=False).body["subscription"]
    assert (off["status"], off["disabled_reason"]) == ("disabled", "client_request")
    assert send_json(world, "POST", f"{path}/test-event").error["code"] == "invalid_state"

    on = send_json(world, "PATCH", path, enabled=True).body["subscription"]
    assert (on["status"], on["disabled_reason"]) == ("pending_verification", None)
    receiver.echoes, receiver.status = False, 204
    deliver_round()
    assert world.get(path).body["status"] == "pending_verification"

    first, second = receiver.of("pdpp.subscription.verify")
    assert first.data["challenge"] != second.data["challenge"]


def test_earlier_challenge_does_not_verify(world: World, receiver: Receiver) -> None:
    path, _ = create_active_subscription(world, receiver)
    send_json(world, "PATCH", path, enabled=False)
    send_json(world, "PATCH", path, enabled=True)
    send_json(world, "PATCH", path, enabled=False)
    send_json(world, "PATCH", path, enabled=True)

    deliver_round()

    assert len(receiver.of("pdpp.subscription.verify")) == 2
    assert world.get(path).body["status"] == "active"


def test_test_event_is_delivered(world: World, receiver: Receiver) -> None:
    path, secret = create_active_subscription(world, receiver)

    accepted = send_json(world, "POST", f"{path}/test-event")
    deliver_round()

    assert accepted.status == 202
    [arrived] = receiver.of("pdpp.subscription.test")
    assert arrived.verified(secret)["id"] == accepted.body["event_id"]


def test_test_event_waits_for_verification(world: World, receiver: Receiver) -> None:
    receiver.echoes = False
    created = send_json(world, "POST", SUBSCRIPTIONS, callback_url=receiver.url)
    accepted = send_json(
        world, "POST", f"{SUBSCRIPTIONS}/{created.body['subscription_id']}/test-event"
    )

    deliver_round()

    assert accepted.status == 202
    assert receiver.of("pdpp.subscription.test") == []


def test_repeated_requests_queue_one_event(world: World, receiver: Receiver) -> None:
    path, _ = create_active_subscription(world, receiver)
    for _ in range(3):
        send_json(world, "PATCH", path, enabled=False)
        send_json(world, "PATCH", path, enabled=True)
    tests = {send_json(world, "POST", f"{path}/test-event").body["event_id"] for _ in range(3)}

    assert len(tests) == 1
    assert Event.unscoped.filter(type=Event.Type.TEST).count() == 1
    assert Event.unscoped.filter(type=Event.Type.VERIFY).count() == 2  # the first is answered


def test_rotated_secret_is_shown_once_and_old_one_signs_for_a_day(
    world: World, receiver: Receiver
) -> None:
    path, old = create_active_subscription(world, receiver)

    new = send_json(world, "PATCH", path, rotate_secret=True).body["secret"]

    assert new != old
    send_json(world, "POST", f"{path}/test-event")
    deliver_round()
    [arrived] = receiver.of("pdpp.subscription.test")
    assert arrived.verified(old) == arrived.verified(new)
    Subscription.unscoped.update(old_secret_until=timezone.now() - timedelta(seconds=1))
    send_json(world, "POST", f"{path}/test-event")
    deliver_round()
    arrived = receiver.of("pdpp.subscription.test")[-1]
    assert arrived.verified(new)
    with pytest.raises(WebhookVerificationError):
        arrived.verified(old)


def test_secrets_are_stored_encrypted(world: World) -> None:
    created = send_json(world, "POST", SUBSCRIPTIONS, callback_url=HTTPS).body

    stored = bytes(Subscription.unscoped.get().secret)

    assert created["secret"].encode() not in stored
    assert created["secret"].removeprefix("whsec_").encode() not in stored


def test_secret_of_another_subscription_cannot_be_decrypted(
    world: World, receiver: Receiver
) -> None:
    send_json(world, "POST", SUBSCRIPTIONS, callback_url=HTTPS)
    foreign_secret = Subscription.unscoped.get().secret
    path, _ = create_active_subscription(world, receiver, "charlie")
    Subscription.unscoped.filter(pk=path.rpartition("/")[2]).update(secret=foreign_secret)
    send_json(world, "POST", f"{path}/test-event", "charlie")

    deliver_round()

    assert receiver.of("pdpp.subscription.test") == []
    subscription = world.get(path, "charlie").body
    assert (subscription["status"], subscription["disabled_reason"]) == (
        "disabled_failure",
        "secret_unreadable",
    )


def test_deleting_subscription_deletes_its_events(world: World, receiver: Receiver) -> None:
    path, _ = create_active_subscription(world, receiver)
    send_json(world, "POST", f"{path}/test-event")

    assert send_json(world, "DELETE", path).status == 204

    assert send_json(world, "DELETE", path).status == 404
    deliver_round()
    assert receiver.of("pdpp.subscription.test") == []
    assert not Event.unscoped.exists()


def test_subscription_ends_with_grant_and_notifies_once(world: World, receiver: Receiver) -> None:
    path, secret = create_active_subscription(world, receiver)
    revoke_package(world.packages["bob"].package_id, now=timezone.now())

    deliver_round()
    deliver_round()

    [ended] = receiver.of("pdpp.grant.revoked")
    assert ended.verified(secret)["data"] == {
        "subscription_id": path.rpartition("/")[2],
        "reason": "grant_revoked",
    }
    row = Subscription.unscoped.get()
    assert (row.status, row.disabled_reason) == ("disabled_revoked", "grant_revoked")


def test_unverified_receiver_is_not_notified_of_the_end(world: World, receiver: Receiver) -> None:
    receiver.echoes = False
    send_json(world, "POST", SUBSCRIPTIONS, callback_url=receiver.url)
    deliver_round()
    revoke_package(world.packages["bob"].package_id, now=timezone.now())

    deliver_round()

    assert receiver.of("pdpp.grant.revoked") == []
    assert Subscription.unscoped.get().status == "disabled_revoked"


def test_capability_document_matches_limits(world: World) -> None:
    metadata = world.get("/.well-known/oauth-protected-resource", None).body

    block = metadata["capabilities"]["client_event_subscriptions"]

    assert block["endpoint"] == SUBSCRIPTIONS
    assert block["verification"] == "post_with_challenge_echo"
    assert block["delivery"]["retry_schedule_seconds"] == [30, 120, 600, 3600, 21600, 86400]
    assert block["delivery"]["max_attempts"] == 7
    assert set(block["event_types"]) == {
        "pdpp.subscription.verify", "pdpp.subscription.test", "pdpp.records.changed",
        "pdpp.grant.revoked",
    }  # fmt: skip


def test_no_job_is_created_without_subscriptions(world: World) -> None:
    assert create_round() == []
