"""Refresh tokens: each works once, or again for ten seconds, and what comes of a sign-in can be ended as a whole."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from evidence import limits
from evidence.access.grants import pause_client, resume_client, revoke_grant, revoke_package
from evidence.models.grants import AccessToken, Grant, Package
from owner.oauth.models import RefreshFamily
from tests.mcp_adapter.hosts import error_of
from tests.mcp_adapter.real import call, post
from tests.owner.consent.client import ORIGIN, Asking

AFTER_GRACE = limits.REFRESH_GRACE_SECONDS + 1


def test_refresh_rotates_the_token(asking: Asking) -> None:
    first = asking.tokens()

    second = asking.refresh(first["refresh_token"]).json()
    third = asking.refresh(second["refresh_token"]).json()

    assert len({each["refresh_token"] for each in (first, second, third)}) == 3
    assert (third["expires_in"], third["scope"]) == (600, "pdpp:read offline_access")
    assert third["grant_id"] == first["grant_id"]
    assert post(third["access_token"]).status_code == 200


def test_a_refreshed_token_lives_ten_minutes(asking: Asking) -> None:
    bearer = asking.tokens()["access_token"]

    with time_machine.travel(timezone.now() + timedelta(seconds=limits.ACCESS_SECONDS + 1)):
        assert post(bearer).status_code == 401


def test_a_paused_client_stays_signed_in_and_reads_nothing(asking: Asking) -> None:
    first = asking.tokens()
    pause_client(asking.client_id, now=timezone.now())

    second = asking.refresh(first["refresh_token"]).json()
    assert error_of(call(second["access_token"], "schema"))["code"] == "grant_paused"

    resume_client(asking.client_id)
    assert not call(second["access_token"], "schema").is_error


def in_seconds(seconds: float) -> time_machine.travel:
    return time_machine.travel(timezone.now() + timedelta(seconds=seconds))


def assert_ended(asking: Asking, refused: Any, *tokens: dict[str, Any]) -> None:
    """The refresh was refused, and no token of the sign-in works any more."""
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
    assert refused.json()["fresh_authorization_required"] is True
    for each in tokens:
        assert post(each["access_token"]).status_code == 401
        assert asking.refresh(each["refresh_token"]).json()["error"] == "invalid_grant"


def test_replayed_refresh_token_revokes_its_family(asking: Asking) -> None:
    first = asking.tokens()
    second = asking.refresh(first["refresh_token"]).json()

    with in_seconds(AFTER_GRACE):
        replayed = asking.refresh(first["refresh_token"])

        assert_ended(asking, replayed, first, second)


def test_refresh_token_yields_siblings_for_ten_seconds(asking: Asking) -> None:
    first = asking.tokens()
    # The clock stands still, as a slow machine would otherwise take more than the last second.
    nearly_over = time_machine.travel(
        timezone.now() + timedelta(seconds=limits.REFRESH_GRACE_SECONDS - 1), tick=False
    )
    one = asking.refresh(first["refresh_token"]).json()

    with nearly_over:
        other = asking.refresh(first["refresh_token"]).json()

        assert other["refresh_token"] != one["refresh_token"]
        assert (other["grant_id"], other["scope"]) == (one["grant_id"], one["scope"])
        for each in (first, one, other):
            assert post(each["access_token"]).status_code == 200
    with in_seconds(AFTER_GRACE):
        assert asking.refresh(other["refresh_token"]).status_code == 200, "the first answer is lost"


def test_refreshed_token_retires_its_siblings(asking: Asking) -> None:
    first = asking.tokens()
    one, other = (asking.refresh(first["refresh_token"]).json() for _ in range(2))
    with in_seconds(300):
        third = asking.refresh(one["refresh_token"]).json()
        with in_seconds(AFTER_GRACE):
            replayed = asking.refresh(other["refresh_token"])

            assert_ended(asking, replayed, one, other, third)


def test_siblings_that_refresh_at_the_same_moment_stay_signed_in(asking: Asking) -> None:
    first = asking.tokens()
    one, other = (asking.refresh(first["refresh_token"]).json() for _ in range(2))
    with in_seconds(300):
        for sibling in (one, other):
            assert post(asking.refresh(sibling["refresh_token"]).json()["access_token"]).is_success


def test_use_within_ten_seconds_does_not_prolong_them(asking: Asking) -> None:
    first = asking.tokens()
    asking.refresh(first["refresh_token"])
    with in_seconds(limits.REFRESH_GRACE_SECONDS - 1):
        other = asking.refresh(first["refresh_token"]).json()
    with in_seconds(AFTER_GRACE):
        assert_ended(asking, asking.refresh(first["refresh_token"]), first, other)


def test_ended_sign_in_has_no_grace(asking: Asking) -> None:
    first = asking.tokens()
    second = asking.refresh(first["refresh_token"]).json()
    ending = {"token": second["refresh_token"], "client_id": asking.client_id}
    asking.program.post("/oauth/revoke", ending)

    assert_ended(asking, asking.refresh(first["refresh_token"]), first, second)


def test_used_refresh_token_has_no_grace_for_another_client(asking: Asking) -> None:
    first = asking.tokens()
    second = asking.refresh(first["refresh_token"]).json()
    other = asking.register().json()["client_id"]

    stolen = asking.refresh(first["refresh_token"], client_id=other)

    assert stolen.json()["error"] == "invalid_grant"
    assert asking.refresh(second["refresh_token"]).status_code == 200


@pytest.mark.parametrize("ended", ["grant", "package"])
def test_revoked_access_cannot_be_refreshed(asking: Asking, ended: str) -> None:
    tokens = asking.tokens()
    now = timezone.now()
    grant = Grant.unscoped.get(grant_id=tokens["grant_id"])
    _ = (
        revoke_grant(grant.pk, now=now)
        if ended == "grant"
        else revoke_package(grant.package_id, now=now)
    )

    refused = asking.refresh(tokens["refresh_token"])

    assert refused.json()["error"] == "invalid_grant"
    assert refused.json()["fresh_authorization_required"] is True
    assert post(tokens["access_token"]).status_code == 401


def test_a_refresh_names_the_resource_that_was_allowed_or_none(asking: Asking) -> None:
    tokens = asking.tokens()

    assert asking.refresh(tokens["refresh_token"], resource=ORIGIN).json()["error"] == (
        "invalid_target"
    )


def test_unused_refresh_token_expires(asking: Asking) -> None:
    tokens = asking.tokens()

    with time_machine.travel(timezone.now() + timedelta(seconds=limits.REFRESH_SECONDS + 1)):
        refused = asking.refresh(tokens["refresh_token"])

    assert refused.json()["error"] == "invalid_grant"


SINGLE_USE = """[{"type": "https://pdpp.dev/data-access", "access_mode": "single_use",
    "source": {"kind": "connector", "id": "https://registry.example/connectors/mail"},
    "streams": [{"name": "messages"}]}]"""


def test_the_consent_page_says_how_long_a_single_use_lasts(asking: Asking) -> None:
    page = asking.ask(authorization_details=SINGLE_USE).content.decode()

    assert "for ten minutes from its first answer" in page


def test_access_for_a_single_use_cannot_be_refreshed(asking: Asking) -> None:
    tokens = asking.tokens(authorization_details=SINGLE_USE)

    assert "refresh_token" not in tokens
    assert tokens["expires_in"] == limits.UNREFRESHED_SECONDS
    assert post(tokens["access_token"]).status_code == 200


def test_a_client_ends_access_that_cannot_be_refreshed_and_that_once(asking: Asking) -> None:
    bearer = asking.tokens(authorization_details=SINGLE_USE)["access_token"]
    ending = {"token": bearer, "client_id": asking.client_id}

    asking.program.post("/oauth/revoke", ending)

    [ended] = AccessToken.unscoped.filter(revoked_at__isnull=False)
    assert post(bearer).status_code == 401
    with time_machine.travel(timezone.now() + timedelta(seconds=9)):
        asking.program.post("/oauth/revoke", ending)
    assert AccessToken.unscoped.get(pk=ended.pk).revoked_at == ended.revoked_at


def test_a_second_use_of_its_code_ends_access_that_cannot_be_refreshed(asking: Asking) -> None:
    code = asking.code(authorization_details=SINGLE_USE)
    bearer = asking.exchange(code).json()["access_token"]
    assert post(bearer).status_code == 200

    assert asking.exchange(code).json()["error"] == "invalid_grant"

    assert post(bearer).status_code == 401


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
def test_a_client_can_end_its_sign_in(asking: Asking, which: str) -> None:
    other, tokens = asking.tokens(), asking.tokens()

    ended = asking.program.post(
        "/oauth/revoke", {"token": tokens[which], "client_id": asking.client_id}
    )

    assert ended.status_code == 200
    assert post(tokens["access_token"]).status_code == 401
    assert asking.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert Package.unscoped.filter(client_id=asking.client_id, revoked_at=None).exists()
    assert post(other["access_token"]).status_code == 200, "of another sign-in"


def test_a_client_cannot_end_the_sign_in_of_another(asking: Asking) -> None:
    tokens = asking.tokens()
    other = asking.register().json()["client_id"]

    answer = asking.program.post(
        "/oauth/revoke", {"token": tokens["access_token"], "client_id": other}
    )

    assert answer.status_code == 200
    assert post(tokens["access_token"]).status_code == 200


def test_expired_families_are_deleted(asking: Asking) -> None:
    from owner.oauth.tokens import delete_expired_families

    asking.tokens()
    assert delete_expired_families(timezone.now()) == 0

    delete_expired_families(timezone.now() + timedelta(seconds=2 * limits.REFRESH_SECONDS + 1))

    assert not RefreshFamily.unscoped.exists()
