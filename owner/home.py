"""What the first page offers, in the order in which an owner needs it."""

from dataclasses import dataclass

from django.urls import reverse

OUTSIDE = frozenset(
    {
        "accounts",
        "activity",
        "backups",
        "connect",
        "connected-apps",
        "give-access",
        "notifications",
        "refused-calls",
        "storage",
    }
)


@dataclass(frozen=True, slots=True)
class Entry:
    """``view`` names the page it leads to, of the admin unless it has a name of its own; the entry
    that ``leads`` is the one most came for."""

    title: str
    text: str
    view: str
    leads: bool = False

    @property
    def url(self) -> str:
        return reverse(self.view if self.view in OUTSIDE else f"admin:{self.view}")


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    entries: tuple[Entry, ...]


WHO_MAY_READ = (
    Entry(
        "Connect an agent",
        "Let Claude, Codex, ChatGPT or another sign in and read what you choose.",
        "connect",
        leads=True,
    ),
    Entry(
        "Connected apps",
        "What each of them reads and how much. Pause, narrow or end it at once.",
        "connected-apps",
    ),
    Entry(
        "Give access",
        "Make a token for a program of your own that reads a part of your records.",
        "give-access",
    ),
    Entry(
        "Grants",
        "Who may read what, and until when. End any of it at once.",
        "evidence_grant_changelist",
    ),
    Entry(
        "Tokens",
        "The keys that were handed out. End one that was lost.",
        "evidence_accesstoken_changelist",
    ),
    Entry(
        "Clients",
        "The agents and programs, by the names you gave them.",
        "evidence_client_changelist",
    ),
    Entry(
        "Activity",
        "What each app read, by day, with the records in it.",
        "activity",
    ),
    Entry(
        "Refused calls",
        "Calls of apps that got no answer, and why.",
        "refused-calls",
    ),
)
YOUR_RECORDS = (
    Entry(
        "Import an export",
        "Mail, calendars, contacts, chats, bank statements, health, documents: as you downloaded"
        " them.",
        "evidence_importrun_changelist",
    ),
    Entry(
        "Live accounts",
        "Mailboxes that stay up to date by themselves.",
        "accounts",
    ),
    Entry(
        "Connections",
        "Your mailboxes, accounts and devices, and how much each holds.",
        "evidence_connection_changelist",
    ),
    Entry(
        "Look up a record",
        "See one record exactly as it is stored.",
        "evidence_record_lookup",
    ),
    Entry(
        "Sources",
        "What each kind of connection is able to hold.",
        "evidence_source_changelist",
    ),
    Entry(
        "What was erased",
        "Receipts of what is gone; and erasing everything.",
        "evidence_erasures",
    ),
)
YOUR_ACCOUNT = (
    Entry(
        "Notifications",
        "Mail, ntfy or a webhook when an app or an import needs you.",
        "notifications",
    ),
    Entry("Change password", "A new password for these pages.", "password_change"),
    Entry(
        "Second factor",
        "Ask for a code of your phone as well, so that a password alone opens nothing.",
        "second_factor",
    ),
    Entry("Backups", "Backups on a schedule, and the words that open them.", "backups"),
    Entry("Storage", "How much each source takes in the database.", "storage"),
    Entry("Accounts", "Who can sign in here.", "auth_user_changelist"),
)
SECTIONS = (
    Section("Who may read", WHO_MAY_READ),
    Section("Your records", YOUR_RECORDS),
    Section("Your account", YOUR_ACCOUNT),
)
