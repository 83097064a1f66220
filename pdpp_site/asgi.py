"""The ASGI application, for ``manage.py run`` and for any ASGI server with a lifespan."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pdpp_site.settings")

from pdpp_site.wsgi import application as django_application  # isort: skip - sets Django up first

from pdpp_site import collector, mcp
from pdpp_site.site import Site

spans = collector.spans()
application = Site(
    application=django_application,
    endpoint=mcp.endpoint(spans=spans),
    events=mcp.events_endpoint(spans=spans),
    spans=spans,
)
