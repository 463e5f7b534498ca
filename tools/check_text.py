#!/usr/bin/env python3
"""Checks the width of comments and docs, and finds comments in places where they read badly.

- A line of a source or of a page of docs has at most 100 columns. Tables, code blocks, links and raw strings may be wider.
- No comment stands behind an initialiser that has a line of its own: the comment belongs above the declaration.

clang-format leaves comments alone. Lists every violation and exits with status 1 if there is one.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = 100
COMMENT = re.compile(r'^[^"]*//')
HANGING = re.compile(r"^[ ]+(?!struct|class|enum|union|namespace|else|do|try)[^/()\n]*\w(?: =|\{)\n\s+[^\n;/]*;\s+//", re.M)


def files(*patterns):
    done = subprocess.run(["git", "ls-files", *patterns], capture_output=True, text=True, check=True, cwd=ROOT)
    return [pathlib.Path(line) for line in done.stdout.splitlines() if (ROOT / line).exists()]


def wide_comments(text):
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > COLUMNS and COMMENT.search(line):
            yield number, f"a comment of {len(line)} columns"


def hanging_comments(text):
    for found in HANGING.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, "a comment behind an initialiser on a line of its own"


def wide_prose(text):
    in_code = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif len(line) > COLUMNS and not in_code and not line.lstrip().startswith("|") and " " in line[COLUMNS - 40:COLUMNS]:
            if not re.fullmatch(r"\s*(?:[-*] |\d+\. )?!?\[[^\]]*\]\([^)]*\)[.,;:]?", line):
                yield number, f"a line of {len(line)} columns"


def violations():
    for path in files("*.h", "*.cc", "*.cuh", "*.cu"):
        text = (ROOT / path).read_text()
        for number, what in [*wide_comments(text), *hanging_comments(text)]:
            yield f"{path}:{number}: {what}"
    for path in files("*.md"):
        for number, what in wide_prose((ROOT / path).read_text()):
            yield f"{path}:{number}: {what}"


def self_test():
    assert list(hanging_comments("  int x =\n      0;  // why\n")) and list(hanging_comments("  A<B*> x{\n      0};  // why\n"))
    assert not list(hanging_comments("struct A {\n  int x = 0;  // why\n")) and not list(hanging_comments("  f(\n      0);  // why\n"))
    assert list(wide_comments("// " + "x" * 100)) and not list(wide_comments('f("' + "x" * 100 + '");'))
    assert list(wide_prose("some words " * 12)) and not list(wide_prose("| some words " * 12))
    assert not list(wide_prose("```\n" + "some words " * 12 + "\n```"))


def main():
    self_test()
    found = list(violations())
    print("\n".join(found) or "text: no violation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
