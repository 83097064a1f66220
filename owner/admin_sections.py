"""The pages of the experts' tool, in groups."""

from dataclasses import dataclass

from django.urls import reverse


@dataclass(frozen=True, slots=True)
class Entry:
    """One page. ``view`` is its name in the URLs of the admin."""

    title: str
    text: str
    view: str

    @property
    def url(self) -> str:
        return reverse(f"admin:{self.view}")


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    entries: tuple[Entry, ...]


WHO_MAY_READ = (
    Entry(
        "Grants",
        "Who may read what, and until when. Revoke any of it at once.",
        "evidence_grant_changelist",
    ),
    Entry(
        "Tokens",
        "The keys that were handed out. Revoke one that was lost.",
        "evidence_accesstoken_changelist",
    ),
    Entry(
        "Apps",
        "What signs in to read, by the names that you chose.",
        "evidence_client_changelist",
    ),
)
YOUR_RECORDS = (
    Entry(
        "Connections",
        "Your mailboxes, accounts and devices: names, languages, retention, erasing.",
        "evidence_connection_changelist",
    ),
    Entry(
        "Sources",
        "What each kind of connection can hold, field by field.",
        "evidence_source_changelist",
    ),
    Entry(
        "Look up a record",
        "Open a record by connection, stream and key.",
        "evidence_record_lookup",
    ),
    Entry(
        "What was erased",
        "Receipts of what is gone; and erasing everything.",
        "evidence_erasures",
    ),
)
YOUR_ACCOUNT = (
    Entry("Accounts", "Who can sign in here.", "auth_user_changelist"),
    Entry("Change password", "A new password for these pages.", "password_change"),
    Entry(
        "Second factor",
        "Ask for a passkey or a code too, so that a password alone opens nothing.",
        "second_factor",
    ),
)
SECTIONS = (
    Section("Who may read", WHO_MAY_READ),
    Section("Your records", YOUR_RECORDS),
    Section("Your account", YOUR_ACCOUNT),
)
