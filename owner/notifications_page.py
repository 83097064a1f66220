"""Notifications: add a channel, choose what it carries, send a test, and remove it."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from django import forms
from django.contrib import messages
from django.core.validators import RegexValidator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.debug import sensitive_post_parameters
from typing_extensions import override

from evidence.errors import InvalidRequest
from evidence.events.webhook_client import validate_callback_url
from evidence.models.owners import current_owner
from evidence.write.sealed_values import SealedError
from operations.notifications import store
from operations.notifications.delivery import PLAIN, STARTTLS, TLS, send_test
from operations.notifications.models import NotificationChannel, NotificationKind
from owner.permissions import owner_required

Transport = NotificationChannel.Transport
MAX_CHARS = 1_000
validate_host = RegexValidator(r"\A[A-Za-z0-9.:-]+\Z", "Enter a host name, such as mail.example.")


class KindsForm(forms.Form):
    """What a channel carries."""

    kinds = forms.MultipleChoiceField(
        label="Notify me when",
        choices=NotificationKind.choices,
        required=False,
        initial=NotificationKind.values,
        widget=forms.CheckboxSelectMultiple,
    )


class PrivateServerForm(forms.Form):
    """The address of a server that may be in the owner's network."""

    allows_private = forms.BooleanField(
        label="The server is in my own network",
        required=False,
        help_text="Allows private addresses, such as 192.168.1.10.",
    )


def _secret(label: str, *, help_text: str = "") -> forms.CharField:
    widget = forms.PasswordInput(attrs={"autocomplete": "new-password"})
    return forms.CharField(
        label=label,
        help_text=help_text,
        required=False,
        strip=False,
        max_length=MAX_CHARS,
        widget=widget,
    )


class MailForm(PrivateServerForm):
    """A mail server, the sender and the recipient."""

    recipient = forms.EmailField(label="Your mail address")
    host = forms.CharField(label="Mail server", max_length=255, validators=[validate_host])
    security = forms.ChoiceField(
        label="Encryption",
        choices=[
            (TLS, "TLS, usually port 465"),
            (STARTTLS, "STARTTLS, usually port 587"),
            (PLAIN, "None, only in my own network and without a password"),
        ],
    )
    port = forms.IntegerField(label="Port", min_value=1, max_value=65_535, initial=465)
    user = forms.CharField(label="User name", required=False, max_length=255)
    password = _secret("Password")
    sender = forms.EmailField(label="Sender", help_text="An address that the server may send from.")
    field_order = ("recipient", "host", "security", "port", "user", "password", "sender")

    @override
    def clean(self) -> None:
        values = self.cleaned_data
        is_plain = values.get("security") == PLAIN
        if is_plain and (values.get("user") or values.get("password")):
            self.add_error("security", "A password needs encryption. Choose TLS or STARTTLS.")
        if is_plain and not values.get("allows_private"):
            self.add_error("security", "Without encryption, the server must be in your network.")


class UrlForm(PrivateServerForm):
    """The https address of a webhook."""

    url = forms.CharField(label="Address", max_length=MAX_CHARS)
    field_order: tuple[str, ...] = ("url",)

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"].rstrip("/")
        try:
            validate_callback_url(url)
        except InvalidRequest as refusal:
            text = refusal.message.replace("callback_url", "The address")
            raise forms.ValidationError(text) from None
        if not url.startswith("https://"):
            raise forms.ValidationError("The address must begin with https://.")
        return url


class NtfyForm(UrlForm):
    """A topic of an ntfy server, with its access token."""

    token = _secret("Access token", help_text="Only if the topic is protected.")
    field_order = ("url", "token")

    @override
    def clean_url(self) -> str:
        url = super().clean_url()
        parts = urlsplit(url)
        if not parts.path.strip("/") or parts.query:
            raise forms.ValidationError("Enter the topic too, such as https://ntfy.sh/topic.")
        return url


FORMS: Mapping[str, type[PrivateServerForm]] = {
    Transport.MAIL.value: MailForm,
    Transport.NTFY.value: NtfyForm,
    Transport.WEBHOOK.value: UrlForm,
}
HINTS = {
    Transport.MAIL.value: "Messages are sent through your own mail account.",
    Transport.NTFY.value: "Anyone who knows a topic can read it. Choose a name that is hard to guess.",
    Transport.WEBHOOK.value: "Each notification is sent to the address as JSON, in a form that Slack and Mattermost show.",
}


@sensitive_post_parameters()
@owner_required
def add_channel(request: HttpRequest, transport: str) -> HttpResponse:
    """Ask for the address of a channel, and add it."""
    if transport not in FORMS:
        raise Http404
    form = FORMS[transport](request.POST or None)
    if len(store.list_channels(current_owner())) >= store.MAX_CHANNELS:
        messages.error(request, f"You have {store.MAX_CHANNELS} channels. Remove one first.")
        return redirect("notifications")
    if request.method == "POST" and form.is_valid():
        address = {name: str(value) for name, value in form.cleaned_data.items() if value}
        store.create_channel(
            transport,
            address,
            kinds=NotificationKind.values,
            owner_id=current_owner(),
            now=timezone.now(),
        )
        messages.success(request, "The channel is added. Send a test to check it.")
        return redirect("notifications")
    label = Transport(transport).label
    context = {"here": "notifications", "form": form, "label": label, "hint": HINTS[transport]}
    return render(request, "owner/notifications/add.html", context)


@owner_required
def notifications_page(request: HttpRequest) -> HttpResponse:
    """Show the channels, and change, test or remove one."""
    if request.method == "POST":
        channel = store.find_channel(request.POST.get("channel", ""), owner_id=current_owner())
        if channel is None:
            raise Http404
        _act(request, channel)
        return redirect("notifications")
    context = {
        "here": "notifications",
        "channels": [
            {
                "id": each.pk,
                "label": each.get_transport_display(),
                "to": _describe(each),
                "sent_at": each.sent_at,
                "problem": each.problem,
                "failing_since": each.failing_since,
                "form": KindsForm(initial={"kinds": each.kinds}, auto_id=f"{each.pk}_%s"),
            }
            for each in store.list_channels(current_owner())
        ],
        "transports": Transport.choices,
    }
    return render(request, "owner/notifications/list.html", context)


def _act(request: HttpRequest, channel: NotificationChannel) -> None:
    action, now = request.POST.get("action"), timezone.now()
    if action == "remove":
        store.delete_channel(channel)
        messages.success(request, "The channel is removed.")
    elif action == "test":
        if send_test(channel, now=now):
            messages.success(request, "The test was sent.")
        else:
            messages.error(request, "The test was not sent. The channel shows why.")
    elif action == "save":
        form = KindsForm(request.POST)
        if form.is_valid():
            store.set_kinds(channel, form.cleaned_data["kinds"])
            messages.success(request, "Saved.")


def _describe(channel: NotificationChannel) -> str:
    """Return where a channel leads, without a password, topic or path, which are secrets."""
    try:
        address = store.open_address(channel)
    except SealedError:
        return ""
    if channel.transport == Transport.MAIL:
        return f"{address['recipient']} through {address['host']}"
    return urlsplit(address["url"]).netloc
