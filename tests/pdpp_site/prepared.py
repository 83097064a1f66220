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

    from evidence.models.owners import acting_for, get_or_create_owner
    from tests.world import NOW, World

    with acting_for(get_or_create_owner(NOW).owner_id):
        json.dump(World.build().tokens, sys.stdout)


if __name__ == "__main__":
    main()
