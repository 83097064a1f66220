"""Entry point of the installed `pdpp` command: the REST client and `pdpp mcp`."""

import sys

from cli import fast_imports


def main() -> None:
    """Run the command line of this process."""
    with fast_imports():
        from cli import app
        from cli.mcp import mcp

        commands = app.build_app(mcp)
    sys.exit(app.run(commands, sys.argv[1:]))


if __name__ == "__main__":
    main()
