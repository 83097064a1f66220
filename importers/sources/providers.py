"""Know the mail servers of well-known providers by the domain of an address."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider's server, and where its app passwords are made. ``refusal``: why it cannot work.

    ``daily_megabytes``: below what the provider lets an account download on a day, if it says.
    """

    name: str
    host: str
    app_passwords: str = ""
    refusal: str = ""
    daily_megabytes: int | None = None


_GMAIL = Provider(
    "Gmail",
    "imap.gmail.com",
    "Google Account, Security, App passwords",
    daily_megabytes=2_000,
)
_ICLOUD = Provider("iCloud", "imap.mail.me.com", "account.apple.com, App-Specific Passwords")
_FASTMAIL = Provider("Fastmail", "imap.fastmail.com", "Settings, Privacy & Security, App passwords")
_GMX = Provider("GMX", "imap.gmx.net", "Settings, POP3/IMAP; with two factors, app passwords")
_YAHOO = Provider("Yahoo", "imap.mail.yahoo.com", "Account security, App passwords")
_MICROSOFT = Provider(
    "Microsoft",
    "outlook.office365.com",
    refusal="Microsoft has no app passwords for mail programs any more. Import an export instead.",
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
    "aol.com": Provider("AOL", "imap.aol.com", "Account security, App passwords"),
    "web.de": Provider("WEB.DE", "imap.web.de", "Settings, POP3/IMAP"),
    "mailbox.org": Provider("mailbox.org", "imap.mailbox.org", "Settings, Security"),
    "posteo.de": Provider("Posteo", "posteo.de", "Your usual password"),
    "posteo.net": Provider("Posteo", "posteo.de", "Your usual password"),
    "t-online.de": Provider(
        "Telekom", "secureimap.t-online.de", "Customer center, E-mail password"
    ),
    "outlook.com": _MICROSOFT,
    "hotmail.com": _MICROSOFT,
    "live.com": _MICROSOFT,
    "msn.com": _MICROSOFT,
}


def find_provider(address: str) -> Provider | None:
    """Return the provider of an address, without asking the network."""
    return PROVIDERS.get(address.rpartition("@")[2].strip().lower())
