"""Connect the account of a source: check what the owner entered, and create its connection.

The servers of well-known providers are known by the domain of an address.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from django.db import transaction
from dns import resolver
from dns.exception import DNSException

from evidence import limits
from evidence.errors import InvalidRequest
from evidence.models.connections import Connection
from evidence.write.connections import create_connection, get_connection, list_connections
from evidence.write.declaration_store import declare
from importers.core.source import Container, FieldKind, InstalledSource, SourceField
from importers.core.source_http import parse_url
from importers.core.source_process import AccountAccess, open_source
from importers.models import SourceAccount
from importers.registry import find_source
from importers.sources import account_store, oauth
from importers.sources.account_store import DAILY_LIMIT

LOOKUP_SECONDS = 5.0
MAX_CHARS = 1_000
MAX_CONTAINERS = 2_000
_HOST = re.compile(r"(?!-)[a-z0-9_.-]{1,253}|\[?[0-9a-f:]+\]?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider's servers.

    ``refusal`` and ``dav_refusal``: why mail, or calendars and contacts, cannot work.
    ``daily_megabytes``: below what the provider lets an account download on a day, if it says.
    """

    host: str
    refusal: str = ""
    daily_megabytes: int | None = None
    caldav: str = ""
    carddav: str = ""
    dav_refusal: str = ""


@cache
def _providers() -> dict[str, Provider]:
    """Return the providers of ``providers.toml`` by domain."""
    path = Path(__file__).with_name("providers.toml")
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["providers"]
    return {domain: Provider(**each) for each in entries for domain in each.pop("domains")}


def find_provider(address: str) -> Provider | None:
    """Return the provider of an address, without asking the network."""
    return _providers().get(address.rpartition("@")[2].strip().lower())


def find_server(address: str, service: str) -> str:
    """Return the server that the domain of an address names for a service (RFC 6764), or none.

    Anybody between here and the name server could have written it: the owner must confirm it.
    """
    domain = address.rpartition("@")[2].strip().lower()
    if "@" not in address or not domain.isascii():
        return ""
    try:
        found = resolver.resolve(f"_{service}s._tcp.{domain}", "SRV", lifetime=LOOKUP_SECONDS)
        best = min(found, key=lambda each: (each.priority, -each.weight))
    except (DNSException, OSError, ValueError):
        return ""
    host = str(best.target).rstrip(".")
    if not host:  # the domain says that it has none
        return ""
    return host if best.port == 443 else f"{host}:{best.port}"


@dataclass(frozen=True, slots=True)
class AccountDetails:
    """What the owner entered for a source, checked."""

    source: InstalledSource
    settings: Mapping[str, Any]
    credential: Mapping[str, str]


def parse_details(source: InstalledSource, values: Mapping[str, str]) -> AccountDetails:
    """Check the values of a form or command line. Raises ``InvalidRequest`` naming the field.

    An empty host is that of the provider, if the address has a well-known one. ``hosts`` are others
    that may get the credential.
    """
    settings: dict[str, Any] = {"allows_private": bool(values.get("allows_private"))}
    credential: dict[str, str] = {}
    provider = find_provider(values.get("user", ""))
    for each in source.fields:
        value = values.get(each.name, "")
        value = value.strip() if each.kind is not FieldKind.SECRET else value
        value = value or each.default
        if each.is_optional and not value:
            continue
        if each.kind is FieldKind.HOST and not value and provider is not None:
            if provider.refusal:
                raise InvalidRequest(message=provider.refusal, param=each.name)
            value = provider.host
        if each.kind is FieldKind.URL and source.discovery:
            value = _find_address(source, each, value, values.get("user", ""))
        if not value or len(value) > MAX_CHARS or not value.isprintable():
            raise InvalidRequest(message=f"Enter the {each.label.lower()}.", param=each.name)
        if each.kind.is_url:
            value, settings["host"], settings["port"] = _parse_url(source, each.name, value)
        if each.kind.is_secret:
            credential[each.name] = value
        else:
            settings[each.name] = _parse_setting(each.name, each.kind, value)
    if hosts := values.get("hosts", "").split():
        settings["hosts"] = [_parse_confirmed(each) for each in hosts]
    return AccountDetails(source, settings, credential)


def parse_sign_in(
    source: InstalledSource, provider_name: str, values: Mapping[str, str]
) -> AccountDetails:
    """Check the values for an account that signs in with OAuth, as ``parse_details`` does.

    The credential has the client secret until the owner has signed in.
    """
    provider = oauth.PROVIDERS[provider_name]
    fields = tuple(each for each in source.fields if each.kind is not FieldKind.SECRET)
    host = {"host": provider.host} if provider.host else {}
    details = parse_details(replace(source, fields=fields), {**values, **host})
    settings = {"provider": provider_name, "parameters": dict(provider.parameters)}
    for name in ("client_id", "scope", "authorization_url", "token_url"):
        value = getattr(provider, name, "") or values.get(name, "").strip()
        if not value or len(value) > MAX_CHARS or not value.isprintable():
            raise InvalidRequest(message=f"Enter the {name.replace('_', ' ')}.", param=name)
        if name.endswith("_url"):
            value = _parse_url(source, name, value)[0]
        settings[name] = value
    secret = values.get("client_secret", "").strip()
    return AccountDetails(
        source,
        {**details.settings, oauth.SETTING: settings},
        {"client_secret": secret} if secret else {},
    )


def _parse_confirmed(value: str) -> tuple[str, int]:
    """Return a host that the owner confirmed, such as ``dav.example.org`` or with a port."""
    try:
        _, origin = parse_url(f"https://{value}")
    except ValueError:
        raise InvalidRequest(
            message=f"hosts takes names such as dav.example.org; got {value!r}.", param="hosts"
        ) from None
    return origin.host, origin.port


def _parse_setting(name: str, kind: FieldKind, value: str) -> Any:
    if kind is FieldKind.PORT:
        if not value.isascii() or not value.isdigit() or not 0 < int(value) < 65536:
            raise InvalidRequest(message=f"{name} takes a number; got {value!r}.", param=name)
        return int(value)
    if kind is FieldKind.HOST and not _HOST.fullmatch(value):
        raise InvalidRequest(
            message=f"{name} takes a name such as imap.example.org; got {value!r}.", param=name
        )
    return value.lower() if kind is FieldKind.HOST else value


def _find_address(source: InstalledSource, field: SourceField, value: str, user: str) -> str:
    """Return the address of a server, which may be a name only, or that of the provider.

    What an address leads to otherwise is a suggestion: the credential goes to no other server than
    the owner confirmed. Raises ``InvalidRequest``.
    """
    if value:
        return value if "://" in value else f"https://{value}"
    provider = find_provider(user)
    if provider is not None and provider.dav_refusal:
        raise InvalidRequest(message=provider.dav_refusal, param=field.name)
    if provider is not None and (host := getattr(provider, source.discovery)):
        return f"https://{host}"
    suggestion = find_server(user, source.discovery)
    message = f"Enter the {field.label.lower()}."
    if suggestion:
        message += f" Your address leads to {suggestion}; enter it if you know it."
    raise InvalidRequest(message=message, param=field.name)


def _parse_url(source: InstalledSource, name: str, value: str) -> tuple[str, str, int]:
    """Return the address, and its host and port. A password needs encryption."""
    has_password = any(each.kind is FieldKind.SECRET for each in source.fields)
    with suppress(ValueError):
        url, origin = parse_url(value)
        if origin.scheme == "https" or not has_password:
            return url, origin.host, origin.port
    message = f"{name} takes an address that begins with https://."
    raise InvalidRequest(message=message, param=name)


def list_containers(details: AccountDetails, *, now: datetime) -> list[Container]:
    """Sign in, and return what the owner can choose. Raises ``SourceError``."""
    access = AccountAccess(
        settings=details.settings,
        credential=oauth.sandbox_credential(details.settings, details.credential),
        now=now.isoformat(),
    )
    with open_source(details.source, access, is_stopped=lambda: False) as session:
        return session.containers()[:MAX_CONTAINERS]


def candidates(source: InstalledSource, *, owner_id: str) -> Sequence[Connection]:
    """Return the connections that an account can keep up to date: those without one."""
    taken = {account.connection_id for account in account_store.list_accounts(owner_id)}
    rows = list_connections(owner_id, connector_id=source.connector_key)
    return [
        row
        for row in rows
        if row.connection_id not in taken
        and row.status != Connection.Status.REVOKED
        and not row.demo
    ]


@transaction.atomic
def connect_account(
    details: AccountDetails,
    *,
    containers: Sequence[str],
    found: Sequence[Container] = (),
    connection_id: str | None,
    is_mirror: bool,
    daily_megabytes: int | None = None,
    owner_id: str,
    now: datetime,
) -> SourceAccount:
    """Create an account, in an existing connection or a new one. Its first run is due now.

    Raises ``InvalidRequest`` for a connection of another source, or one that has an account.
    """
    source = details.source
    if is_mirror and not source.has_deletions:
        message = f"This account cannot be mirrored: {source.title} reports no deletions."
        raise InvalidRequest(message=message, param="is_mirror")
    choices = _choices(source, containers, daily_megabytes, found)
    declare(source.declaration, owner_id=owner_id, now=now)
    if connection_id is None:
        connection_id = _create_connection(details, owner_id=owner_id, now=now)
    elif connection_id not in {row.connection_id for row in candidates(source, owner_id=owner_id)}:
        raise InvalidRequest(
            message="This connection belongs to another source, or has an account already.",
            param="connection",
        )
    return account_store.create_account(
        connection_id,
        source_name=source.name,
        settings={**details.settings, **choices},
        credential=details.credential,
        is_mirror=is_mirror,
        now=now,
    )


def _choices(
    source: InstalledSource,
    containers: Sequence[str],
    daily_megabytes: int | None,
    found: Sequence[Container],
) -> dict[str, Any]:
    """Return the settings of what is read. ``titles`` are for pages, where they are not names."""
    if not containers:
        title = source.container_title.lower() or "entries"
        raise InvalidRequest(message=f"Choose one or more {title}.", param="containers")
    if daily_megabytes is not None and daily_megabytes < 1:
        message = f"{DAILY_LIMIT} takes a number from 1; got {daily_megabytes}."
        raise InvalidRequest(message=message, param=DAILY_LIMIT)
    titles = {
        each.name: each.title
        for each in found
        if each.name in containers and each.name != each.title
    }
    return {"containers": list(containers), "titles": titles, DAILY_LIMIT: daily_megabytes}


def suggested_limit(settings: Mapping[str, Any]) -> int | None:
    """Return the daily limit in megabytes that suits the provider, or None for no limit."""
    provider = find_provider(str(settings.get("user", "")))
    return None if provider is None else provider.daily_megabytes


def change_account(
    account: SourceAccount,
    source: InstalledSource,
    *,
    found: Sequence[Container],
    containers: Sequence[str],
    is_mirror: bool,
    daily_megabytes: int | None,
    now: datetime,
) -> None:
    """Change what is read. ``found`` is what the account has now. Raises ``InvalidRequest``.

    The records of a container that is no longer chosen stay.
    """
    choices = _choices(source, containers, daily_megabytes, found)
    titles = {each.name: each.title for each in found}
    kept = {*containers, *(titles.get(name, name) for name in containers)}
    removed = {*account.settings["containers"]} - kept
    account_store.change_settings(
        account,
        settings={**account.settings, **choices},
        is_mirror=is_mirror,
        removed=removed | ({titles.get(name, name) for name in removed} - kept),
        now=now,
    )


def companion_details(details: AccountDetails) -> AccountDetails | None:
    """Return the details of the source that reads what else the account has, if there is one.

    Raises ``InvalidRequest``.
    """
    source = find_source(details.source.companion)
    if source is None:
        return None
    values = {**_as_text(details.settings), **details.credential}
    if not details.settings["allows_private"]:
        del values["allows_private"]
    confirmed = details.settings.get("hosts", ())
    values["hosts"] = " ".join(f"{host}:{port}" for host, port in confirmed)
    provider = find_provider(values.get("user", ""))
    if provider is not None and getattr(provider, source.discovery):
        del values["url"]
    return parse_details(source, values)


def confirm_host(account: SourceAccount, host: str, *, now: datetime) -> None:
    """Let a host to which the account's server led get the credential too. Raises ``InvalidRequest``."""
    confirmed = [*account.settings.get("hosts", ()), list(_parse_confirmed(host))]
    account_store.change_settings(
        account,
        settings={**account.settings, "hosts": confirmed},
        is_mirror=account.is_mirror,
        removed=(),
        now=now,
    )


def account_details(account: SourceAccount, source: InstalledSource) -> AccountDetails:
    """Return what the owner entered. Raises ``SealedError``, and ``SourceError`` of a sign-in."""
    return AccountDetails(source, account.settings, oauth.current_credential(account))


def _create_connection(details: AccountDetails, *, owner_id: str, now: datetime) -> str:
    names = (details.settings.get("user"), details.settings.get("host"), details.source.label)
    name = str(next(filter(None, names)))[: limits.LABEL_MAX_CHARS]
    return create_connection(
        details.source.connector_key,
        display_name=name,
        owner_id=owner_id,
        identities=[name] if "@" in name else [],
        now=now,
    )


def replace_password(
    account: SourceAccount, source: InstalledSource, values: Mapping[str, str], *, now: datetime
) -> None:
    """Store another credential for the same account. Raises ``InvalidRequest``."""
    if oauth.SETTING in account.settings:
        raise InvalidRequest(message="This account has no password. Sign in again.")
    get_connection(account.connection_id, owner_id=account.connection.owner_id)
    details = parse_details(source, {**_as_text(account.settings), **values})
    if any(details.settings.get(name) != account.settings.get(name) for name in ("host", "port")):
        message = "This is the address of another server. Connect it as an account of its own."
        raise InvalidRequest(message=message)
    account_store.set_credential(account.connection_id, details.credential, now=now)


def _as_text(settings: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in settings.items() if not isinstance(value, list)}
