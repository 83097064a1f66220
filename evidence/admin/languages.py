"""Languages by the names that people know them by."""

from collections.abc import Iterable

NAMES = {
    "ar": "Arabic",
    "eu": "Basque",
    "ca": "Catalan",
    "zh": "Chinese",
    "cs": "Czech",
    "da": "Danish",
    "nl": "Dutch",
    "en": "English",
    "et": "Estonian",
    "fi": "Finnish",
    "fr": "French",
    "de": "German",
    "el": "Greek",
    "hi": "Hindi",
    "hu": "Hungarian",
    "id": "Indonesian",
    "ga": "Irish",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "lt": "Lithuanian",
    "ne": "Nepali",
    "nb": "Norwegian",
    "fa": "Persian",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sr": "Serbian",
    "es": "Spanish",
    "sv": "Swedish",
    "ta": "Tamil",
    "tr": "Turkish",
}


def choices(present: Iterable[str]) -> list[tuple[str, str]]:
    """Every language to choose from, with those that a connection names already, known or not."""
    others = {code: code for code in present if code not in NAMES}
    return list({**NAMES, **others}.items())
