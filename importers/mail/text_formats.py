"""Convert the text parts of mail that are neither plain text nor HTML to plain text."""

import re

RICH_TYPES = ("text/enriched", "text/richtext")
_RICH_TOKEN = re.compile(
    r"<<|<(param|comment)>.{0,300}?</\1>|<(/?)([a-z0-9-]{1,60})>|\n+", re.IGNORECASE | re.DOTALL
)
_RICH_TEXTS = {"lt": "<", "nl": "\n", "np": "\n", "paragraph": "\n"}


def rich_to_text(text: str, media_type: str) -> str:
    """Return the text that text/enriched (RFC 1896) or text/richtext (RFC 1341) displays.

    A line break is a space unless nofill says otherwise; text/enriched shows all but one of several.
    """
    unfilled = 0

    def show(token: re.Match[str]) -> str:
        nonlocal unfilled
        shown, name = token[0], (token[3] or "").lower()
        if name == "nofill":
            unfilled = max(0, unfilled + (-1 if token[2] else 1))
        if not shown.startswith("\n"):
            return "<" if shown == "<<" else _RICH_TEXTS.get(name, "")
        if unfilled:
            return shown
        return (shown[1:] if media_type == "text/enriched" else "") or " "

    return _RICH_TOKEN.sub(show, text).strip()


def join_flowed(text: str, *, deletes_space: bool) -> str:
    """Join the lines of each paragraph (RFC 3676): a line that ends with a space continues."""
    lines: list[str] = []
    flows_at: str | None = None
    for line in text.split("\n"):
        quote = line[: len(line) - len(line.lstrip(">"))]
        content = line[len(quote) :].removeprefix(" ")
        if flows_at == quote and content != "-- ":
            lines[-1] = (lines[-1][:-1] if deletes_space else lines[-1]) + content
        else:
            lines.append(f"{quote} {content}" if quote else content)
        flows_at = quote if content.endswith(" ") and content != "-- " else None
    return "\n".join(lines)
