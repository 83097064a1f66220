"""The form behind a set-up link."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.auth import get_user_model, password_validation
from typing_extensions import override

if TYPE_CHECKING:
    from django.contrib.auth.models import User


class SetUpForm(forms.Form):
    """User name and password, the latter twice and held to Django's rules for passwords."""

    username = forms.CharField(
        label="User name",
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "username", "autofocus": True}),
    )
    password = forms.CharField(
        label="Password",
        strip=False,
        help_text="At least 8 characters, not only digits and not a common password.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    again = forms.CharField(
        label="Password again",
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def __init__(self, *args: Any, account: "User | None", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._account = account

    def clean_username(self) -> str:
        name: str = self.cleaned_data["username"]
        users = get_user_model()
        users.username_validator(name)
        others = users.objects.filter(username=name)
        if self._account is not None:
            others = others.exclude(pk=self._account.pk)
        if others.exists():
            raise forms.ValidationError("Another account has this name.")
        return name

    @override
    def clean(self) -> None:
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if not name or not password:
            return
        try:
            password_validation.validate_password(password, get_user_model()(username=name))
        except forms.ValidationError as error:
            self.add_error("password", error)
        if password != self.cleaned_data.get("again"):
            self.add_error("again", "The two passwords differ.")
