"""Forms for sending an export, and for what its owner knows about it."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from django import forms
from typing_extensions import override

from importers.core.importer import DATE_ORDERS, FileSample
from importers.registry import installed_importers
from owner.own_addresses import FIELD, OwnAddressesField, known_addresses
from owner.preferences import base_language
from owner.records.periods import zone_name
from owner.site import owner
from owner.text import escape_invisible

COLUMN_PREFIX = "column_"
COLUMN_LABELS = {
    "date": "Date",
    "amount": "Amount",
    "debit": "Money out",
    "credit": "Money in",
    "direction": "In or out",
    "currency": "Currency",
    "counterparty": "Name of the other side",
    "counterparty_account": "Account of the other side",
    "memo": "Purpose",
    "account": "Your account",
    "kind": "Kind",
    "category": "Category",
    "reference": "Reference",
    "status": "Status",
    "fee": "Fee",
    "balance": "Balance",
}
MAIN_COLUMNS = frozenset({"date", "amount", "counterparty", "memo"})
"""Columns whose menus are always shown; of the others, those that were recognized or chosen."""


class FilesInput(forms.FileInput):
    allow_multiple_selected = True


class FilesField(forms.FileField):
    """One file or several, cleaned to a list."""

    @override
    def clean(self, data: Any, initial: Any = None) -> Any:
        files = data if isinstance(data, list) else [data]
        return [super(FilesField, self).clean(each, initial) for each in files or [None]]


class SendForm(forms.Form):
    file = FilesField(
        label="Files",
        widget=FilesInput(attrs={"multiple": True}),
        help_text="As you downloaded them: a zip archive, a mailbox (.mbox), a calendar (.ics),"
        " contacts (.vcf), a bank statement, a chat, export.xml, a text or a PDF.",
    )


class WishForm(forms.Form):
    connection = forms.CharField(
        label="Connection",
        required=False,
        help_text="The name of the one that this belongs to, such as Work mail. A new one is made"
        " where there is none. Left empty, each kind has its own.",
    )
    kind = forms.ChoiceField(
        label="Kind",
        required=False,
        choices=[
            ("", "As recognized"),
            *((kind.name, kind.title) for kind in installed_importers()),
        ],
    )
    timezone = forms.CharField(
        label="Time zone",
        initial=zone_name,
        help_text="Where times that have no zone are meant, such as Europe/Berlin.",
    )
    date_order = forms.ChoiceField(
        label="Dates such as 03/04/2026",
        required=False,
        choices=[
            ("", "As the export shows"),
            *zip(
                DATE_ORDERS,
                ("Day first", "Month first", "Year first", "Year of the era Reiwa first"),
                strict=True,
            ),
        ],
    )
    languages = forms.CharField(
        label="Languages",
        required=False,
        initial=lambda: base_language(owner().language),
        help_text="Of the texts, for a new connection: en, de.",
    )
    own_addresses = OwnAddressesField(initial=lambda: "\n".join(known_addresses()))
    account = forms.CharField(
        label="Account",
        required=False,
        help_text="Of a bank statement that does not name it, such as Savings.",
    )
    decimal = forms.ChoiceField(
        label="Amounts such as 1,234",
        required=False,
        choices=[
            ("", "As the export shows"),
            ("comma", "A comma before the cents"),
            ("point", "A point before the cents"),
        ],
    )
    signs = forms.ChoiceField(
        label="Amounts without a minus sign",
        required=False,
        choices=[
            ("", "As the export shows"),
            ("as-written", "They arrive"),
            ("inverted", "They are purchases with a card"),
        ],
    )

    def __init__(
        self,
        data: Mapping[str, str] | None = None,
        *,
        samples: Sequence[FileSample] = (),
        asks_addresses: bool = False,
    ) -> None:
        """Offer the columns of the samples, and show what their values mean in each choice."""
        super().__init__(data)
        if not asks_addresses:
            del self.fields[FIELD]
        for name in ("date_order", "decimal"):
            menu = cast("forms.ChoiceField", self.fields[name])
            texts = next((each.readings[name] for each in samples if each.readings.get(name)), {})
            if texts:
                menu.widget = forms.RadioSelect()
            menu.choices = [
                (value, f"{label}: {escape_invisible(texts[value])}" if value in texts else label)
                for value, label in cast("list[tuple[str, str]]", menu.choices)
            ]
        detected = dict.fromkeys(each.language for each in samples if each.language)
        if detected:
            self.fields["languages"].initial = ", ".join(detected)
        headers = list(dict.fromkeys(filter(None, (n for each in samples for n in each.header))))
        read = {name: column for each in reversed(samples) for name, column in each.columns.items()}
        chosen = {name for name in COLUMN_LABELS if self.data.get(COLUMN_PREFIX + name)}
        self._shown_columns = MAIN_COLUMNS | set(read) | chosen
        for name, label in COLUMN_LABELS.items() if headers else ():
            recognized = escape_invisible(read[name]) if name in read else "none"
            self.fields[COLUMN_PREFIX + name] = forms.ChoiceField(
                label=label,
                required=False,
                choices=[
                    ("", f"As recognized: {recognized}"),
                    *((column, escape_invisible(column)) for column in headers),
                ],
            )

    @property
    def column_menus(self) -> list[forms.BoundField]:
        return self._columns(are_shown=True)

    @property
    def folded_menus(self) -> list[forms.BoundField]:
        return self._columns(are_shown=False)

    def _columns(self, *, are_shown: bool) -> list[forms.BoundField]:
        return [
            field
            for field in self
            if field.name.startswith(COLUMN_PREFIX)
            and (field.name.removeprefix(COLUMN_PREFIX) in self._shown_columns) == are_shown
        ]

    @property
    def other_fields(self) -> list[forms.BoundField]:
        return [field for field in self if not field.name.startswith(COLUMN_PREFIX)]

    def wish(self) -> dict[str, str]:
        """Return the values for ``parse_import_request``; the menus need not be known yet."""
        names = self.base_fields.keys() - {FIELD}
        known = {name: str(self.cleaned_data.get(name, "")) for name in names}
        chosen = {name: self.data.get(COLUMN_PREFIX + name) for name in COLUMN_LABELS}
        lines = (
            f"{name}={' '.join(column.splitlines())}" for name, column in chosen.items() if column
        )
        return known | {"columns": "\n".join(lines)}
