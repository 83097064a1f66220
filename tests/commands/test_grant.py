"""``manage.py grant``: access from the command line."""

import json
import re
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from evidence.models.clients import Client
from evidence.models.grants import AccessToken, Grant
from tests.world import BANK, CHAT, PERSONAL, WORK, World

MESSAGES = "/v1/streams/messages/records"
TRANSACTIONS = "/v1/streams/transactions/records"


def run(*flags: str) -> str:
    printed = StringIO()
    call_command("grant", *flags, stdout=printed)
    return printed.getvalue()


def granted(*flags: str) -> Any:
    return json.loads(run("--client", "Codex", "--json", *flags))


def rest_token(*flags: str) -> str:
    (token,) = granted("--for", "rest", *flags)["tokens"]
    assert token["resource"] == "/v1"
    bearer: str = token["token"]
    return bearer


def test_whole_connection_is_granted_by_default(world: World) -> None:
    token = rest_token("--connection", PERSONAL)

    assert len(world.get(MESSAGES, token).ids) == 5
    assert world.get("/v1/streams/threads/records", token).ids == ["t1"]
    assert world.get(TRANSACTIONS, token).status == 404


def test_options_restrict_the_grant(world: World) -> None:
    token = rest_token(
        "--connection", PERSONAL, "--connection", WORK,
        "--stream", "messages:subject,received_at",
        "--since", "2026-01-12", "--until", "2026-02-01",
        "--record", "messages:m1", "--record", "messages:m2",
    )  # fmt: skip

    page = world.get(MESSAGES, token)

    assert [(each["connection_id"], each["id"]) for each in page.body["data"]] == [
        (WORK, "m1"),
        (PERSONAL, "m2"),
    ]
    assert set(page.body["data"][0]["data"]) == {"id", "subject", "received_at"}
    assert world.get("/v1/streams/threads/records", token).status == 403


def test_several_sources_form_one_package(world: World) -> None:
    made = granted("--connection", PERSONAL, "--connection", CHAT, "--connection", BANK)

    assert [grant["source"] for grant in made["grants"]] == ["account", "mail", "workspace"]
    rest = next(each["token"] for each in made["tokens"] if each["resource"] == "/v1")
    assert world.get(TRANSACTIONS, rest).status == 200
    assert world.get(MESSAGES, rest, connection_id=CHAT).ids == ["c2", "c1"]


def test_stream_can_be_qualified_by_source(world: World) -> None:
    made = granted(
        "--connection", PERSONAL, "--connection", CHAT,
        "--stream", "mail/messages:subject", "--stream", "workspace/messages",
    )  # fmt: skip

    by_source = {
        grant.source.connector_key: grant.streams[0]["fields"]
        for grant in Grant.unscoped.filter(package=made["package_id"])
    }
    assert by_source["mail"] == ["id", "subject"]
    assert len(by_source["workspace"]) == 5


def test_existing_client_is_reused(world: World) -> None:
    run("--client", "Bob", "--connection", BANK)

    assert Client.unscoped.filter(display_name="Bob").count() == 1


def test_output_contains_setup_and_revocation_commands(world: World) -> None:
    printed = run("--client", "Codex", "--connection", BANK, "--purpose", "Taxes")

    agent, program = dict.fromkeys(re.findall(r"pdpp_at_[A-Za-z0-9_-]+", printed))
    assert (
        "claude mcp add --transport http pdpp http://127.0.0.1:8000/mcp"
        f' --header "Authorization: Bearer {agent}"' in printed
    )
    assert f"export PDPP_MCP_TOKEN={agent}" in printed
    assert f'curl -H "Authorization: Bearer {program}"' in printed
    assert "Transactions: every field of all records, through “Bank account”." in printed
    assert world.get(TRANSACTIONS, program).status == 200
    (ending,) = re.findall(r"manage.py grant --revoke (pkg_\w+)", printed)
    run("--revoke", ending)
    assert world.get(TRANSACTIONS, program).error["code"] == "grant_revoked"


@pytest.mark.parametrize("number", [0, 1])
def test_grant_is_revoked_by_id(world: World, number: int) -> None:
    made = granted("--for", "rest", "--connection", BANK, "--connection", PERSONAL)
    token = made["tokens"][0]["token"]
    paths = [TRANSACTIONS, MESSAGES]

    run("--revoke", made["grants"][number]["grant_id"])

    assert world.get(paths[number], token).status == 404
    assert world.get(paths[1 - number], token).status == 200


@pytest.mark.parametrize("named", ["grt_none", "pkg_none", "nonsense", ""])
def test_revoking_an_unknown_id_fails(world: World, named: str) -> None:
    with pytest.raises(CommandError, match="--revoke"):
        run("--revoke", named)


def test_list_shows_clients_and_grants(world: World) -> None:
    bob = world.grants["bob"][0]
    run("--revoke", world.grants["charlie"][0].pk)

    printed = run("--list")
    listed = {each["grant_id"]: each for each in json.loads(run("--list", "--json"))}

    assert f"{bob.pk}  active, never ends\n  Bob reads messages of Mail\n" in printed
    assert listed[world.grants["charlie"][0].pk]["state"] == "revoked"
    assert listed[bob.pk]["connections"] == [PERSONAL, WORK]
    assert len(listed) == 5


def test_empty_list_is_reported(db: None) -> None:
    assert run("--list") == "No grants.\n"


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--client", "x"], "--connection is needed"),
        (["--connection", BANK], "--client is needed"),
        (["--client", " ", "--connection", BANK], "--client: The name must have 1"),
        (["--client", "x", "--connection", "cin_none"], "--connection: No such connection"),
        (["--client", "x", "--connection", BANK, "--stream", "messages"], "--stream: No stream"),
        (["--client", "x", "--connection", BANK, "--stream", "transactions:"], "--stream: Nothing"),
        (
            ["--client", "x", "--connection", BANK, "--connection", CHAT, "--stream", "messages"],
            "--stream: No stream of account is named",
        ),
        (
            ["--client", "x", "--connection", BANK, "--stream", "transactions:secret"],
            "--stream: The stream 'transactions' declares no field 'secret'",
        ),
        (["--client", "x", "--connection", PERSONAL, "--since", "2026-01-01"], "--since: The st"),
        (
            ["--client", "x", "--connection", BANK, "--since", "2026-02-01", "--until", "2026-01-01"],
            "--until: The time range ends before it starts",
        ),
        (["--client", "x", "--connection", BANK, "--since", "soon"], "--since: 'soon' is not a d"),
        (["--client", "x", "--connection", BANK, "--days", "0"], "--days: '0' is not a number"),
        (["--client", "x", "--connection", BANK, "--for", "all"], "--for"),
        (["--client", "x", "--connection", BANK, "--record", "messages:m1"], "--record: No stream"),
        (
            [
                "--client", "x", "--connection", PERSONAL, "--stream", "threads",
                "--record", "messages:m1",
            ],
            "--record: The stream of messages:m1 is not among those granted",
        ),
        (["--list", "--revoke", "x"], "--revoke"),
    ],
)  # fmt: skip
def test_invalid_option_is_refused_by_name(world: World, flags: list[str], complaint: str) -> None:
    before = Grant.unscoped.count(), AccessToken.unscoped.count(), Client.unscoped.count()

    with pytest.raises(CommandError, match=complaint):
        run(*flags)

    assert before == (
        Grant.unscoped.count(),
        AccessToken.unscoped.count(),
        Client.unscoped.count(),
    )
