"""ASGI entry point for `manage.py run` and other ASGI servers with lifespan support."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pdpp_site.settings")

from pdpp_site.wsgi import application as django_application  # isort: skip - sets Django up first

from operations import tracer
from pdpp_site import mcp_endpoints
from pdpp_site.asgi_app import AsgiApp

os.umask(0o077)  # as in pdpp_site.command_line, for other servers
spans = tracer.create_tracer()
application = AsgiApp(
    application=django_application,
    endpoint=mcp_endpoints.endpoint(spans=spans),
    events=mcp_endpoints.events_endpoint(spans=spans),
    spans=spans,
)
