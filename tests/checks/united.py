#!/usr/bin/env python3
"""Checks that no two sources of a folder that united builds compile as one (CMAKE_UNITY_BUILD) have a name alike in their
anonymous namespaces (functions may share one where their parameters differ), and that no namespace has two types of one name:
the linker takes their functions for one another. Usage: python3 tests/checks/united.py"""

import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def setting(name):
    return re.search(rf'set\({name} "([^"]*)"\)', (ROOT / "CMakeLists.txt").read_text()).group(1)


def united_sources():
    united, apart = re.compile(setting("CKPT_UNITED")), re.compile(setting("CKPT_APART"))
    for name in subprocess.run(["git", "ls-files", "*.cpp"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split():
        folder = str(pathlib.PurePath(name).parent)
        if united.search(folder) and not apart.search(folder):
            yield name


def tags_of(sources, kinds):
    tags = subprocess.run(
        ["ctags", "--output-format=json", f"--c++-kinds={kinds}", "--fields=+Ss", "--language-force=C++", "-f", "-", "-L", "-"],
        cwd=ROOT, input="\n".join(sources), capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in tags.splitlines()]


def types_of_several_files():
    """name -> files, of types at namespace scope that more than one file defines."""
    files = subprocess.run(["git", "ls-files", *(f"{top}/*.{end}" for top in ("libcore", "libckpt", "zoo", "tools") for end in ("h", "cpp"))],
                           cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    found = collections.defaultdict(set)
    for tag in tags_of(files, "scgu"):
        scope = tag.get("scope", "")
        if tag.get("scopeKind", "namespace") == "namespace" and "__anon" not in scope + tag["name"]:
            found[f"{scope}::{tag['name']}"].add(tag["path"])
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def local_names(sources):
    """(folder, name) -> {(source, kind, types of the parameters)} of what stands in anonymous namespaces themselves."""
    found = collections.defaultdict(set)
    for tag in tags_of(sources, "fvscugte"):
        here = tag.get("scopeKind") == "namespace" and re.search(r"__anon[0-9a-f]+$", tag.get("scope", ""))
        if here and not tag["name"].startswith("__anon"):
            types = re.sub(r"\s+", "", re.sub(r"\b\w+(?=[,)])", "", tag.get("signature", "")))
            found[str(pathlib.PurePath(tag["path"]).parent), tag["name"]].add((tag["path"], tag["kind"], types))
    return found


def clash(uses):
    """Sources that cannot be compiled as one for this name."""
    if any(kind != "function" for _, kind, _ in uses):
        return {path for path, _, _ in uses}
    by_types = collections.defaultdict(set)
    for path, _, types in uses:
        by_types[types].add(path)
    return max(by_types.values(), key=len)


def main():
    bad = 0
    for (_, name), uses in sorted(local_names(list(united_sources())).items()):
        paths = clash(uses)
        if len(paths) > 1:
            print(f"{name} stands in {' and '.join(sorted(paths))}: give one of them another name")
            bad += 1
    for name, paths in sorted(types_of_several_files().items()):
        print(f"{name} is a type of {' and '.join(sorted(paths))}: give one of them another name")
        bad += 1
    print(f"united: {bad} names stand twice" if bad else "united: every name stands once in its folder")
    return 1 if bad else 0


sys.exit(main())
