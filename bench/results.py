"""Write measured tables into bench/RESULTS.md, each between the markers of its section."""

import os
from pathlib import Path

from bench.served import ROOT


def write(section: str, table: str) -> None:
    """Replace the table of a section of the page at RESULTS, or add the section at its end."""
    path = Path(os.environ.get("RESULTS") or ROOT / "bench" / "RESULTS.md")
    page = path.read_text() if path.exists() else ""
    path.write_text(replaced(page, section, table))


def replaced(page: str, section: str, table: str) -> str:
    """Return the page with the table of a section, which begins and ends with a comment."""
    begin, end = f"<!-- {section} -->", f"<!-- end of {section} -->"
    before, found, rest = page.partition(begin)
    if not found:
        before, rest = f"{page}\n## {section}\n\n", f"{end}\n"
    return f"{before}{begin}\n\n{table.strip()}\n\n{end}{rest.partition(end)[2]}"
