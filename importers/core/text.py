"""Decode bytes of unknown charset to text that can be stored, convert HTML to visible text, and detect languages."""

import codecs
import html
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable
from encodings.aliases import aliases
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import chardet
from charset_normalizer import from_bytes
from selectolax.lexbor import LexborHTMLParser

import evidence

MAX_PARSED_TAGS = 20_000
"""HTML with more tags is converted without building a tree."""
TEXT_MAX_CHARS = 1_000_000
DECODED_MAX_BYTES = 8_000_000
_DETECTION_BYTES = 16 * 1024

_HIDDEN_ELEMENTS = "head, script, style, template, noscript, title"
_BLOCK_ELEMENTS = (
    "address, article, aside, blockquote, dd, div, dl, dt, fieldset, figure, footer, form, h1, h2,"
    " h3, h4, h5, h6, header, hr, li, main, nav, ol, p, pre, section, table, tr, ul"
)
_HIDING_TAG = re.compile(
    rf"<(?P<closes>/?)(?P<name>{_HIDDEN_ELEMENTS.replace(', ', '|')})\b[^<>]*>|<!--|-->", re.I
)
_LINE_TAG = re.compile(rf"</?(?:br|{_BLOCK_ELEMENTS.replace(', ', '|')})\b[^<>]*>", re.I)
_LINK_TAG = re.compile(
    r"<a\s(?:[^<>]{0,500}\s)?href\s*=\s*[\"']?(https?://[^\"'\s<>]+)[^<>]*>", re.I
)
_LINK_TARGET = re.compile(r"(?:https?|mailto|tel):\S{1,2000}", re.I)
_CELL_TAG = re.compile(r"</?t[dh]\b[^<>]*>", re.I)
_TAG = re.compile(r"</?[a-z!][^<>]*>", re.I)

# Text labeled with these charsets is usually in the larger one (WHATWG Encoding).
_ACTUAL_CODECS = {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030",
                  "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
                  "shift_jis": "cp932", "euc_kr": "cp949", "big5": "big5hkscs"}  # fmt: skip
_JOINED_NAMES = {name.replace("_", ""): name for name in (*aliases.values(), *aliases)}
"""Names of charsets by the form that some mailers write, such as koi8r or iso88592."""
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF16_LE: "utf-16",
         codecs.BOM_UTF16_BE: "utf-16"}  # fmt: skip
_HIGH_BYTES = re.compile(rb"[\x80-\xff]+")
_SHORT_RUN = re.compile(
    rb"(?<![\x80-\xff])(?:[\x80-\xff]|(?<=[A-Za-z])[\x80-\xff]{2}|[\x80-\xff]{2}(?=[A-Za-z]))(?![\x80-\xff])"
)
_SYMBOL_IN_WORD = re.compile(
    "[A-Za-zÀ-ž](?!['’‘–—…·­\u00a0ªº°])[\u0080-\u00bf×÷€‚ƒ„†‡ˆ‰‹˜™›“”•]+[a-zà-ÿąęćńśźżł]"  # noqa: RUF001
    # Capitals of Central Europe: £ stands between letters of no other text, ¦ and ¬ beside none.
    "|[A-Za-zÀ-ž][\u0080-\u009f¡£¥¯±]+[A-ZÀ-Ž]|[¦¬¶ˇ][A-ZÀ-Ž]|[A-ZÀ-Ž][¦¬¶ˇ]"
)
# Letters that windows-1252 shows for text of neighboring charsets: (codec, letters, not with).
_NEIGHBORS = (
    ("cp1254", re.compile("[ýþðÝÞÐ]"), re.compile("[áæéíóúÁÆÉÍÓÚøìèù]")),  # Turkish, not Icelandic
    (
        "cp1250",
        re.compile("ø.*[ìèùò]|[ìèùò].*ø|[šž].*[èæð]|[èæð].*[šž]|[ìù].*[áíúý]|[áíúý].*[ìù]", re.S),
        re.compile("[åêà]"),
    ),
    ("cp1250", re.compile("[õûÕÛ]"), re.compile("[ãçêàèâÃÇÊÀÈÂäå]")),  # Hungarian
)
# Scripts in which chardet errs less than charset_normalizer.
_OTHER_SCRIPTS = frozenset((
    "koi8-r", "koi8-u", "cp1251", "iso8859-5", "cp866", "euc_jp", "euc_jis_2004", "cp932",
    "shift_jis", "shift_jis_2004", "gb18030", "big5", "big5hkscs", "cp949", "euc_kr", "cp1253",
    "iso8859-7", "cp1255", "iso8859-8", "cp1256", "iso8859-6", "cp874", "tis-620", "iso8859-11",
))  # fmt: skip
_MIN_LETTERS = 4
MIN_WIDE_CHARS = 8
_CENTRAL_CODECS = ("cp1250", "iso8859-2")
_RARE_CODECS = ["mac_cyrillic", "mac_greek", "mac_iceland", "mac_latin2", "mac_turkish", "cp1006"]
_JIS_NAME = re.compile(r"(?:windows-?)?iso-?2022-?jp.*|cp5022[0-2]")
_JIS = re.compile(rb"\x1b(?:\$\(?[@BD]|\(I)")
_JIS_SHIFT = re.compile(rb"\x1b(\$\(?[@BD]|\([BJI])")
_DOUBLE_BYTE = frozenset(
    ("gb2312", "gbk", "gb18030", "big5", "big5hkscs", "euc_kr", "cp949", "euc_jp")
)
_ACCENT_IN_WORD = re.compile("[A-Za-z][À-ž]|[À-ž][A-Za-z]")
# Bytes in these charsets can be valid UTF-8 and mean something else.
_NOT_UTF8 = ("utf-16", "utf-32", "utf-7", "iso2022", "hz")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_BLANKS = re.compile(r"[ \t\r\f\v\u00a0]+")
_EMPTY_LINES = re.compile(r"\n\s*\n\s*\n+")
MAX_TEXTS = 200
_LANGUAGE_MAX_CHARS = 4_000
MIN_WORDS = 8
_WORD = re.compile(r"[^\W\d_]+")
# The data alone: the modules of search load libraries that a sandbox has no memory for.
_DATA = Path(evidence.__file__).parent / "search" / "analysis" / "stop_words.toml"


def strip_tags(source: str) -> str:
    """Convert HTML to text without building a tree, with a line for each block.

    The target of a link precedes its text.
    """
    text = _LINK_TAG.sub(r"(\1) ", _remove_hidden(source))
    text = _CELL_TAG.sub(" ", _LINE_TAG.sub("\n", text))
    return html.unescape(_TAG.sub("", text))


def _remove_hidden(source: str) -> str:
    parts, start, hidden_by = [], 0, ""
    for tag in _HIDING_TAG.finditer(source):
        name = (tag["name"] or "!").lower()
        closes = bool(tag["closes"]) or tag[0] == "-->"
        if not hidden_by and not closes:
            parts.append(source[start : tag.start()])
            hidden_by = name
        elif hidden_by == name and closes:
            start, hidden_by = tag.end(), ""
    return "".join(parts) + ("" if hidden_by else source[start:])


def decode(content: bytes, declared: str | None = None) -> str:
    """Decode bytes whose declared charset may be wrong or missing.

    Valid UTF-8 is decoded as UTF-8 whatever charset is declared, and so is text with a few bad
    bytes, which are replaced. Otherwise the declared charset is tried, and then a detected one.
    """
    codec = _codec(declared)
    if _JIS.search(content) and content.isascii():
        return replace_unstorable(_decode_jis(content))
    if codec is None or not codec.startswith(_NOT_UTF8):
        codec = _utf16_codec(content) or codec
    if codec is None or not codec.startswith(_NOT_UTF8):
        text = content.decode("utf-8-sig", "replace")
        if (short := _short_east_asian(content, codec, text)) is not None:
            return replace_unstorable(short)
        if _is_mostly_valid(text, good_per_bad=4) or _is_damaged_utf8(text):
            return replace_unstorable(text)
    try:
        if codec is not None and not codec.startswith("utf-8"):
            text = content.decode(_ACTUAL_CODECS.get(codec, codec), "replace")
            if _is_mostly_valid(text, good_per_bad=10):
                return replace_unstorable(text)
    except (UnicodeError, LookupError):  # LookupError: a codec that is not for text, such as zlib
        pass
    return replace_unstorable(content.decode(_detect_codec(content), "replace"))


def _short_east_asian(content: bytes, codec: str | None, text: str) -> str | None:
    """Return a few characters in their declared charset of two bytes that look like UTF-8 by chance.

    UTF-8 has three bytes for theirs, and letters of two bytes stand in words of other languages.
    """
    if codec not in _DOUBLE_BYTE:
        return None
    replaced = text.count("\ufffd")
    if sum(char >= "\u0800" for char in text) > replaced * 2:
        return None
    try:
        return None if _ACCENT_IN_WORD.search(text) else content.decode(codec)
    except UnicodeDecodeError:
        return None


def _decode_jis(content: bytes) -> str:
    """Decode ISO-2022-JP, also with the characters of NEC and IBM that Windows programs write."""
    try:
        return content.decode("iso2022_jp_2")
    except UnicodeDecodeError:
        first, *shifted = _JIS_SHIFT.split(content)
    texts = [first.decode("ascii")]
    for shift, part in zip(shifted[::2], shifted[1::2], strict=True):
        if shift in (b"$B", b"$@"):
            pairs = (part[at : at + 2] for at in range(0, len(part), 2))
            texts += map(_jis_character, pairs)
        elif shift == b"(I":
            texts.append(bytes(byte | 0x80 for byte in part).decode("cp932", "replace"))
        elif shift in (b"(B", b"(J"):
            texts.append(part.decode("ascii"))
        else:
            texts.append((b"\x1b" + shift + part).decode("iso2022_jp_2", "replace"))
    return "".join(texts)


def _jis_character(pair: bytes) -> str:
    """Return a character by its row and cell; a single byte or a line end stands for itself."""
    if len(pair) < 2 or min(pair) < 0x21:
        return pair.decode("ascii")
    try:
        return bytes(byte | 0x80 for byte in pair).decode("euc_jp")
    except UnicodeDecodeError:  # Windows has it where Shift JIS has its row and cell
        row, cell = pair
        lead = (row + 1) // 2 + (0x70 if row < 0x5F else 0xB0)
        trail = cell + (0x7E if row % 2 == 0 else 0x1F + (cell >= 0x60))
        return bytes((lead, trail)).decode("cp932", "replace")


def to_utf8(content: bytes) -> bytes:
    """Return text in any charset as UTF-8 without a byte order mark."""
    if content.isascii() and b"\0" not in content and not _JIS.search(content):
        return content
    return decode(content).encode("utf-8", "replace")


def _is_mostly_valid(text: str, *, good_per_bad: int) -> bool:
    """Return whether enough characters outside ASCII were decoded for each that was replaced.

    A character that is cut off at the end does not count.
    """
    replaced = text.count("\ufffd")
    bad = replaced - text.endswith("\ufffd")
    good = sum(1 for char in text if char > "\x7f") - replaced
    return replaced == 0 or (good > 0 and (bad <= 1 or good >= bad * good_per_bad))


def _is_damaged_utf8(text: str) -> bool:
    """Return whether more characters of three bytes are valid than bad, as in no other charset.

    Programs that replace bytes without a letter in windows-1252 damage every other character.
    """
    bad = text.count("\ufffd")
    wide = sum(1 for char in text if char >= "\u0800") - bad
    return wide >= MIN_WIDE_CHARS and wide > bad


def _utf16_codec(content: bytes) -> str | None:
    """Return the codec of a byte order mark, or of text whose every second byte is NUL."""
    for bom, codec in _BOMS.items():
        if content.startswith(bom):
            return codec
    sample = content[:2_000]
    even, odd, half = sample[::2].count(0), sample[1::2].count(0), len(sample) // 2
    if half >= 2 and odd > half * 0.4 and even < half * 0.05:
        return "utf-16-le"
    return "utf-16-be" if half >= 2 and even > half * 0.4 and odd < half * 0.05 else None


def text_prefix(content: bytes) -> bytes:
    """Return the first DECODED_MAX_BYTES, ending at a complete character if they are UTF-8."""
    end = DECODED_MAX_BYTES
    while end < len(content) and end > DECODED_MAX_BYTES - 4 and content[end] & 0xC0 == 0x80:
        end -= 1
    return content[:end]


def replace_unstorable(text: str) -> str:
    """Replace NUL characters and surrogates, which PostgreSQL cannot store."""
    return _UNSTORABLE.sub("\ufffd", text) if _UNSTORABLE.search(text) else text


def to_storable_json(value: Any) -> Any:
    """Convert a value to JSON that PostgreSQL can store; other types become text."""
    if isinstance(value, str):
        return replace_unstorable(value)
    if isinstance(value, dict):
        return {
            replace_unstorable(str(name)): to_storable_json(member)
            for name, member in value.items()
        }
    if isinstance(value, list | tuple):
        return [to_storable_json(item) for item in value]
    if value is None or isinstance(value, bool | float):
        return value
    return value if isinstance(value, int) and abs(value) < 2**63 else str(value)


def truncate(text: str) -> str:
    """Return at most TEXT_MAX_CHARS of the text as it can be stored."""
    return replace_unstorable(text[:TEXT_MAX_CHARS])


def html_to_text(source: str) -> str:
    """Return the visible text of an HTML page, with a line for each block."""
    if source.count("<") > MAX_PARSED_TAGS:
        return normalize_whitespace(replace_unstorable(strip_tags(source)))
    tree = LexborHTMLParser(source)
    for node in tree.css(_HIDDEN_ELEMENTS):
        node.decompose()
    _show_link_targets(tree)
    for node in tree.css("br"):
        node.replace_with("\n")
    for node in tree.css(_BLOCK_ELEMENTS):
        node.insert_before("\n")
        node.insert_after("\n")
    for node in tree.css("td, th"):
        node.insert_after(" ")
    text = tree.body.text(separator="") if tree.body is not None else ""
    return normalize_whitespace(replace_unstorable(text))


def _show_link_targets(tree: LexborHTMLParser) -> None:
    """Add the target of each link behind its text, once for each target."""
    shown = set[str]()
    for node in tree.css("a[href]"):
        target = (node.attributes.get("href") or "").strip()
        if target in shown or not _LINK_TARGET.fullmatch(target):
            continue
        shown.add(target)
        text = node.text()
        # As people write it: without scheme, parameters of a mail, and last slash.
        bare = re.sub(r"^(?:https?://(?:www\.)?|mailto:|tel:)", "", target, flags=re.I).rstrip("/")
        if (bare.partition("?")[0] if target[:7].lower() == "mailto:" else bare) not in text:
            node.insert_after(f" ({target})" if text.strip() else target)


def normalize_whitespace(text: str) -> str:
    """Collapse blanks to one space, and empty lines to one."""
    lines = [_BLANKS.sub(" ", line).strip() for line in text.split("\n")]
    return _EMPTY_LINES.sub("\n\n", "\n".join(lines)).strip()


def one_line(text: str, *, max_chars: int = 1_000) -> str:
    """Collapse all whitespace to single spaces, for names and titles that can be stored."""
    return " ".join(replace_unstorable(text[: max_chars * 4]).split())[:max_chars]


def _codec(declared: str | None) -> str | None:
    name = (declared or "").strip("\"' ;").lower().removeprefix("x-").removesuffix("-i")
    name = _JIS_NAME.sub("iso2022_jp_2", name)
    try:
        name = re.sub(r"^(?:cp-|windows_?|win-?)(?=125\d$)", "cp", name)
        return codecs.lookup(_JOINED_NAMES.get(name, name)).name
    except (LookupError, ValueError):
        return None


def _detect_codec(content: bytes) -> str:
    """Return windows-1252 for text that it fits, and otherwise what a library detects."""
    sample = content[:_DETECTION_BYTES]
    if western := _western_codec(sample):
        return western
    guess = _codec(chardet.detect(sample)["encoding"])
    if guess in _OTHER_SCRIPTS and sum(map(len, _HIGH_BYTES.findall(sample))) >= _MIN_LETTERS:
        return _ACTUAL_CODECS.get(guess, guess)
    match = from_bytes(sample, cp_exclusion=_RARE_CODECS).best()
    codec = match.encoding if match is not None else "cp1252"
    for each in (codec, *_CENTRAL_CODECS):
        if not _SYMBOL_IN_WORD.search(sample.decode(each, "replace")):
            return each
    return codec


def _western_codec(sample: bytes) -> str | None:
    """Return the codec of text whose letters outside ASCII stand alone among ASCII letters."""
    runs = _HIGH_BYTES.findall(sample)
    total = sum(map(len, runs))
    in_words = sum(map(len, _SHORT_RUN.findall(sample)))
    are_in_words = in_words >= total * 0.6
    if not are_in_words and total > 3:
        return None
    for codec in ("cp1252", *(_CENTRAL_CODECS if are_in_words else ())):
        try:
            text = sample.decode(codec)
        except UnicodeDecodeError:
            continue
        if not _SYMBOL_IN_WORD.search(text):
            break
    else:
        return None
    fits = (each for each, has, lacks in _NEIGHBORS if has.search(text) and not lacks.search(text))
    return next(fits, codec) if codec == "cp1252" else codec


def detect_language(texts: Iterable[str | None]) -> str:
    """Return the code of a language, such as de, that has most function words, or else nothing.

    Words of several languages do not count. The winner has MIN_WORDS, and three times as many as any
    other language.
    """
    found = Counter[str]()
    languages = _language_by_word()
    for text in islice(filter(None, texts), MAX_TEXTS):
        words = _WORD.findall(_plain(text[:_LANGUAGE_MAX_CHARS]))
        found.update(languages[word] for word in words if word in languages)
    (best, count), (_, second) = (*found.most_common(2), ("", 0), ("", 0))[:2]
    return best if count >= max(MIN_WORDS, 3 * second) else ""


@cache
def _language_by_word() -> dict[str, str]:
    data = tomllib.loads(_DATA.read_text())
    words = {code: set(_plain(each.get("words", "")).split()) for code, each in data.items()}
    doubtful = {code: set(_plain(each.get("doubtful", "")).split()) for code, each in data.items()}
    counts = Counter(word for code in data for word in words[code] | doubtful[code])
    return {word: code for code in data for word in words[code] if counts[word] == 1}


def _plain(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text.lower())
    return "".join(char for char in decomposed if not unicodedata.combining(char))
