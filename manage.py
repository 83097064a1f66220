#!/usr/bin/env python3
"""The server's command line, run from a clone."""

from pdpp_site.command_line import main

if __name__ == "__main__":
    main()
