"""Small things that several forms need."""

from collections.abc import Iterable

from django import forms
from django.forms import BaseForm


def offer(form: BaseForm, name: str, choices: Iterable[tuple[str, str]]) -> None:
    """Choices that are known only when the form is made."""
    field = form.fields[name]
    if not isinstance(field, forms.ChoiceField):
        raise TypeError(f"{name} offers no choices")
    field.choices = list(choices)


def printable(name: str) -> str:
    """A name without anything that does not show; else a ``ValidationError``."""
    if not name.isprintable():
        raise forms.ValidationError("Use only characters that can be seen.")
    return name


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
