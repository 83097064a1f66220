"""Every kind, in the order in which they take what is theirs: the most particular first."""

from evidence.importing.bank.ofx import OFX
from evidence.importing.bank.qif import QIF
from evidence.importing.bank.tabular import CSV
from evidence.importing.calendars.contacts import VCARD
from evidence.importing.calendars.events import ICALENDAR
from evidence.importing.chat.slack import SLACK
from evidence.importing.chat.telegram import TELEGRAM
from evidence.importing.chat.whatsapp import WHATSAPP
from evidence.importing.kinds import Kind
from evidence.importing.mail.mailboxes import EML, MAILDIR, MBOX

KINDS: tuple[Kind, ...] = (
    SLACK,
    TELEGRAM,
    WHATSAPP,
    MAILDIR,
    MBOX,
    EML,
    ICALENDAR,
    VCARD,
    OFX,
    QIF,
    CSV,
)
