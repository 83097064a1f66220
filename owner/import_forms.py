"""Forms for sending an export, and for what its owner knows about it."""

from django import forms

from importers.core.importer import DATE_ORDERS
from importers.registry import installed_importers
from owner.preferences import base_language
from owner.records.periods import zone_name
from owner.site import owner


class SendForm(forms.Form):
    file = forms.FileField(
        label="File",
        help_text="As it was downloaded: a zip archive, a mailbox (.mbox), a calendar (.ics),"
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
            ("", "As recognised"),
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
            *zip(DATE_ORDERS, ("Day first", "Month first", "Year first"), strict=True),
        ],
    )
    languages = forms.CharField(
        label="Languages",
        required=False,
        initial=lambda: base_language(owner().language),
        help_text="Of the texts, for a new connection: en, de.",
    )
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
    columns = forms.CharField(
        label="Columns of a CSV file",
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="A line each, where the names do not say it: date=Buchungstag",
    )
