"""Credentials used twice at the same moment: a code ends its sign-in, a refresh token does not."""

from typing import Any

from tests.access.test_narrowed_meanwhile import overtake
from tests.mcp_adapter.real import post
from tests.owner.consent.client import Asking
from tests.world import World


def test_code_used_in_parallel_gives_no_access(committed: World) -> None:
    asking, answers = Asking.registered(), list[Any]()
    code = asking.code()
    overtake(
        lambda: answers.append(asking.exchange(code)), lambda: answers.append(asking.exchange(code))
    )
    assert [each.status_code for each in answers] == [200, 400]
    assert post(answers[0].json()["access_token"]).status_code == 401


def test_refresh_token_used_in_parallel_keeps_both_signed_in(committed: World) -> None:
    asking, answers = Asking.registered(), list[Any]()
    known = asking.tokens()["refresh_token"]
    overtake(
        lambda: answers.append(asking.refresh(known)), lambda: answers.append(asking.refresh(known))
    )
    assert [each.status_code for each in answers] == [200, 200]
    assert all(post(each.json()["access_token"]).is_success for each in answers)
    assert asking.refresh(answers[1].json()["refresh_token"]).status_code == 200
