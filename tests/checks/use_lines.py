#!/usr/bin/env python3
"""Checks that the `Use:` line of every installed header compiles: it stands in the comment that the header begins with.

    use_lines.py [--compiler g++] [--output FOLDER] [LIBRARY...]      libcore, libckpt, bridge, zoo; without names all

A snippet is C++ as a user writes it in a function, with namespaces spelt out. It runs from `Use:` to a blank line of the
comment, to the next labelled part (`Source:`, `Errors:`, `Thread safety:`, `Cost:`) or to the end of the comment. `...`
where a statement may begin stands for any statements: it is read as an empty one. What a snippet takes as given (`x`,
`model`, `path`) is declared in use_names/LIBRARY.h. A header without a `Use:` line is an error.

Each library's snippets become one source, a function each, of which only the syntax is checked; `#line` makes the
compiler name the header and the line in it.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Where the headers of a library lie; the first that fits.
LIBRARIES = {"libcore": "libcore/", "bridge": "libckpt/bridge", "libckpt": "libckpt/", "zoo": "zoo/"}

COMMENT_LINE = re.compile(r"\s*(?://|/\*\*?|\*(?!/)) ?(.*?)\s*(?:\*/)?$")
BEGIN = re.compile(r"(?:^|(?<=\s))Use:(?=\s|$)")
NEXT_PART = re.compile(r"(?:^|(?<=\s))(?:Source|Errors|Thread safety|Cost):(?=\s|$)")
# `...` after what ends a statement or opens one; in an argument list it is left, and fails to compile.
ANY_STATEMENTS = re.compile(r"(^|[;{})])(\s*)\.\.\.")


def snippet_of(header_text):
    """The number of the line that has `Use:` and the snippet's lines, or None."""
    begun = None
    in_comment = False
    snippet = []
    for number, line in enumerate(header_text.splitlines(), 1):
        comment = COMMENT_LINE.match(line)
        if not comment and in_comment:
            break
        if not comment:
            continue  # the include guard, before the comment
        in_comment = True
        text = comment[1]
        if begun is None:
            begin = BEGIN.search(text)
            if not begin:
                continue
            begun = number
            text = " " * begin.end() + text[begin.end() :]
        elif not text:
            break
        end = NEXT_PART.search(text)
        # Columns stay those of the header, for the compiler's messages.
        snippet.append(" " * comment.start(1) + (text[: end.start()] if end else text))
        if end:
            break
    if begun is None:
        return None
    code = ANY_STATEMENTS.sub(r"\1\2;", "\n".join(snippet))
    return begun, code


def source_of(root, headers, names):
    """The source that has every snippet of these headers, and which of them have none. `names` declares what is given."""
    functions = []
    without = []
    for header in headers:
        found = snippet_of((root / header).read_text())
        if not found:
            without.append(header)
            continue
        line, code = found
        name = re.sub(r"\W", "_", header)
        functions.append(f'void {name}() {{\n#line {line} "{header}"\n{code}\n}}\n')
    includes = "".join(f'#include "{header}"\n' for header in [*headers, names])
    return f"{includes}\nnamespace user {{\n\n" + "\n".join(functions) + "\n}  // namespace user\n", without


def problems(compiler, root, headers, names, source):
    """What is wrong with the `Use:` lines of these headers, as text. Writes `source`."""
    text, without = source_of(root, headers, names)
    source.write_text(text)
    command = [compiler, "-std=c++20", "-fsyntax-only", "-w", "-fdiagnostics-color=never", f"-I{root}", str(source)]
    compiled = subprocess.run(command, cwd=root, capture_output=True, text=True)
    said = [f"use_lines: {header} has no Use: line\n" for header in without]
    if compiled.returncode != 0:
        said.append(compiled.stderr)
    return "".join(said)


def installed_headers():
    command = ["cmake", f"-DROOT={ROOT}", "-P", "tools/install/headers.cmake"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


def library_of(header):
    return next(library for library, begin in LIBRARIES.items() if header.startswith(begin))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--output", help="where the sources are kept; without it nothing is")
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help=", ".join(LIBRARIES))
    options = parser.parse_args()
    headers = {}
    for header in installed_headers():
        headers.setdefault(library_of(header), []).append(header)
    bad = False
    with tempfile.TemporaryDirectory() as scratch:
        output = pathlib.Path(options.output or scratch)
        output.mkdir(parents=True, exist_ok=True)
        for library in options.libraries or headers:
            names = f"tests/checks/use_names/{library}.h"
            said = problems(options.compiler, ROOT, headers[library], names, output / f"{library}.cpp")
            bad = bad or said
            print(said or f"use_lines: those of {len(headers[library])} headers of {library} compile\n", end="")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
