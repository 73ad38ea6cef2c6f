# SPDX-License-Identifier: Apache-2.0
"""What the lints know about the source tree: its files, and C text without comments and strings."""

import os
import re
import sys

TOP = os.environ.get("top_srcdir") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

sys.path.insert(0, os.path.join(TOP, "tests", "lib"))
import tap  # noqa: E402,F401  (for the lints: `from tree import tap`)

# Folders that hold what people wrote; made files and caches are elsewhere or skipped by name.
FOLDERS = ("src", "tests", "man", "contrib", "docs", ".ci")
SKIPPED = ("__pycache__", ".deps", "corpus")
MADE = (".o", ".a", ".log", ".trs", ".pyc", ".gcno", ".gcda", ".dirstamp")


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8", errors="surrogateescape") as f:
        return f.read()


def files(*folders, ends=()):
    """Paths from the top, sorted; only those that end in one of `ends`, if given."""
    found = []
    for folder in folders or FOLDERS:
        for where, dirs, names in os.walk(os.path.join(TOP, folder)):
            dirs[:] = [d for d in dirs if d not in SKIPPED]
            for name in names:
                path = os.path.relpath(os.path.join(where, name), TOP)
                if not name.endswith(MADE) and (not ends or name.endswith(tuple(ends))):
                    found.append(path)
    return sorted(found)


_TOKENS = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)


def _blank(match):
    text = match.group(0)
    if text.startswith("/"):
        return re.sub(r"[^\n]", " ", text)
    return text[0] + "x" * (len(text) - 2) + text[-1]


def code(path):
    """C source with comments blanked and the insides of strings replaced; lines stay where they are."""
    return _TOKENS.sub(_blank, read(path))


def directives(text):
    """The text with preprocessor directives blanked (continued lines too)."""
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.M)


def is_script(path, interpreter):
    """Whether the file starts with a #! line that names the interpreter."""
    first = read(path).split("\n", 1)[0]
    return first.startswith("#!") and interpreter in first
