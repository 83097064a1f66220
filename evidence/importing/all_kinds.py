"""Every kind, in the order in which they take what is theirs: the most particular first."""

from evidence.importing.kinds import Kind
from evidence.importing.mail.mailboxes import EML, MAILDIR, MBOX

KINDS: tuple[Kind, ...] = (MAILDIR, MBOX, EML)
