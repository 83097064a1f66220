"""List all importers, most specific first: each claims files that no earlier one claimed."""

from importers.bank.csv_statements import CSV
from importers.bank.ofx import OFX
from importers.bank.qif import QIF
from importers.calendar.icalendar import ICALENDAR
from importers.chat.slack import SLACK
from importers.chat.telegram import TELEGRAM
from importers.chat.whatsapp import WHATSAPP
from importers.contacts import VCARD
from importers.core.importer import Importer
from importers.documents import DOCUMENTS
from importers.health import HEALTH
from importers.mail.mailboxes import EML, MAILDIR, MBOX
from importers.places import PLACES

IMPORTERS: tuple[Importer, ...] = (
    SLACK,
    TELEGRAM,
    WHATSAPP,
    HEALTH,
    PLACES,
    MAILDIR,
    MBOX,
    EML,
    ICALENDAR,
    VCARD,
    OFX,
    QIF,
    CSV,
    DOCUMENTS,
)
