"""What the first page offers, in the order in which an owner needs it."""

from dataclasses import dataclass

from django.urls import reverse


@dataclass(frozen=True, slots=True)
class Entry:
    title: str
    text: str
    url: str
    leads: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    entries: tuple[Entry, ...]


def sections() -> tuple[Section, ...]:
    return (
        Section(
            "Who may read",
            (
                Entry(
                    "Give access",
                    "Let an AI agent or a program read a part of your records that you choose.",
                    reverse("admin:evidence_grant_add"),
                    leads=True,
                ),
                Entry(
                    "Grants",
                    "Who may read what, and until when. End any of it at once.",
                    reverse("admin:evidence_grant_changelist"),
                ),
                Entry(
                    "Tokens",
                    "The keys that were handed out. End one that was lost.",
                    reverse("admin:evidence_accesstoken_changelist"),
                ),
                Entry(
                    "Clients",
                    "The agents and programs, by the names you gave them.",
                    reverse("admin:evidence_client_changelist"),
                ),
            ),
        ),
        Section(
            "Your records",
            (
                Entry(
                    "Connections",
                    "Your mailboxes, accounts and devices, and how much each holds.",
                    reverse("admin:evidence_connection_changelist"),
                ),
                Entry(
                    "Look up a record",
                    "See one record exactly as it is stored.",
                    reverse("admin:evidence_record_lookup"),
                ),
                Entry(
                    "Sources",
                    "What each kind of connection is able to hold.",
                    reverse("admin:evidence_source_changelist"),
                ),
            ),
        ),
        Section(
            "Your account",
            (
                Entry(
                    "Change password",
                    "A new password for these pages.",
                    reverse("admin:password_change"),
                ),
                Entry(
                    "Accounts",
                    "Who can sign in here.",
                    reverse("admin:auth_user_changelist"),
                ),
            ),
        ),
    )
