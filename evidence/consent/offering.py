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
