"""ASGI entry point for `manage.py run` and other ASGI servers with lifespan support."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pdpp_site.settings")

from pdpp_site.wsgi import application as django_application  # isort: skip - sets Django up first

from pdpp_site import asgi_app
from pdpp_site.asgi_app import AsgiApp

os.umask(0o077)  # as in pdpp_site.command_line, for other servers
application = AsgiApp(
    application=django_application,
    endpoint=asgi_app.endpoint(),
    events=asgi_app.events_endpoint(),
)
