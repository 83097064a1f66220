"""A subscription from the request to its end (contract 6)."""

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
from tests.events.receiving import SUBSCRIPTIONS, Receiver, ask, look, subscribed, work
from tests.world import World

HTTPS = "https://receiver.example/hook"


def test_a_subscription_waits_until_its_receiver_has_proved_itself(
    world: World, receiver: Receiver
) -> None:
    made = ask(world, "POST", SUBSCRIPTIONS, callback_url=receiver.url)

    assert made.status == 201
    assert set(made.body) == {
        "subscription_id", "secret", "status", "callback_url", "created_at"
    }  # fmt: skip
    assert re.fullmatch("sub_[0-9a-f]{24}", made.body["subscription_id"])
    assert made.body["secret"].startswith("whsec_")
    assert made.body["status"] == "pending_verification"

    work()

    [asked] = receiver.received
    assert asked.verified(made.body["secret"]) == asked.envelope
    assert asked.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert re.fullmatch("evt_[0-9a-f]{24}", asked.envelope["id"])
    assert asked.headers["webhook-id"] == asked.envelope["id"]
    assert asked.envelope | {"id": "", "time": "", "data": {}} == {
        "specversion": "1.0",
        "pdppversion": "1",
        "id": "",
        "type": "pdpp.subscription.verify",
        "source": f"{SUBSCRIPTIONS}/{made.body['subscription_id']}",
        "time": "",
        "datacontenttype": "application/json",
        "data": {},
    }
    shown = world.get(f"{SUBSCRIPTIONS}/{made.body['subscription_id']}").body
    assert shown["status"] == "active"
    assert "secret" not in shown


@pytest.mark.parametrize("body", [b"{}", b"", b'{"challenge": "another"}', b'{"challenge": 7}'])
def test_a_success_without_the_challenge_proves_nothing(
    world: World, receiver: Receiver, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver, "answer", lambda _message: (200, body))
    ask(world, "POST", SUBSCRIPTIONS, callback_url=receiver.url)

    work()

    [row] = world.get(SUBSCRIPTIONS).body["data"]
    assert row["status"] == "pending_verification"


def test_what_others_sent_is_told_from_what_we_sent(world: World, receiver: Receiver) -> None:
    _, secret = subscribed(world, receiver)
    [asked] = receiver.received
    forged = asked.content.replace(b"verify", b"verifY")

    with pytest.raises(WebhookVerificationError):
        type(asked)(asked.path, asked.headers, forged).verified(secret)


def test_it_is_shown_as_far_as_the_grant_goes(world: World, receiver: Receiver) -> None:
    path, _ = subscribed(world, receiver)

    shown = world.get(path).body

    assert shown["scope"] == {
        "streams": ["messages"],
        "source": {"kind": "connector", "id": "https://registry.example/connectors/mail"},
    }
    assert shown["grant_id"] == world.grants["bob"][0].grant_id
    assert shown["authority_kind"] == "client_grant"
    assert shown["client_id"] == world.packages["bob"].client_id
    assert world.get(SUBSCRIPTIONS).body == {"data": [shown]}


def test_a_package_subscribes_to_all_that_it_holds(world: World, receiver: Receiver) -> None:
    path, _ = subscribed(world, receiver, "dora", filters={"streams": ["threads", "messages"]})

    shown = world.get(path, "dora").body

    assert shown["grant_id"] is None
    assert shown["grant_ids"] == sorted(grant.grant_id for grant in world.grants["dora"])
    assert shown["scope"] == {
        "streams": ["messages", "threads"],
        "filters": {"streams": ["messages", "threads"]},
    }


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE", "test"])
def test_somebody_elses_looks_like_none(world: World, receiver: Receiver, method: str) -> None:
    path, _ = subscribed(world, receiver)
    absent = f"{SUBSCRIPTIONS}/sub_{'0' * 24}"
    way, end = ("POST", "/test-event") if method == "test" else (method, "")

    theirs = ask(world, way, path + end, "charlie")
    none = ask(world, way, absent + end, "charlie")

    assert theirs.status == none.status == 404
    assert theirs.error | {"request_id": ""} == none.error | {"request_id": ""}
    assert world.get(SUBSCRIPTIONS, "charlie").body == {"data": []}
    assert world.get(path).status == 200


def test_the_owners_token_has_no_grant_to_follow(world: World, receiver: Receiver) -> None:
    refused = ask(world, "POST", SUBSCRIPTIONS, "alice", callback_url=receiver.url)

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


def test_an_address_of_another_form_is_refused(world: World) -> None:
    for url in URLS:
        refused = ask(world, "POST", SUBSCRIPTIONS, callback_url=url)

        assert (refused.status, refused.error.get("param")) == (400, "callback_url"), url
    assert not Subscription.unscoped.exists()


def test_plain_http_is_for_this_machine_where_the_operator_lets_it(
    world: World, settings: Settings
) -> None:
    settings.PDPP_LOCAL_RECEIVERS = True

    for url in ("http://127.0.0.1:9/", "http://localhost/hook", "http://[::1]:9/"):
        assert ask(world, "POST", SUBSCRIPTIONS, callback_url=url).status == 201
    for url in ("http://receiver.example/", "http://127.0.0.2/", "http://localhost.example/"):
        assert ask(world, "POST", SUBSCRIPTIONS, callback_url=url).status == 400


FILTERS: tuple[tuple[Any, str], ...] = (
    ({"streams": ["threads"]}, "filters.streams"),
    ({"streams": ["transactions"]}, "filters.streams"),
    ({"streams": ["nothing"]}, "filters.streams"),
    ({"streams": []}, "filters.streams"),
    ({"streams": "messages"}, "filters.streams"),
    ({"records": ["m1"]}, "filters"),
    (["messages"], "filters"),
)


def test_only_streams_of_the_grant_can_be_asked_for(world: World) -> None:
    """A stream that the declaration has and one that nothing has are refused alike."""
    for filters, param in FILTERS:
        refused = ask(world, "POST", SUBSCRIPTIONS, callback_url=HTTPS, filters=filters)

        assert (refused.status, refused.error["param"]) == (400, param), filters


def test_unknown_members_are_refused_by_name(world: World) -> None:
    refused = ask(world, "POST", SUBSCRIPTIONS, callback_url=HTTPS, secret="mine")

    assert (refused.status, refused.error["param"]) == (400, "secret")


def test_a_client_holds_a_bounded_number(world: World) -> None:
    for _ in range(limits.SUBSCRIPTIONS_PER_PACKAGE):
        assert ask(world, "POST", SUBSCRIPTIONS, callback_url=HTTPS).status == 201

    assert ask(world, "POST", SUBSCRIPTIONS, callback_url=HTTPS).status == 413


def test_a_client_holds_a_bounded_number_however_many_at_once(
    committed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SUBSCRIPTIONS_PER_PACKAGE", 1)
    statuses = list[int]()

    def subscribe() -> None:
        statuses.append(ask(committed, "POST", SUBSCRIPTIONS, callback_url=HTTPS).status)

    overtake(subscribe, subscribe)
    assert statuses == [201, 413]


def test_switched_on_again_it_has_to_be_verified_again(world: World, receiver: Receiver) -> None:
    path, _ = subscribed(world, receiver)

    off = ask(world, "PATCH", path, enabled=False).body["subscription"]
    assert (off["status"], off["disabled_reason"]) == ("disabled", "client_request")
    assert ask(world, "POST", f"{path}/test-event").error["code"] == "invalid_state"

    on = ask(world, "PATCH", path, enabled=True).body["subscription"]
    assert (on["status"], on["disabled_reason"]) == ("pending_verification", None)
    receiver.echoes, receiver.status = False, 204
    work()
    assert world.get(path).body["status"] == "pending_verification"

    first, second = receiver.of("pdpp.subscription.verify")
    assert first.data["challenge"] != second.data["challenge"]


def test_the_answer_to_an_earlier_question_does_not_verify(
    world: World, receiver: Receiver
) -> None:
    path, _ = subscribed(world, receiver)
    ask(world, "PATCH", path, enabled=False)
    ask(world, "PATCH", path, enabled=True)
    ask(world, "PATCH", path, enabled=False)
    ask(world, "PATCH", path, enabled=True)

    work()

    assert len(receiver.of("pdpp.subscription.verify")) == 2
    assert world.get(path).body["status"] == "active"


def test_a_test_event_arrives(world: World, receiver: Receiver) -> None:
    path, secret = subscribed(world, receiver)

    accepted = ask(world, "POST", f"{path}/test-event")
    work()

    assert accepted.status == 202
    [arrived] = receiver.of("pdpp.subscription.test")
    assert arrived.verified(secret)["id"] == accepted.body["event_id"]


def test_a_test_event_waits_for_the_verification(world: World, receiver: Receiver) -> None:
    receiver.echoes = False
    made = ask(world, "POST", SUBSCRIPTIONS, callback_url=receiver.url)
    accepted = ask(world, "POST", f"{SUBSCRIPTIONS}/{made.body['subscription_id']}/test-event")

    work()

    assert accepted.status == 202
    assert receiver.of("pdpp.subscription.test") == []


def test_whoever_asks_again_and_again_fills_no_table(world: World, receiver: Receiver) -> None:
    path, _ = subscribed(world, receiver)
    for _ in range(3):
        ask(world, "PATCH", path, enabled=False)
        ask(world, "PATCH", path, enabled=True)
    tests = {ask(world, "POST", f"{path}/test-event").body["event_id"] for _ in range(3)}

    assert len(tests) == 1
    assert Event.unscoped.filter(type=Event.Type.TEST).count() == 1
    assert Event.unscoped.filter(type=Event.Type.VERIFY).count() == 2  # the first is answered


def test_a_new_secret_is_shown_once_and_the_old_one_is_good_for_a_day(
    world: World, receiver: Receiver
) -> None:
    path, old = subscribed(world, receiver)

    new = ask(world, "PATCH", path, rotate_secret=True).body["secret"]

    assert new != old
    ask(world, "POST", f"{path}/test-event")
    work()
    [arrived] = receiver.of("pdpp.subscription.test")
    assert arrived.verified(old) == arrived.verified(new)
    Subscription.unscoped.update(old_secret_until=timezone.now() - timedelta(seconds=1))
    ask(world, "POST", f"{path}/test-event")
    work()
    arrived = receiver.of("pdpp.subscription.test")[-1]
    assert arrived.verified(new)
    with pytest.raises(WebhookVerificationError):
        arrived.verified(old)


def test_secrets_are_kept_sealed(world: World) -> None:
    made = ask(world, "POST", SUBSCRIPTIONS, callback_url=HTTPS).body

    kept = bytes(Subscription.unscoped.get().secret)

    assert made["secret"].encode() not in kept
    assert made["secret"].removeprefix("whsec_").encode() not in kept


def test_a_secret_is_of_no_use_to_another_subscription(world: World, receiver: Receiver) -> None:
    ask(world, "POST", SUBSCRIPTIONS, callback_url=HTTPS)
    stolen = Subscription.unscoped.get().secret
    path, _ = subscribed(world, receiver, "charlie")
    Subscription.unscoped.filter(pk=path.rpartition("/")[2]).update(secret=stolen)
    ask(world, "POST", f"{path}/test-event", "charlie")

    work()

    assert receiver.of("pdpp.subscription.test") == []
    shown = world.get(path, "charlie").body
    assert (shown["status"], shown["disabled_reason"]) == ("disabled_failure", "secret_unreadable")


def test_deleted_it_is_gone_with_all_that_was_on_its_way(world: World, receiver: Receiver) -> None:
    path, _ = subscribed(world, receiver)
    ask(world, "POST", f"{path}/test-event")

    assert ask(world, "DELETE", path).status == 204

    assert ask(world, "DELETE", path).status == 404
    work()
    assert receiver.of("pdpp.subscription.test") == []
    assert not Event.unscoped.exists()


def test_with_the_grant_it_ends_and_says_so_once(world: World, receiver: Receiver) -> None:
    path, secret = subscribed(world, receiver)
    revoke_package(world.packages["bob"].package_id, now=timezone.now())

    work()
    work()

    [ended] = receiver.of("pdpp.grant.revoked")
    assert ended.verified(secret)["data"] == {
        "subscription_id": path.rpartition("/")[2],
        "reason": "grant_revoked",
    }
    row = Subscription.unscoped.get()
    assert (row.status, row.disabled_reason) == ("disabled_revoked", "grant_revoked")


def test_a_receiver_that_was_never_verified_is_not_told_of_the_end(
    world: World, receiver: Receiver
) -> None:
    receiver.echoes = False
    ask(world, "POST", SUBSCRIPTIONS, callback_url=receiver.url)
    work()
    revoke_package(world.packages["bob"].package_id, now=timezone.now())

    work()

    assert receiver.of("pdpp.grant.revoked") == []
    assert Subscription.unscoped.get().status == "disabled_revoked"


def test_what_is_promised_is_advertised(world: World) -> None:
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


def test_nothing_is_asked_of_workers_while_nobody_subscribes(world: World) -> None:
    assert look() == []
