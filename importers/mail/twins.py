"""Import each message once, also if the connection has it from files of another kind.

A message of Outlook has no bytes as it was sent, so its key cannot be that of the same message in a
mailbox file. Both are the same if Message-ID and subject are. A message without a Message-ID has a
digest of what every form keeps of it: time, sender, and the letters of its text.
"""

import base64
from bisect import bisect_left
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any

from importers.core.importer import ExportFiles, Options, Reader
from importers.core.results import ExportItem, ExportItems, Issue, ParsedItem, ReceiptCode

_DIGEST_BYTES = 8


def leave_out_twins(read: Reader) -> Reader:
    """Return a reader that leaves out the messages in ``Options.twins``."""
    return partial(_read, read)


def _read(read: Reader, files: ExportFiles, options: Options) -> ExportItems:
    twins = _Digests(base64.b64decode(options.twins))
    for item in read(files, options):
        yield replace(item, parse=partial(_parse, item, twins)) if len(twins) else item


def _parse(item: ExportItem, twins: "_Digests") -> ParsedItem:
    parsed = item.parse()
    for record in parsed.records:
        if record.stream == "messages" and record.data in twins:
            subject = str(record.data["subject"] or "")
            return ParsedItem(issues=[Issue(ReceiptCode.ALREADY_IMPORTED, subject[:80])])
    return parsed


class _Digests:
    """The digests of messages, sorted, as ``stored_keys.twin_digests`` returns them."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __len__(self) -> int:
        return len(self._content) // _DIGEST_BYTES

    def __contains__(self, message: dict[str, Any]) -> bool:
        identity = message["internet_message_id"] or message["content_digest"]
        if not identity:
            return False
        parts = (identity, message["subject"] or "")
        digest = sha256("\n".join(parts).encode("utf-8", "replace")).digest()[:_DIGEST_BYTES]
        at = bisect_left(range(len(self)), digest, key=self._at)
        return at < len(self) and self._at(at) == digest

    def _at(self, number: int) -> bytes:
        return self._content[number * _DIGEST_BYTES : (number + 1) * _DIGEST_BYTES]
