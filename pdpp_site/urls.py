"""Every URL that Django answers; ``asgi.py`` answers /mcp, /healthz and /readyz before."""

from django.contrib import admin
from django.urls import path

urlpatterns = [
    path("admin/", admin.site.urls),
]
