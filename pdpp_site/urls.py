"""Every URL that Django answers; ``site.py`` answers /mcp, /healthz and /readyz before it."""

from django.contrib import admin
from django.urls import path

from pdpp_site import views

urlpatterns = [
    path("set-up/<str:token>/", views.set_up, name="set-up"),
    path("admin/", admin.site.urls),
]
