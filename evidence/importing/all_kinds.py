"""Every kind, in the order in which they take what is theirs: the most particular first."""

from evidence.importing.bank.ofx import OFX
from evidence.importing.bank.qif import QIF
from evidence.importing.bank.tabular import CSV
from evidence.importing.calendars.contacts import VCARD
from evidence.importing.calendars.events import ICALENDAR
from evidence.importing.chat.slack import SLACK
from evidence.importing.chat.telegram import TELEGRAM
from evidence.importing.chat.whatsapp import WHATSAPP
from evidence.importing.documents import DOCUMENTS
from evidence.importing.health.records import HEALTH
from evidence.importing.kinds import Kind
from evidence.importing.mail.mailboxes import EML, MAILDIR, MBOX
from evidence.importing.places import PLACES

KINDS: tuple[Kind, ...] = (
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
