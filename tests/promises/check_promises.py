#!/usr/bin/env python3
"""Holds `ckpt why` to what it says: every printed command goes to a real shell, every printed line of Python to a real
interpreter, and what comes of it is loaded strictly by PyTorch and compared, bit for bit, with the weights of the training.

Run where torch is installed, after make_cases.py (about a minute for 700 cases):

    OMP_NUM_THREADS=1 python check_promises.py --ckpt build/bin/ckpt --cases OUT [--only REGEX] [--table] [--results FILE]
    ... --pack tests/golden/promises.tar.xz    # also records the verdicts, for tests that have no PyTorch

Exit 1 when a promise was broken. Promises are: "it loads as it is" (and exit 0), "every name matches" where shapes are not
known, a check mark behind "after", each command below "fix" and "for PyTorch", each line below "python", both below "to take
'ema' instead", and each command and call in an advice. Missed is what was possible and not offered; silent an answer without
the word it is about ("LFS" of a pointer).
"""

import argparse
import collections
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

import torch

import models
from judge import in_child, judge_as_it_is, judge_call, judge_file, judge_line, judge_other_dict, outcome
from situation import WITHOUT_FILE

# What an advice holds that can be pasted; NAME and URL are the reader's to fill in.
COMMAND = re.compile(r"\b(?:ckpt (?!convert\b)[a-z]+ |gunzip )[^;,()]*")
CALL = re.compile(r"\b(?:model\.load_state_dict|torch\.(?:jit\.)?load|safetensors\.torch\.load_model)\(")
OFFERS = ("fix", "python", "loads as it is", "names match")
FETCHES = ("curl ", "git ", "wget ", "hf ", "huggingface-cli ", "pip ")


class Case:
    """One command of a user, in a folder of its own."""

    def __init__(self, corpus, record, root):
        self.record, self.root = record, root
        self.situation = corpus["situations"][record["situation"]]
        self.model = self.situation["model"]
        self.told = {"through": self.situation.get("through", ""), "free": self.situation.get("free", [])}
        self.has_target = False

    def fill(self, folder):
        shutil.copytree(os.path.join(self.root, "files", self.record["situation"]), folder, dirs_exist_ok=True)
        lists = os.path.join(self.root, "models", self.model.replace(" ", "_"))
        for name in os.listdir(lists):
            if name in self.record["argv"]:
                shutil.copy(os.path.join(lists, name), folder)
        if self.record["mode"] in WITHOUT_FILE:
            path = os.path.join(folder, self.situation["file"])
            if os.path.isfile(path):
                shutil.copy(path, os.path.join(folder, "FILE"))
        for name, text in (
            ("error.txt", self.situation["before"]["says"]),
            ("traceback.txt", self.situation.get("traceback", "")),
        ):
            if name in self.record["argv"]:
                write_text(os.path.join(folder, name), text)
        if "redirect" in self.record:
            write_text(os.path.join(folder, self.record["redirect"]), self.situation["before"]["says"])

    def command(self):
        redirect = " < " + self.record["redirect"] if "redirect" in self.record else ""
        return shlex.join(["ckpt"] + self.record["argv"]), redirect

    def named_place(self):
        """The user named it, or took it from there before there was a message, which does not say so."""
        taken = "['state_dict']" in self.situation.get("attempt", "") and self.record["mode"] in WITHOUT_FILE
        return "state_dict" if taken or self.record["mode"] == "for_place" else ""

    def piped(self):
        kind = self.record.get("pipe")
        if not kind:
            return ""
        return self.situation["before"]["says"] if kind == "error.txt" else self.situation["traceback"]


def write_text(path, text):
    with open(path, "w") as out:
        out.write(text + "\n")


def run_sh(command, folder, text=""):
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, input=text, capture_output=True, text=True, errors="replace", timeout=120
    )


def lines_below(text, heading):
    """The indented lines below a heading, which may say more behind a comma: "fix, as far as names tell"."""
    found, inside = [], False
    for line in text.splitlines():
        if inside and line.startswith("  "):
            found.append(line[2:])
        else:
            inside = line.strip().partition(",")[0] == heading
    return found


def alternatives(text):
    """(place, line) of every line below "to take 'ema' instead"."""
    found, place = [], None
    for line in text.splitlines():
        heading = re.fullmatch(r"to take '(.*)' instead", line)
        if heading:
            place = heading[1]
        elif place is not None and line.startswith("  "):
            found.append((place, line[2:]))
        else:
            place = None
    return found


def calls(line):
    """Each with what stands between its brackets."""
    for start in CALL.finditer(line):
        depth = 0
        for at in range(start.end() - 1, len(line)):
            depth += {"(": 1, ")": -1}.get(line[at], 0)
            if depth == 0:
                yield line[start.start() : at + 1]
                break


def advised(text):
    """Commands and calls in advices, and in the sentence about a message."""
    found = []
    for line in text.splitlines():
        if re.match(r" *advice: |note: (the message|models often)", line):
            found += [m.strip(" '") for m in COMMAND.findall(line) if not re.search(r"\b(NAME|URL)\b", m)]
            found += calls(line)
    return found


def snapshot(folder):
    files = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            info = os.lstat(path)
            files[path] = (info.st_size, info.st_mtime_ns, info.st_ino)
    return files


def made_by(before, folder):
    """The file, or the folder of a sharded model, that is new."""
    new = [path for path, facts in snapshot(folder).items() if before.get(path) != facts]
    index = [path for path in new if path.endswith(".index.json")]
    if index or len(new) == 1:
        return (index or new)[0]
    return max(new, key=os.path.getsize) if new else None


def judged(case, folder, work):
    def there():
        os.chdir(folder)
        return work()

    return in_child(there)


# ---- promises ----


def must_load(case):
    """A model is known, or the file alone tells all."""
    return case.has_target or case.record["expect"] in ("fixable", "loads")


def check_command(case, command, folder):
    before = snapshot(folder)
    done = run_sh(command, folder)
    if done.returncode != 0:
        return {"loads": False, "says": f"exit {done.returncode}: {done.stderr.strip()[:400]}"}
    out = made_by(before, folder)
    if out is None:
        return {"loads": False, "says": "the command wrote nothing"}
    ours = case.situation["format"] in ("native", "h5", "gguf")
    if must_load(case):
        at = case.named_place()
        return judged(case, folder, lambda: judge_file(out, case.model, ours=ours, at=at, **case.told))
    if case.record["mode"] in WITHOUT_FILE:  # nobody knows what lies in it
        return judged(case, folder, lambda: outcome(lambda: torch.load(out)))
    return judged(case, folder, lambda: judge_as_it_is(out, case.model, target=False, ours=ours))  # its keys are nobody's yet


def check_fetch(case, command, folder):
    """Commands that fetch a file are not run; they must not point at what is a folder here."""
    words = shlex.split(command)
    onto = words[words.index("-o") + 1] if "-o" in words else ""
    if onto and os.path.isdir(os.path.join(folder, onto)):
        return {"loads": False, "says": f"the download would go over the folder {onto}"}
    return None


def check_loads(case, folder):
    path = "FILE" if case.record["mode"] in WITHOUT_FILE else case.situation["file"]
    target = case.has_target or case.record["mode"] != "alone"
    return judged(case, folder, lambda: judge_as_it_is(path, case.model, target=target, **case.told))


def printed_promises(case, text, facts):
    """(kind, what was printed), in the order in which a user would try them."""
    python = lines_below(text, "python")
    promises = [("loads as it is", "exit 0")] if facts.get("loads") else []
    names = re.search(r"^(?:(.+): )?every name matches", text, re.MULTILINE)
    promises += [("names match", names[1] or "")] if names else []
    promises += [("python", line) for line in python if "after the command" not in line]
    fixes = lines_below(text, "fix")
    promises += [("fix", line) for line in fixes]
    promises += [("for PyTorch", line) for line in lines_below(text, "for PyTorch")]
    promises += [("python", line) for line in python if "after the command" in line]
    tick = re.search(r"\u2713 [\d,]+ of [\d,]+ after", text) or facts.get("fixable")
    if tick and not fixes and not python and not facts.get("loads"):
        promises.append(("check mark", "nothing to paste"))
    promises += [("other dict", pair) for pair in alternatives(text)]
    promises += [("advice", line) for line in advised(text)]
    return promises


def check_names(case, name, folder):
    """Shapes are not promised: the list has none. Of a folder the file in it is named."""
    path = name or case.situation["file"]
    verdict = judged(case, folder, lambda: judge_as_it_is(path, case.model, **case.told))
    return {"loads": True, "says": ""} if "size mismatch for" in verdict["says"] else verdict


def check_other_dict(case, place, line, folder):
    """It gives the other dict: loaded strictly where a model is known, with its own weights."""
    made = None
    if not line.startswith(("model.", "state_dict", "sd ", "import ")):
        before = snapshot(folder)
        done = run_sh(line, folder)
        made = made_by(before, folder)
        if done.returncode != 0 or made is None:
            return {"loads": False, "says": f"exit {done.returncode}: {done.stderr.strip()[:400]}"}
    path, model = case.situation["file"], case.model if case.has_target else ""
    return judged(case, folder, lambda: judge_other_dict(path, place, model, made=made, line=line))


def check_advice(case, line, folder):
    """A command runs, and what it makes can be loaded; a call gives the weights. Of a file that is not good it may say so."""
    good = case.situation["format"] == "message" or case.record["expect"] != "no"
    if CALL.match(line):
        return judged(case, folder, lambda: judge_call(line, case.model)) if good else None
    if line.startswith(("ckpt fix", "ckpt cast", "gunzip")) and good and case.situation["format"] != "message":
        return check_command(case, line, folder)
    done = run_sh(line, folder)
    understood = done.returncode in (0, 1, 3) and "--help" not in done.stderr
    return {"loads": understood, "says": "" if understood else f"exit {done.returncode}: {done.stderr.strip()[:400]}"}


def check_one(case, kind, line, folder):
    """None where nothing was promised."""
    if kind == "loads as it is":
        return check_loads(case, folder)
    if kind == "names match":
        return check_names(case, line, folder)
    if kind == "other dict":
        return check_other_dict(case, line[0], line[1], folder)
    if kind == "advice":
        return check_advice(case, line, folder)
    if kind == "check mark":
        return {"loads": False, "says": "a check mark, and no command that would do it"}
    if kind == "python":
        unknown = case.record["mode"] in WITHOUT_FILE and case.situation["format"] not in ("zip", "legacy")
        if not must_load(case) or unknown:  # a message does not say what the file is that it calls FILE
            return None
        return judged(case, folder, lambda: judge_line(line, case.model, **case.told))
    if line.startswith(FETCHES):
        return check_fetch(case, line, folder)
    return check_command(case, line, folder)


def needless_or_wrong(case, kind, verdict):
    if verdict["loads"] and case.record["expect"] == "no" and kind in ("fix", "python", "check mark") and case.has_target:
        return {"loads": False, "says": "it loads, but it is made of a file of another model, or of a damaged one"}
    return verdict


def was_missed(case, promises):
    expect = case.record["expect"]
    kept = [p for p in promises if p["kept"]]
    return expect in ("loads", "fixable") and not any(p["kind"] in OFFERS for p in kept)


def check_case(case, folder):
    case.fill(folder)
    words, redirect = case.command()
    told = run_sh(words + redirect, folder, case.piped())
    asked = run_sh(words + " --json" + redirect, folder, case.piped())
    try:
        facts = json.loads(asked.stdout)
    except ValueError:
        facts = {}
    case.has_target = bool(facts.get("target"))
    promises = []
    for kind, line in printed_promises(case, told.stdout, facts):
        verdict = check_one(case, kind, line, folder)
        if verdict and not verdict["loads"] and ", as far as names tell" in told.stdout and "size mismatch" in verdict["says"]:
            continue  # it was said that shapes are not known
        if verdict is not None:
            verdict = needless_or_wrong(case, kind, verdict)
            line = line[1] if kind == "other dict" else line
            promises.append({"kind": kind, "line": line, "kept": verdict["loads"], "says": verdict["says"]})
    tells = case.record.get("tells", [])
    silent = bool(tells) and not any(word in (told.stdout + told.stderr).lower() for word in tells)
    return {
        "silent": silent,
        "id": case.record["id"],
        "situation": case.record["situation"],
        "command": words + redirect,
        "exit": told.returncode,
        "out": told.stdout,
        "err": told.stderr,
        "expect": case.record["expect"],
        "tells": tells,
        "promises": promises,
        "missed": was_missed(case, promises),
        "claims": {"loads": bool(facts.get("loads")), "fixable": bool(facts.get("fixable"))},
    }


# ---- report ----


def indented(text):
    return "".join("    " + line + "\n" for line in text.rstrip("\n").splitlines())


def tell(result, corpus):
    situation = corpus["situations"][result["situation"]]
    print(f"\n{result['id']}  (right: {result['expect']}; PyTorch before: {situation['before']['says'][:120] or 'loads'!r})")
    print(f"  $ {result['command'][:300]}   -> exit {result['exit']}")
    print(indented(result["out"][:1500] + result["err"][:300]), end="")
    for p in result["promises"]:
        print(f"  {'kept  ' if p['kept'] else 'BROKEN'} {p['kind']}: {p['line'][:200]}")
        if not p["kept"]:
            print(f"         {p['says'][:500]}")


def table(results):
    kinds = ("loads as it is", "names match", "fix", "for PyTorch", "python", "other dict", "advice", "check mark")
    count = collections.Counter()
    for result in results:
        for p in result["promises"]:
            count[p["kind"], p["kept"]] += 1
    lines = [f"{'':18}{'made':>6}{'kept':>6}{'broken':>8}"]
    for kind in kinds:
        kept, broken = count[kind, True], count[kind, False]
        lines.append(f"{kind:18}{kept + broken:6}{kept:6}{broken:8}")
    kept = sum(n for (_, ok), n in count.items() if ok)
    broken = sum(n for (_, ok), n in count.items() if not ok)
    lines.append(f"{'all':18}{kept + broken:6}{kept:6}{broken:8}")
    bad = sum(any(not p["kept"] for p in r["promises"]) for r in results)
    lines.append(
        f"{len(results)} cases, {bad} with a broken promise, {sum(r['missed'] for r in results)} missed, {sum(r['silent'] for r in results)} silent"
    )
    return "\n".join(lines), broken


def pack(folder, results, archive):
    """The corpus and PyTorch's verdicts on what was printed, as one archive that is the same whenever it is made."""
    verdicts = {
        r["id"]: {"silent": r["silent"], "promises": [[p["kind"], p["line"], p["kept"], p["says"]] for p in r["promises"]]}
        for r in results
    }
    with open(folder + "/verdicts.json", "w") as out:
        json.dump(verdicts, out, indent=0, ensure_ascii=False)

    def plain(info):
        info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
        info.mode = 0o755 if info.isdir() else 0o644
        return info

    with tarfile.open(archive, "w:xz", preset=9) as out:
        for place, folders, names in os.walk(folder):
            folders.sort()
            inside = os.path.relpath(place, folder)
            for name in sorted(names) or [""]:
                path = os.path.normpath(os.path.join(inside, name))
                out.add(
                    os.path.join(folder, path), os.path.normpath(os.path.join("promises", path)), recursive=False, filter=plain
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ckpt", default="build/bin/ckpt")
    parser.add_argument("--cases", required=True, help="what make_cases.py wrote")
    parser.add_argument("--only", default="", help="cases whose name this regular expression finds")
    parser.add_argument("--table", action="store_true", help="only the table")
    parser.add_argument("--pack", help="the archive to write, of all cases")
    parser.add_argument("--results", help="where to write all results as JSON")
    options = parser.parse_args()
    program = os.path.abspath(options.ckpt)
    os.environ["CKPT"] = program
    os.environ["PATH"] = os.path.dirname(program) + ":/usr/bin:/bin"
    torch.set_num_threads(1)
    with open(options.cases + "/cases.json") as file:
        corpus = json.load(file)
    chosen = [c for c in corpus["cases"] if re.search(options.only, c["id"])]
    for name in {corpus["situations"][c["situation"]]["model"] for c in chosen}:
        models.trained(name)  # once, for all children
    import safetensors.torch  # noqa: F401

    started, results = time.time(), []
    for record in chosen:
        folder = tempfile.mkdtemp(prefix="promise-")
        try:
            results.append(check_case(Case(corpus, record, options.cases), folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    for result in results:
        if not options.table and any(not p["kept"] for p in result["promises"]):
            tell(result, corpus)
    missed = [r["id"] for r in results if r["missed"]]
    if missed and not options.table:
        print("\nmissed:\n  " + "\n  ".join(missed))
    silent = [f"{r['id']}: {' | '.join(r['tells'])}" for r in results if r["silent"]]
    if silent and not options.table:
        print("\nnot said, of what the answer must speak:\n  " + "\n  ".join(silent))
    text, broken = table(results)
    print(f"\n{text} ({time.time() - started:.0f} s)")
    if options.results:
        with open(options.results, "w") as out:
            json.dump(results, out, indent=1)
    if options.pack:
        pack(options.cases, results, options.pack)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
