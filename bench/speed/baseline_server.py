"""`python -m bench.speed.baseline_server`: serve the baseline on PDPP_PORT."""

import os

import django
from django.conf import settings

from pdpp_site import server


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pdpp_site.settings")
    django.setup()
    # This import needs django.setup().
    from bench.speed.baselines import application

    bound = server.bind("127.0.0.1", settings.PDPP_PORT)
    config = server.uvicorn_config(application())
    server.Server(config, ready=lambda: None).run(sockets=[bound])


if __name__ == "__main__":
    main()
