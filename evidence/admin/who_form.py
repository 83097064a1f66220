"""First form of "Give access": who gets it, and from which connections."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.forms.boundfield import BoundWidget
from typing_extensions import override

from evidence import limits
from evidence.consent.offering import offer, printable
from evidence.models.clients import Client
from evidence.models.connections import Connection


class WhoForm(forms.Form):
    """The client, known or new, and the connections."""

    client = forms.ChoiceField(label="Known client", required=False)
    new_client = forms.CharField(
        label="New client",
        required=False,
        max_length=limits.LABEL_MAX_CHARS,
        help_text="Name it so that you will know it again, such as “Claude on my laptop”.",
    )
    connections = forms.MultipleChoiceField(
        label="Which of your connections may it read?",
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Tick at least one connection."},
    )

    def __init__(
        self, data: Any = None, *, clients: Sequence[Client], connections: Sequence[Connection]
    ) -> None:
        super().__init__(data)
        self._clients = {client.pk: client for client in clients}
        self._connections = connections
        named = [(client.pk, client.display_name) for client in clients]
        offer(self, "client", [("", "A new client"), *named])
        offer(self, "connections", [(each.pk, each.display_name) for each in connections])

    def clean_new_client(self) -> str:
        name = printable(self.cleaned_data["new_client"].strip())
        if any(client.display_name == name for client in self._clients.values()):
            raise forms.ValidationError("There is a client of that name; choose it in the list.")
        return name

    @override
    def clean(self) -> None:
        if self.errors:
            return
        known, new = self.cleaned_data["client"], self.cleaned_data["new_client"]
        if known and new:
            self.add_error("new_client", "Choose a known client or name a new one, not both.")
        if not known and not new:
            self.add_error("new_client", "Give the new client a name, or choose a known one.")

    @property
    def groups(self) -> list[tuple[str, list[BoundWidget]]]:
        """The boxes of the connections, under the names of their sources."""
        together: dict[str, list[BoundWidget]] = {}
        for box, connection in zip(self["connections"], self._connections, strict=True):
            together.setdefault(connection.source.display_name, []).append(box)
        return list(together.items())

    @property
    def known_client(self) -> Client | None:
        return self._clients.get(self.cleaned_data["client"])

    @property
    def client_name(self) -> str:
        known = self.known_client
        name: str = self.cleaned_data["new_client"] if known is None else known.display_name
        return name
