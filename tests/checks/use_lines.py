#!/usr/bin/env python3
"""Checks that the `Use:` lines of headers compile: those of every installed one, and of folders inside libckpt.

    use_lines.py [--compiler g++] [--output FOLDER] [GROUP...]      without names all

A `Use:` line stands in the comment that a header begins with. It is C++ as a user writes it in a function: with
namespaces spelt out; inside libckpt, in its namespace. It runs from `Use:` to a blank line of the comment, to the next
labelled part (`Source:`, `Errors:`, `Thread safety:`, `Cost:`) or to the end of the comment. `...` where a statement may
begin stands for any statements: it is read as an empty one. What a snippet takes as given (`x`, `model`, `path`) is
declared in use_names/GROUP.h. A header without a `Use:` line is an error.

Each group's snippets become one source, a function each, of which only the syntax is checked; `#line` makes the
compiler name the header and the line in it.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Groups of headers by how their paths begin; a header is of the first that fits.
INSTALLED = {
    "dist": ("libcore/dist/", "libcore/dist.h"),
    "dist_bridge": ("libckpt/dist/", "libckpt/dist.h"),
    "libcore": "libcore/",
    "bridge": "libckpt/bridge",
    "onnx": ("libckpt/onnx/", "libckpt/onnx.h"),
    "libckpt": "libckpt/",
    "zoo": "zoo/",
}
# Where a group's snippets stand, if not with namespaces spelt out.
NAMESPACES = {"dist": "core::distributed::user", "dist_bridge": "ckpt::dist::user"}
INTERNAL = {
    "io": "libckpt/io/",
    "transform": "libckpt/transform/",
    "why": "libckpt/analyze/why/",
    "analyze": "libckpt/analyze/",
}

COMMENT_LINE = re.compile(r"\s*(?://|/\*\*?|\*(?!/)) ?(.*?)\s*(?:\*/)?$")
BEGIN = re.compile(r"(?:^|(?<=\s))Use:(?=\s|$)")
NEXT_PART = re.compile(r"(?:^|(?<=\s))(?:Source|Errors|Thread safety|Cost):(?=\s|$)")
# `...` after what ends a statement or opens one; in an argument list it is left, and fails to compile.
ANY_STATEMENTS = re.compile(r"(^|[;{})])(\s*)\.\.\.")


def snippet_of(header_text):
    """The number of the line that has `Use:`, and the snippet; None without one."""
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
    return begun, ANY_STATEMENTS.sub(r"\1\2;", "\n".join(snippet))


def source_of(root, headers, names, namespace="user"):
    """The source that has every snippet of these headers, and which of them have none. `names` is the header that
    declares what they take as given, in `namespace`."""
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
    body = "\n".join(functions)
    return f"{includes}\nnamespace {namespace} {{\n\n{body}\n}}  // namespace {namespace}\n", without


def problems(compiler, root, headers, names, source, namespace="user"):
    """What is wrong with the `Use:` lines of these headers, as text. Writes `source`."""
    text, without = source_of(root, headers, names, namespace)
    source.write_text(text)
    command = [compiler, "-std=c++20", "-fsyntax-only", "-w", "-fdiagnostics-color=never", f"-I{root}", str(source)]
    compiled = subprocess.run(command, cwd=root, capture_output=True, text=True)
    said = [f"use_lines: {header} has no Use: line\n" for header in without]
    if compiled.returncode != 0:
        said.append(compiled.stderr)
    return "".join(said)


def installed_headers():
    command = ["cmake", f"-DROOT={ROOT}", "-P", "tools/install/headers.cmake"]
    installed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [header for header in installed if header.endswith(".h")]  # a table (.inc) is for a header to include


def group_of(header, begins):
    return next((group for group, begin in begins.items() if header.startswith(begin)), None)


def header_groups():
    """The headers of every group."""
    groups = {group: [] for group in [*INSTALLED, *INTERNAL]}
    installed = installed_headers()
    for header in installed:
        groups[group_of(header, INSTALLED)].append(header)
    for path in sorted((ROOT / "libckpt").rglob("*.h")):
        header = str(path.relative_to(ROOT))
        group = group_of(header, INTERNAL)
        if group and header not in installed:
            groups[group].append(header)
    return groups


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--output", help="where the sources are kept; without it nothing is")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join([*INSTALLED, *INTERNAL]))
    options = parser.parse_args()
    groups = header_groups()
    bad = False
    with tempfile.TemporaryDirectory() as scratch:
        output = pathlib.Path(options.output or scratch)
        output.mkdir(parents=True, exist_ok=True)
        for group in options.groups or groups:
            names = f"tests/checks/use_names/{group}.h"
            namespace = NAMESPACES.get(group, "ckpt::detail::user" if group in INTERNAL else "user")
            said = problems(options.compiler, ROOT, groups[group], names, output / f"{group}.cpp", namespace)
            bad = bad or said
            print(said or f"use_lines: {len(groups[group])} headers of {group}, all compile\n", end="")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
