"""Every URL that Django answers; ``site.py`` answers /mcp, /mcp/events, /healthz and /readyz before it."""

from django.urls import include, path

from evidence.admin.record_page import record_page
from evidence.admin.site import owner_site
from evidence.api.openapi.views import OpenApiPageView
from evidence.api.views.connectors import ConnectorsView, ConnectorView
from evidence.api.views.well_known import ProtectedResourceView
from pdpp_site import failures, views

METADATA = ".well-known/oauth-protected-resource"

urlpatterns = [
    path("", views.front, name="front"),
    path("docs/", OpenApiPageView.as_view()),
    path("v1/", include("evidence.api.urls")),
    # Where the reference takes and shows declarations; the same as under /v1.
    path("connectors", ConnectorsView.as_view()),
    path("connectors/<path:connector_id>", ConnectorView.as_view()),
    path(METADATA, ProtectedResourceView.as_view()),
    path(f"{METADATA}/mcp", ProtectedResourceView.as_view(path="/mcp")),
    path(f"{METADATA}/mcp/events", ProtectedResourceView.as_view(path="/mcp/events")),
    path("", include("evidence.consent.authorizing.urls")),
    path("", include("evidence.consent.connecting.urls")),
    path("set-up/<str:token>/", views.set_up, name="set-up"),
    path("records/<str:connection_id>/<str:stream>/<path:record_key>", record_page),
    path("admin/", owner_site.urls),
]

handler400 = failures.bad_request
handler403 = failures.forbidden
handler404 = failures.not_found
handler500 = failures.failed
