"""Finds the sources that a test program links: those that define what its objects leave undefined."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLES = re.compile(r"^(?:vtable|typeinfo|typeinfo name|VTT) for ")  # what nm says of a class's tables


def name_of(symbol):
    """`lagoon::Class::Function` of a symbol as nm shows it, with its result and parameters."""
    text = TABLES.sub("", symbol)
    while (shorter := re.sub(r"<[^<>]*>|\[abi:\w+\]", "", text)) != text:
        text = shorter
    return text.split("(")[0].split(" ")[-1]


class SourceFinder:
    """`compile_all(sources)` compiles sources; `object_of(source)` is then the object, and `included(source)` are the
    files that the source includes. Sources that define a symbol are guessed by their text and judged by their object."""

    def __init__(self, compile_all, object_of, included):
        self.compile_all = compile_all
        self.object_of = object_of
        self.included = included
        self.symbols = {}  # source: ({what it defines}, {what it needs})
        self.homes = {}  # symbol: the source that defines it
        self.guesses = {}  # symbol without a home: sources that may define it, the likeliest last
        self.texts = {}
        for folder in ("src", "sim", "bench", "apps"):
            for path in sorted((ROOT / folder).rglob("*.cc")):
                name = str(path.relative_to(ROOT))
                if not name.endswith(("_test.cc", "_bench.cc")) and "/testing/" not in name:
                    self.texts[name] = path.read_text()

    def find(self, groups):
        """{group: all sources that its program links} for {group: the sources that nothing refers to}."""
        found = {group: list(own) for group, own in groups.items()}
        self.read({name for sources in found.values() for name in sources})
        while True:
            homeless = {}
            grown = False
            for sources in found.values():
                for symbol, source in self.needs_of(sources).items():
                    home = self.homes.get(symbol)
                    if home is None:
                        homeless[symbol] = source
                    elif home not in sources:
                        sources.append(home)
                        grown = True
            if homeless:
                self.read({self.guess(symbol, source) for symbol, source in homeless.items()})
            elif not grown:
                return found

    def needs_of(self, sources):
        """{symbol: a source that needs it} of what `sources` do not define."""
        defined = set().union(*(self.symbols[name][0] for name in sources))
        return {symbol: name for name in sources for symbol in self.symbols[name][1] - defined}

    def read(self, sources):
        sources = sorted(sources - set(self.symbols))
        self.compile_all(sources)
        for source in sources:
            done = subprocess.run(["nm", "-C", str(self.object_of(source))], capture_output=True, text=True, check=True)
            defined, needed = set(), set()
            for line in done.stdout.splitlines():
                kind, symbol = line[17:].split(" ", 1)
                if kind in "TDBRVW":
                    defined.add(symbol)
                elif kind == "U" and name_of(symbol).startswith("lagoon::"):
                    needed.add(symbol)
            self.symbols[source] = (defined, needed)
            if source in self.texts:
                for symbol in defined:
                    self.homes.setdefault(symbol, source)

    def guess(self, symbol, source):
        """The next source that may define the symbol that `source` needs."""
        if symbol not in self.guesses:
            self.guesses[symbol] = self.guesses_of(symbol, source)
        if not self.guesses[symbol]:
            raise RuntimeError(f"{source} needs {symbol}: found no source that defines it; name that source in the group")
        return self.guesses[symbol].pop()

    def guesses_of(self, symbol, source):
        scope, word = name_of(symbol).split("::")[-2:]
        if TABLES.match(symbol):
            pattern = rf"\b{word}::"
        elif scope[0].isupper():
            pattern = rf"\b{scope}::{re.escape(word)}\b"
        else:
            pattern = rf"(?<![:\w]){re.escape(word)}[({{; =]"
        # A definition begins at the line's start; clang-format sets everything else in.
        lines = re.compile(rf"^(?![\s#/}}]).*(?:{pattern})", re.MULTILINE)
        likely = [name for name, text in self.texts.items() if word in text and lines.search(text)]
        headers = self.included(source)
        folders = {header.rpartition("/")[0] for header in headers}
        return sorted(likely, key=lambda name: (f"{name[:-3]}.h" in headers, name.rpartition("/")[0] in folders))
