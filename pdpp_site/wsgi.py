"""Django as a WSGI application; ``asgi.py`` serves it, and so can any WSGI server."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pdpp_site.settings")

application = get_wsgi_application()
