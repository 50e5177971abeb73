#!/usr/bin/env python3
"""Compiles every snippet of snippets.txt against core.h, counts those that do, and reads what the compiler says of the
others. Use: snippets_test.py COMPILER ROOT; exit status 1 when a snippet does what the file does not say of it."""

import re
import subprocess
import sys
from pathlib import Path

LINES_OF_A_MESSAGE = 5  # errors and notes, without what led to them


def read_snippets(path: Path):
    """The lines that stand in front of all, and (name, advice or None, code) of each snippet."""
    given, snippets, section = [], [], ""
    for line in path.read_text().splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif section == "given":
            given.append(line)
        elif line and not line.startswith("#"):
            refused = re.match(r"([a-z0-9-]+)! (.*) => (.*)", line)
            name, advice, code = refused.groups() if refused else (line[: line.index(":")], None, line[line.index(":") + 2 :])
            snippets.append((name, advice, code))
    return "\n".join(given), snippets


def function(name: str, code: str) -> str:
    return f'#line 1 "{name}"\nstruct Of_{name.replace("-", "_")} : Given {{ void run() {{\n#line 1 "{name}"\n{code}\n}} }};\n'


def compile_text(compiler: str, root: Path, text: str) -> str:
    """What the compiler says; empty where it is content."""
    command = [compiler, "-std=c++20", f"-I{root}", "-fsyntax-only", "-x", "c++", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def main() -> int:
    compiler, root = sys.argv[1], Path(sys.argv[2]).resolve()
    given, snippets = read_snippets(Path(__file__).with_name("snippets.txt"))
    good = [(name, code) for name, advice, code in snippets if advice is None]
    wrong = []
    said = compile_text(compiler, root, given + "\n" + "".join(function(*snippet) for snippet in good))
    failed = {name for name, _ in good if re.search(rf"^{re.escape(name)}:\d+", said, re.M)}
    if said and not failed:
        wrong.append("the lines in front of all do not compile:\n" + said[:2000])
    for name in sorted(failed):
        errors = re.findall(rf"^{re.escape(name)}:\d+.*error.*", said, re.M) or re.findall(".*error:.*", said)[:3]  # in a header
        wrong.append(name + " does not compile:\n" + "\n".join(errors))
    tried = 0
    for name, advice, code in snippets:
        if advice is None or "clang" in compiler:  # the words are those of g++
            continue
        tried += 1
        said = compile_text(compiler, root, given + "\n" + function(name, code))
        lines = [line for line in said.splitlines() if re.search(r"(error|note|static assertion)", line)]
        lines = [line for line in lines if "required from" not in line and "In instantiation" not in line]
        if not said:
            wrong.append(f"{name} compiles, and says nothing of '{advice}'")
        elif advice not in said:
            wrong.append(f"{name}: '{advice}' is not in\n" + "\n".join(lines[:8]))
        elif len(lines) > LINES_OF_A_MESSAGE:
            wrong.append(f"{name}: {len(lines)} lines:\n" + "\n".join(lines[:8]))
    print(f"{len(good) - len(failed)} of {len(good)} snippets that should compile do; refusals tried: {tried}")
    for text in wrong:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
