"""The command `lagoon` of the wheel: the program, and in Python `lagoon fleet` and `lagoon openai`."""

import os
import sys

from lagoon import binary


def main():
    words = sys.argv[1:]
    if words[:1] == ["fleet"]:
        try:
            from lagoon.fleet import command
        except ImportError as error:
            sys.exit(f"lagoon fleet: {error}. Ray is missing: pip install 'lagoon-server[fleet]'")
        sys.exit(command.main(words[1:]))
    if words[:1] == ["openai"]:
        try:
            from lagoon.openai import command
        except ImportError as error:
            sys.exit(f"lagoon openai: {error}: pip install 'lagoon-server[openai]'")
        sys.exit(command.main(words[1:]))
    try:
        path = binary.find()
    except FileNotFoundError as error:
        sys.exit(f"lagoon: {error}")
    os.execv(path, [path, *words])
