"""Know the servers of well-known providers by the domain of an address."""

from dataclasses import dataclass

from dns import resolver
from dns.exception import DNSException

LOOKUP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider's servers.

    ``refusal`` and ``dav_refusal``: why mail, or calendars and contacts, cannot work.
    ``daily_megabytes``: below what the provider lets an account download on a day, if it says.
    """

    name: str
    host: str
    refusal: str = ""
    daily_megabytes: int | None = None
    caldav: str = ""
    carddav: str = ""
    dav_refusal: str = ""


_GMAIL = Provider(
    "Gmail",
    "imap.gmail.com",
    daily_megabytes=2_000,
    dav_refusal="Google takes no app passwords for calendars and contacts."
    " Connect the secret address of the calendar as a calendar feed.",
)
_ICLOUD = Provider(
    "iCloud",
    "imap.mail.me.com",
    caldav="caldav.icloud.com",
    carddav="contacts.icloud.com",
)
_FASTMAIL = Provider(
    "Fastmail",
    "imap.fastmail.com",
    caldav="caldav.fastmail.com",
    carddav="carddav.fastmail.com",
)
_GMX = Provider(
    "GMX",
    "imap.gmx.net",
    caldav="caldav.gmx.net",
    carddav="carddav.gmx.net",
)
_YAHOO = Provider(
    "Yahoo",
    "imap.mail.yahoo.com",
    caldav="caldav.calendar.yahoo.com",
    carddav="carddav.address.yahoo.com",
)
_POSTEO = Provider("Posteo", "posteo.de", caldav="posteo.de:8443", carddav="posteo.de:8443")
_MICROSOFT = Provider(
    "Microsoft",
    "outlook.office365.com",
    refusal="Microsoft has no app passwords for mail programs any more. Sign in with Microsoft instead,"
    " on the page Live accounts.",
    dav_refusal="Microsoft has no CalDAV. Publish the calendar, and connect its ICS link.",
)
PROVIDERS: dict[str, Provider] = {
    "gmail.com": _GMAIL,
    "googlemail.com": _GMAIL,
    "icloud.com": _ICLOUD,
    "me.com": _ICLOUD,
    "mac.com": _ICLOUD,
    "fastmail.com": _FASTMAIL,
    "fastmail.fm": _FASTMAIL,
    "gmx.de": _GMX,
    "gmx.net": _GMX,
    "gmx.at": _GMX,
    "gmx.ch": _GMX,
    "yahoo.com": _YAHOO,
    "yahoo.de": _YAHOO,
    "yahoo.co.uk": _YAHOO,
    "aol.com": Provider("AOL", "imap.aol.com"),
    "web.de": Provider(
        "WEB.DE",
        "imap.web.de",
        caldav="caldav.web.de",
        carddav="carddav.web.de",
    ),
    "mailbox.org": Provider(
        "mailbox.org",
        "imap.mailbox.org",
        caldav="dav.mailbox.org",
        carddav="dav.mailbox.org",
    ),
    "posteo.de": _POSTEO,
    "posteo.net": _POSTEO,
    "t-online.de": Provider("Telekom", "secureimap.t-online.de"),
    "outlook.com": _MICROSOFT,
    "hotmail.com": _MICROSOFT,
    "live.com": _MICROSOFT,
    "msn.com": _MICROSOFT,
}


def find_provider(address: str) -> Provider | None:
    """Return the provider of an address, without asking the network."""
    return PROVIDERS.get(address.rpartition("@")[2].strip().lower())


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
