"""URLs that Django answers.

asgi_app answers /mcp, /mcp/events, /healthz and /readyz before Django.
"""

from django.urls import include, path

from evidence.api.openapi import OpenApiPageView
from evidence.api.views.connectors import ConnectorsView, ConnectorView
from evidence.api.views.public import SKILL, ProtectedResourceView, SkillsView, SkillView
from owner.site import owner_site
from pdpp_site import views

METADATA = ".well-known/oauth-protected-resource"

urlpatterns = [
    path("", views.front, name="home"),
    path("sse", views.sse),
    path("docs/", OpenApiPageView.as_view()),
    path("v1/", include("evidence.api.urls")),
    # The reference serves declarations without the /v1 prefix, too.
    path("connectors", ConnectorsView.as_view()),
    path("connectors/<path:connector_id>", ConnectorView.as_view()),
    path(METADATA, ProtectedResourceView.as_view()),
    path(f"{METADATA}/mcp", ProtectedResourceView.as_view(path="/mcp")),
    path(f"{METADATA}/mcp/events", ProtectedResourceView.as_view(path="/mcp/events")),
    path(".well-known/skills/index.json", SkillsView.as_view()),
    path(f".well-known/skills/{SKILL}/SKILL.md", SkillView.as_view()),
    path("", include("owner.urls")),
    path("admin/", owner_site.urls),
]

handler400 = views.bad_request
handler403 = views.forbidden
handler404 = views.not_found
handler500 = views.server_error
