"""Time zone, language and country of the owner: read for each page, found from the browser, and changed.

Names of countries, and the country of a time zone, come from the time zone database.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo, available_timezones

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.formats import get_format
from django.utils.translation.trans_real import parse_accept_lang_header

from evidence.access.aggregates import is_time_zone
from evidence.models.owners import Owner
from owner.form_fields import LANGUAGE_NAMES, set_choices
from owner.permissions import account_owner, owner_required
from owner.site import owner


@cache
def country_names() -> dict[str, str]:
    """Return the names by code, such as AT, in the order of the names."""
    rows = _rows("iso3166.tab")
    return dict(sorted(((row[0], row[1]) for row in rows), key=lambda each: each[1]))


@cache
def _zones() -> dict[str, str]:
    return {row[2]: row[0] for row in _rows("zone.tab")}


def country_of(time_zone: str, language: str = "") -> str:
    """Return the country of a time zone, or else that of a language such as de-AT, or ""."""
    region = language.partition("-")[2].upper()
    return _zones().get(time_zone) or (region if region in country_names() else "")


def _rows(name: str) -> list[list[str]]:
    text = (files("tzdata.zoneinfo") / name).read_text("utf-8")
    return [line.split("\t") for line in text.splitlines() if not line.startswith("#")]


MONDAY = 1
zone_names = cache(available_timezones)
"""Listing the folders of zones takes 5 milliseconds, as long as many a page."""


def middleware(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Show times in the owner's time zone on pages that need a sign-in."""

    def activate(request: HttpRequest) -> HttpResponseBase:
        # Reading the session of a call without one would add "Vary: Cookie" to answers of the API.
        has_session = settings.SESSION_COOKIE_NAME in request.COOKIES
        owner = account_owner(request.user) if has_session else None
        name = "" if owner is None else owner.time_zone
        with timezone.override(ZoneInfo(name) if name in zone_names() else None):
            return get_response(request)

    return activate


def browser_language(request: HttpRequest) -> str:
    """Return the first language that the browser asks for, such as ``de-AT``, or an empty text."""
    wanted = parse_accept_lang_header(request.headers.get("Accept-Language", ""))
    found = (tag for tag, _ in wanted if base_language(tag) in LANGUAGE_NAMES)
    language, _, region = next(found, "").partition("-")
    return f"{language}-{region.upper()}" if region else language


def base_language(tag: str) -> str:
    """Return ``de`` for ``de-AT``."""
    return tag.partition("-")[0].lower()


def first_weekday(language: str) -> int:
    """Return the day on which weeks begin, as `calendar` counts: 0 is Monday."""
    first = get_format("FIRST_DAY_OF_WEEK", lang=language) if language else MONDAY
    return (int(first) - 1) % 7


class PreferencesForm(forms.Form):
    """The time zone, the language and the country. A script proposes the zone of the browser."""

    time_zone = forms.CharField(
        label="Time zone",
        required=False,
        max_length=64,
        help_text="The time zone of your pages, such as Europe/Berlin.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    language = forms.ChoiceField(
        label="Language",
        required=False,
        help_text="For texts whose language is not detected, and for the first day of the week.",
    )
    country = forms.ChoiceField(
        label="Country",
        required=False,
        help_text="For phone numbers without a country code. A change rebuilds the page People.",
    )

    def __init__(
        self, data: Mapping[str, str] | None, *, current: Owner, proposed: str = ""
    ) -> None:
        language = current.language or proposed
        country = current.country or country_of(current.time_zone, proposed)
        initial = {"time_zone": current.time_zone, "language": language, "country": country}
        super().__init__(data, initial=initial)
        names = {"": "Not set", **LANGUAGE_NAMES}
        if language and language not in names:
            region = language.partition("-")[2].upper()
            names[language] = f"{LANGUAGE_NAMES.get(base_language(language), language)} ({region})"
        set_choices(self, "language", names.items())
        unset = {"": "That of your time zone"}
        set_choices(self, "country", {**unset, **country_names()}.items())

    def clean_time_zone(self) -> str:
        name: str = self.cleaned_data["time_zone"] or "UTC"
        if not is_time_zone(name):
            raise forms.ValidationError("Use the name of a time zone, such as Europe/Berlin.")
        return name

    def save(self, owner: Owner) -> None:
        chosen = {name: self.cleaned_data[name] for name in ("time_zone", "language", "country")}
        chosen["country"] = chosen["country"] or country_of(chosen["time_zone"], chosen["language"])
        Owner.unscoped.filter(pk=owner.pk).update(**chosen)


@owner_required
def preferences(request: HttpRequest) -> HttpResponse:
    """Show and change the time zone, the language and the country."""
    current = owner()
    form = PreferencesForm(
        request.POST or None, current=current, proposed=browser_language(request)
    )
    if form.is_valid():
        form.save(current)
        messages.success(request, "Your settings are saved.")
        return redirect("preferences")
    context = {"here": "preferences", "form": form}
    return render(request, "owner/preferences.html", context, status=422 if form.errors else 200)
