"""Connecting programs, and the ones that are connected."""

from django.urls import path

from evidence.consent.alerts import seen
from evidence.consent.connecting.connect_page import connect, connect_status
from evidence.consent.connecting.connected_pages import DEEDS, connected_apps, deed
from evidence.consent.connecting.doctor_page import doctor
from evidence.consent.connecting.narrow_page import narrow_page

urlpatterns = [
    path("connect", connect, name="connect"),
    path("connect/doctor", doctor, name="connect-doctor"),
    path("connect/status", connect_status, name="connect-status"),
    path("connected", connected_apps, name="connected"),
    path("connected/seen", seen, name="alert-seen"),
    path("connected/narrow", narrow_page, name="connected-narrow"),
    *(path(f"connected/{name}", deed, {"name": name}, name=f"connected-{name}") for name in DEEDS),
]
