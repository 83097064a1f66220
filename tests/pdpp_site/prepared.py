"""``python -m tests.pdpp_site.prepared``: the cast of ``tests.world`` for a server that runs.

Prints the tokens as one JSON object.
"""

import json
import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pdpp_site.settings")
    import django

    django.setup()

    from tests.world import World

    json.dump(World.build().tokens, sys.stdout)


if __name__ == "__main__":
    main()
