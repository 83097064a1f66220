"""The page between wanting to end something and ending it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.http import HttpRequest
from django.template.response import TemplateResponse

from evidence.admin.base import page

CONFIRMED = "confirmed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """``items`` are what will end, by id; ``explanation`` says what that means."""

    title: str
    explanation: str
    items: Mapping[str, str]
    button: str
    back: str


def is_confirmed(request: HttpRequest) -> bool:
    return request.method == "POST" and CONFIRMED in request.POST


def confirmation(
    request: HttpRequest, question: Question, *, action: str | None = None
) -> TemplateResponse:
    """Asks. ``action`` is set where the question comes from a list of which some were selected."""
    repeated: Iterable[tuple[str, str]] = ()
    if action is not None:
        selected = [(ACTION_CHECKBOX_NAME, each) for each in question.items]
        repeated = [("action", action), *selected]
    context = {"question": question, "repeated": repeated, "confirmed": CONFIRMED}
    return page(request, "confirm", title=question.title, context=context)
