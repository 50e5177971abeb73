#!/usr/bin/env python3
"""Checks that no two sources of a folder that united builds compile as one (CMAKE_UNITY_BUILD) have a name alike in their
anonymous namespaces (functions may share one where their parameters differ), and that no namespace has two types of one name:
the linker takes their functions for one another. Usage: python3 tests/checks/united.py
With --groups FILE, whose lines are "target source kind": prints "target source group", where the sources of a group are of one
kind and have no such names alike (CKPT_UNITE_ALL)."""

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


# What ctags takes for functions.
MACROS = re.compile(r"^(TEST|TEST_F|TEST_P|TYPED_TEST\w*|INSTANTIATE\w*|MATCHER\w*|REGISTER\w*|EXPECT\w*)$")
AT_MOST = 6  # sources of a group: some seconds and half a gigabyte


def words_of(source):
    """What else of a file reaches those behind it (macros, aliases of namespaces, whole namespaces), and all words in it."""
    text = pathlib.Path(source).read_text()
    macros = set(re.findall(r"^#\s*define (\w+)", text, re.M)) - set(re.findall(r"^#\s*undef (\w+)", text, re.M))
    aliases = dict(re.findall(r"^namespace (\w+) = ([\w:]+);", text, re.M))
    return macros, aliases, frozenset(re.findall(r"^using namespace ([\w:]+);", text, re.M)), set(re.findall(r"\w+", text))


def names_of_headers():
    # Not from git: sources are built where they are a copy too.
    headers = [str(path.relative_to(ROOT)) for folder in sorted(ROOT.glob("*/CMakeLists.txt")) for path in sorted(folder.parent.rglob("*.h"))]
    return {tag["name"] for tag in tags_of(headers, "scgutfpv") if tag.get("scopeKind", "namespace") == "namespace"}


def may_stand_together(one, other, names, files, of_headers):
    if names[one] & names[other]:
        return False
    # A name of a header that one file gives to something of its own is not the header's any more behind it.
    for mine, its in ((one, other), (other, one)):
        if names[mine] & of_headers & files[its][3]:
            return False
    (macros, aliases, whole, _), (its_macros, its_aliases, its_whole, _) = files[one], files[other]
    alike = all(aliases[name] == its_aliases[name] for name in aliases.keys() & its_aliases.keys())
    return alike and whole == its_whole and not macros & its_macros


def names_of(sources):
    """source -> names in its anonymous namespaces. ctags overlooks some constants."""
    names = collections.defaultdict(set)
    for (_, name), uses in local_names(sources).items():
        if not MACROS.match(name):
            for path, _, _ in uses:
                names[path].add(name)
    constant = re.compile(r"^(?:static |inline )?(?:constexpr|const) .*?(\w+)(?:\[\w*\])? ?[={]", re.M)
    for source in sources:
        names[source].update(constant.findall(pathlib.Path(source).read_text()))
    return names


def groups_of(lines):
    sources = sorted({source for _, source, _ in lines})
    names, files, of_headers = names_of(sources), {source: words_of(source) for source in sources}, names_of_headers()
    groups = collections.defaultdict(list)  # target and kind -> lists of sources
    for target, source, kind in sorted(lines):
        for group in groups[target, kind]:
            if len(group) < AT_MOST and all(may_stand_together(source, member, names, files, of_headers) for member in group):
                group.append(source)
                break
        else:
            groups[target, kind].append([source])
    for (target, kind), its in groups.items():
        for number, group in enumerate(its):
            for source in group:
                print(target, source, f"{kind}_{number}")


def main():
    if sys.argv[1:2] == ["--groups"]:
        groups_of([line.split() for line in pathlib.Path(sys.argv[2]).read_text().splitlines()])
        return 0
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
