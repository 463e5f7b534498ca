#!/usr/bin/env python3
"""Checks the width of comments and docs, the places of comments, and that the files which pages name exist.

- A line of a source or of a page of docs has at most 100 columns. Tables, code blocks, links and raw strings may be wider.
- No comment stands behind an initialiser that has a line of its own: the comment belongs above the declaration.
- A table of a page has each row on a line of its own.
- A file or folder of the repository that a page names, in backticks or as a link, exists. Pages name files from the root,
  from src/, from the folder of the page, or from the folder that the page is about (SUBJECTS). A name without a folder is
  the name of some file. docs/results names files of earlier times, which is its purpose.

clang-format leaves comments alone. Lists every violation and exits with status 1 if there is one.
"""
import fnmatch
import pathlib
import posixpath
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = 100
COMMENT = re.compile(r'^[^"]*//')
HANGING = re.compile(r"^[ ]+(?!struct|class|enum|union|namespace|else|do|try)[^/()\n]*\w(?: =|\{)\n\s+[^\n;/]*;\s+//", re.M)
JOINED_ROWS = re.compile(r"\|[ ]*:?-{3,}:?[ ]*\|[ ]+\S")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
QUOTED = re.compile(r"`([^`]+)`")
FILE = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*/?")
SUFFIXES = {".h", ".cc", ".cuh", ".cu", ".py", ".proto", ".md", ".cmake", ".supp"}
# Where a page's own names begin.
SUBJECTS = {
    "docs/design/block-protocol.md": ["src/device"],
    "docs/design/cuda.md": ["src/device/cuda"],
    "docs/design/cuda-bodies.md": ["src/kernels/cuda"],
}
# What a build, a command or a user makes.
MADE = ("build/", "models/zoo", "models/corpus/files", "models/repository/", "bench/results/<")
# Names in examples of what a reader may add.
EXAMPLES = {"foo.h", "foo.cc", "foo_test.cc", "foo_bench.cc"}


def known(*patterns):
    """The files that git knows or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return [line for line in done.stdout.splitlines() if (ROOT / line).exists()]


def files(*patterns):
    return [pathlib.Path(line) for line in known(*patterns)]


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
        elif len(line) > COLUMNS and not in_code and not line.lstrip().startswith(("|", "<!-- table ")) and " " in line[COLUMNS - 40:COLUMNS]:
            if not re.fullmatch(r"\s*(?:[-*] |\d+\. )?!?\[[^\]]*\]\([^)]*\)[.,;:]?", line):
                yield number, f"a line of {len(line)} columns"


def joined_rows(text):
    """Tables whose rows an editor has joined to a paragraph."""
    for number, line in enumerate(text.splitlines(), start=1):
        if JOINED_ROWS.search(line) and re.search(r"[^\s|:-]", line):
            yield number, "a table with several rows on one line"


class Repository:
    """The files of the repository, for questions whether a page names one."""

    def __init__(self, names):
        self.files = set(names)
        self.folders = {folder for name in names for folder in parents(name)}
        self.tops = {name.split("/")[0] for name in self.folders} | {name.split("/")[1] for name in self.folders
                                                                    if name.startswith("src/")}
        self.names = {posixpath.basename(name) for name in names}

    def has(self, name):
        if "*" in name:  # which stands for no folder
            return any(fnmatch.fnmatchcase(known, name) and known.count("/") == name.count("/") for known in self.files)
        return name in self.files or name in self.folders

    def has_named(self, name):
        return any(fnmatch.fnmatchcase(known, name) for known in self.names)


def parents(name):
    """Every folder around the file `name`."""
    parts = name.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def is_a_file_of_ours(name, repository):
    """Whether a quoted `name` means a file or folder of the repository."""
    if not FILE.fullmatch(name) or name.startswith((*MADE, "_")) or name in EXAMPLES:  # _test.cc: the end of a name
        return False
    suffix = posixpath.splitext(name)[1]
    if "/" not in name:
        return suffix in SUFFIXES and len(name) > len(suffix)
    return suffix in SUFFIXES or name.split("/")[0] in repository.tops


def missing_files(page, text, repository):
    """Files that the page at `page` names and that do not exist."""
    here = posixpath.dirname(page)
    for number, line in enumerate(text.splitlines(), start=1):
        for target in LINK.findall(line):
            if "://" not in target and not target.startswith("mailto:"):
                if not repository.has(posixpath.normpath(posixpath.join(here, target)).rstrip("/")):
                    yield number, f"a link to {target}, which does not exist"
        for name in " ".join(QUOTED.findall(line)).split():
            if is_a_file_of_ours(name, repository):
                roots = ["", "src", here, *SUBJECTS.get(page, [])]
                places = {posixpath.normpath(posixpath.join(root, name)) for root in roots}
                if not any(map(repository.has, places)) and ("/" in name or not repository.has_named(name)):
                    yield number, f"`{name}`, which does not exist; write where the file is now"


def violations():
    for path in files("*.h", "*.cc", "*.cuh", "*.cu"):
        text = (ROOT / path).read_text()
        for number, what in [*wide_comments(text), *hanging_comments(text)]:
            yield f"{path}:{number}: {what}"
    repository = Repository(known())
    for path in files("*.md"):
        text = (ROOT / path).read_text()
        for number, what in [*wide_prose(text), *joined_rows(text)]:
            yield f"{path}:{number}: {what}"
        if path.parts[:2] != ("docs", "results"):
            for number, what in missing_files(str(path), text, repository):
                yield f"{path}:{number}: {what}"


def self_test():
    assert list(hanging_comments("  int x =\n      0;  // why\n")) and list(hanging_comments("  A<B*> x{\n      0};  // why\n"))
    assert not list(hanging_comments("struct A {\n  int x = 0;  // why\n")) and not list(hanging_comments("  f(\n      0);  // why\n"))
    assert list(wide_comments("// " + "x" * 100)) and not list(wide_comments('f("' + "x" * 100 + '");'))
    assert list(wide_prose("some words " * 12)) and not list(wide_prose("| some words " * 12))
    assert not list(wide_prose("```\n" + "some words " * 12 + "\n```"))
    assert not list(wide_prose("- [a](" + "x/" * 60 + "y.md)")) and list(wide_prose("- [a](b.md) " + "some words " * 12))
    assert list(joined_rows("| a | b | | --- | --- | | c | d |")) and not list(joined_rows("| a | b |\n| --- | ---: |\n| c | d |"))
    self_test_files()


def self_test_files():
    """Names that exist are quiet; each of them with one letter more is a violation."""
    repository = Repository(["src/plan/plan.h", "docs/design/page.md", "docs/guide/other.md", "src/device/cpu/table.h", "apps/main.cc"])

    def found(line, page="docs/design/page.md"):
        return list(missing_files(page, line, repository))

    for good, bad in (("`src/plan/plan.h`", "`src/plan/plans.h`"), ("`plan/plan.h`", "`plans/plan.h`"), ("`plan.h`", "`plans.h`"),
                      ("`src/plan/`", "`src/plans/`"), ("`src/plan/*.h`", "`src/plan/*.cuh`"), ("`src/device/cpu/*.h`", "`src/device/*.h`"), ("`apps/main.cc`", "`app/main.cc`"),
                      ("[a](../guide/other.md#b)", "[a](../guide/others.md#b)"), ("[a](page.md)", "[a](other.md)"),
                      ("[a](../../src/plan)", "[a](../../src/plans)")):
        assert not found(good), good
        assert len(found(bad)) == 1, bad
    assert found("`cpu/table.h`") and not found("`cpu/table.h`", "docs/design/block-protocol.md")
    assert not found("`models/zoo/a.h` `build/x.h` `a/b` `application/json` `/v2/x.h` `.h` `_test.cc` [a](https://b/c.md)")


def main():
    self_test()
    found = list(violations())
    print("\n".join(found) or "text: no violation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
