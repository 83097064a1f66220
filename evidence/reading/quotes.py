"""Is a quote still what the record says? Checked on the text itself, after every other check."""

import hashlib
from dataclasses import dataclass
from typing import Literal

Status = Literal["verified", "moved", "changed", "absent"]


@dataclass(frozen=True, slots=True)
class Expectation:
    """A quote, or the sha256 of the whole field when it was read, or both."""

    quote: str | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """``found_at`` is where the quote stands now; ``field_changed`` compares the hashes.

    - verified: the quote stands where it was (anywhere, where no offset was given), or, without
      a quote, the field is unchanged;
    - moved: it stands elsewhere;
    - changed: it is gone, or there was none to look for, and the field has changed;
    - absent: the field never held it.
    """

    status: Status
    found_at: int | None
    field_sha256: str
    field_changed: bool | None


def judged(text: str, expected: Expectation, *, at: int | None) -> Verdict:
    """What has become of ``expected`` in ``text``; ``at`` is where the quote was."""
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    changed = None if expected.sha256 is None else expected.sha256.lower() != sha256
    if expected.quote is None:
        return Verdict("changed" if changed else "verified", None, sha256, changed)
    if at is not None and text.startswith(expected.quote, at):
        return Verdict("verified", at, sha256, changed)
    found = text.find(expected.quote)
    if found < 0:
        return Verdict("changed" if changed else "absent", None, sha256, changed)
    return Verdict("verified" if at is None else "moved", found, sha256, changed)
