"""Tell what WhatsApp adds to a chat from what people wrote, in the language of the phone."""

import re

_QUOTES = '“”„«»「」『』"״'
_QUOTED = re.compile(f"[{_QUOTES}][^{_QUOTES}]*[{_QUOTES}]")
_OPEN_QUOTE = re.compile(f"[{_QUOTES}]|\\s['‘][^'’]*$")  # noqa: RUF001
_EDITED = re.compile(
    r"\s*\u200e?<(?=[^<>]*(?:\s|[^\x00-\x7f]))[^<>\n:]{0,40}(?:edit|bearbeitet|modif|bewerkt|redi[gq]|muok"
    r"|uprav|szerkeszt|επεξεργ|изме|редак|düzenle|تعديل|ویرایش|נער[כך]|एडिट|संपादित|編集|编辑|編輯|수정|편집"
    r"|chỉnh sửa|แก้ไข|uređen|измењ)[^<>\n:]{0,40}>\s*\Z",
    re.IGNORECASE,
)
"""What stands behind the text of an edited message."""


def author_and_text(author: str | None, text: str) -> tuple[str | None, str]:
    """Return who wrote a message and what, without the notice that it was edited.

    A colon in a quotation, such as a new name of the group, ends no author.
    """
    if author is None:
        return None, text
    if _OPEN_QUOTE.search(_QUOTED.sub("", author)):
        return None, f"{author}: {text}"
    return author, _EDITED.sub("", text)
