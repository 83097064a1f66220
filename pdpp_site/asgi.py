"""The ASGI application, for ``manage.py run`` and for any ASGI server with a lifespan."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pdpp_site.settings")

from pdpp_site.wsgi import application as django_application  # isort: skip - sets Django up first

from operations import tracing_setup
from pdpp_site import mcp_endpoints
from pdpp_site.asgi_app import Site

spans = tracing_setup.spans()
application = Site(
    application=django_application,
    endpoint=mcp_endpoints.endpoint(spans=spans),
    events=mcp_endpoints.events_endpoint(spans=spans),
    spans=spans,
)
