"""The `pdpp` command as it is installed: the REST client, and MCP over the same access."""

import sys

from evidence.cli import app


def main() -> None:
    """Run the command line of this process."""
    sys.exit(app.run(app.built(), sys.argv[1:]))


if __name__ == "__main__":
    main()
