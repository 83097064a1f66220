"""`python -m bench.speed.floor_server`: the floor as a process of its own, on PDPP_PORT."""

import os

import django
from django.conf import settings

from pdpp_site import server


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pdpp_site.settings")
    django.setup()
    # It imports models, so Django comes first.
    from bench.speed.floors import application

    bound = server.bind("127.0.0.1", settings.PDPP_PORT)
    config = server.configured(application())
    server.Server(config, ready=lambda: None).run(sockets=[bound])


if __name__ == "__main__":
    main()
