"""The HTML pages of `ckpt`: that they need no network and can be read by everybody. By rules on the text always, and,
where it is installed, in headless Chromium: what it requests, its accessibility tree, contrasts as computed, a narrow
window. Use: page_test.py CKPT"""

import html.parser
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

CKPT = os.path.abspath(sys.argv[1])
VOID = {"meta", "br", "rect", "line", "img", "link", "input", "hr"}


class Page(html.parser.HTMLParser):
    """The elements of a page, in order: name, attributes, text of its own, parents."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.faults = [], [], []
        self.text = text
        self.feed(text)
        self.faults += [f"<{e['name']}> is not closed" for e in self.open]

    def handle_starttag(self, name, attributes):
        element = {"name": name, "attributes": dict(attributes), "text": "", "parents": list(self.open), "children": []}
        if self.open:
            self.open[-1]["children"].append(element)
        self.elements.append(element)
        if name not in VOID:
            self.open.append(element)

    def handle_startendtag(self, name, attributes):
        self.handle_starttag(name, attributes)
        if name not in VOID:
            self.open.pop()

    def handle_endtag(self, name):
        if not self.open or self.open[-1]["name"] != name:
            self.faults.append(f"</{name}> closes nothing")
        else:
            self.open.pop()

    def handle_data(self, data):
        if self.open:
            self.open[-1]["text"] += data

    def all(self, *names):
        return [e for e in self.elements if e["name"] in names]


def luminance(color):
    if len(color) == 4:
        color = "#" + "".join(c * 2 for c in color[1:])
    parts = [int(color[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def head_faults(page):
    attributes = page.all("html")[0]["attributes"] if page.all("html") else {}
    if not page.text.lower().startswith("<!doctype html>"):
        yield "no doctype"
    if not attributes.get("lang"):
        yield "the page says no language"
    if not any(e["text"].strip() for e in page.all("title") if e["parents"] and e["parents"][-1]["name"] == "head"):
        yield "no title"
    if not any(e["attributes"].get("charset") for e in page.all("meta")):
        yield "no character set"
    view = " ".join(e["attributes"].get("content", "") for e in page.all("meta") if e["attributes"].get("name") == "viewport")
    if "width=device-width" not in view or "user-scalable" in view or "maximum-scale" in view:
        yield "the page does not fit small screens, or cannot be made larger"


def network_faults(page):
    for name in ("script", "link", "iframe", "img", "object", "embed", "base", "form"):
        if page.all(name):
            yield f"<{name}> is there"
    for element in page.elements:
        for key in element["attributes"]:
            if key in ("src", "href", "srcset", "action", "xlink:href", "background") or key.startswith("on"):
                yield f"<{element['name']} {key}=...> is there"
    style = "".join(e["text"] for e in page.all("style"))
    if "url(" in style or "@import" in style:
        yield "the style sheet loads something"
    if "default-src 'none'" not in page.text:
        yield "no policy that forbids loading"


def structure_faults(page):
    if len(page.all("main")) != 1:
        yield "not one <main>"
    levels = [int(e["name"][1]) for e in page.all("h1", "h2", "h3", "h4")]
    if levels.count(1) != 1 or not levels or levels[0] != 1:
        yield "not one <h1> before the other headings"
    if any(b > a + 1 for a, b in zip(levels, levels[1:])):
        yield "a level of headings is left out"
    for element in page.all("h1", "h2", "h3", "summary", "dt"):
        if not element["text"].strip():
            yield f"an empty <{element['name']}>"
    for element in page.all("details"):
        if not element["children"] or element["children"][0]["name"] != "summary":
            yield "<details> without <summary>"
    ids = [e["attributes"]["id"] for e in page.elements if "id" in e["attributes"]]
    if len(ids) != len(set(ids)):
        yield "an id stands twice"
    if any(int(e["attributes"].get("tabindex", 0)) > 0 for e in page.elements):
        yield "a tabindex changes the order of keys"


def table_faults(page):
    for table in page.all("table"):
        if not table["attributes"].get("aria-label") and not any(c["name"] == "caption" for c in table["children"]):
            yield "a table without a name"
        scroller = table["parents"][-1]["attributes"]
        if scroller.get("tabindex") != "0" or scroller.get("role") != "region" or not scroller.get("aria-label"):
            yield "a table that scrolls and that keys do not reach"
    for row in page.all("tr"):
        part = row["parents"][-1]["name"]
        heads = [c for c in row["children"] if c["name"] == "th"]
        scope = "col" if part == "thead" else "row"
        if part not in ("thead", "tbody") or not heads or any(h["attributes"].get("scope") != scope for h in heads):
            yield "a row without headings, or of no scope: " + " ".join(c["text"] for c in row["children"])[:60]
        if part == "thead" and any(not h["text"].strip() for h in heads):
            yield "a column without a heading"


def picture_faults(page):
    for svg in page.all("svg"):
        label = svg["attributes"].get("aria-label", "")
        if svg["attributes"].get("role") != "img" or ":" not in label or len(label) < 10:
            yield f"a chart that says nothing in words: {label!r}"


def color_faults(page):
    style = "".join(e["text"] for e in page.all("style"))
    roots = re.findall(r":root\{([^}]*)\}", style)
    if len(roots) != 2:
        yield "not one set of colors for light and one for dark"
    for mode, root in zip(("light", "dark"), roots):
        colors = dict(re.findall(r"--(\w+):(#[0-9a-f]+)", root))
        pairs = [("fg", "bg", 4.5), ("soft", "bg", 4.5), ("fg", "head", 4.5)]
        pairs += [("on", f"c{i}", 4.5) for i in range(8)] + [(f"c{i}", "bg", 3) for i in range(8)]
        for a, b, least in pairs:
            if contrast(colors[a], colors[b]) < least:
                yield f"{mode}: {a} on {b} has a contrast of {contrast(colors[a], colors[b]):.2f}, {least} is needed"
    if re.search(r"outline\s*:\s*(none|0)", style):
        yield "what has the focus is not seen"


def faults_of(text):
    page = Page(text)
    rules = (head_faults, network_faults, structure_faults, table_faults, picture_faults, color_faults)
    return page.faults + [fault for rule in rules for fault in rule(page)]


# What makes a good page bad, and what must be said of it: the rules can fail.
MUTATIONS = [
    (' lang="en"', "", "no language"),
    ("<title>", "<title></title><b>", "no title"),
    ("<main>", "<div>", "not one <main>"),
    ("<h2>", "<h4>", "level of headings"),
    ('<th scope="row">', "<td>", "row without headings"),
    (' scope="col"', "", "of no scope"),
    (' tabindex="0"', "", "keys do not reach"),
    (' role="img"', "", "says nothing in words"),
    ("--soft:#667", "--soft:#aab", "soft on bg"),
    ("--on:#fff", "--on:#ccc", "on on c"),
    ("<main>", '<main><img src="https://example.org/x.png">', "src="),
    ("</style>", "@import 'x.css'</style>", "loads something"),
]


class Chromium:
    """Headless Chromium by its debugging pipe."""

    def __init__(self, program, folder):
        to_it, self.out = os.pipe()
        self.into, from_it = os.pipe()

        def streams():
            os.dup2(to_it, 103), os.dup2(from_it, 104)
            os.dup2(103, 3), os.dup2(104, 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", f"--user-data-dir={folder}", "--remote-debugging-pipe"],
            preexec_fn=streams, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_it), os.close(from_it)
        self.number, self.rest, self.events, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime", "Accessibility", "DOM"):
            self.call(domain + ".enable")

    def close(self):
        self.session = None
        self.call("Browser.close")
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def message(self):
        while b"\0" not in self.rest:
            part = os.read(self.into, 1 << 16)
            if not part:
                raise AssertionError("Chromium ended")
            self.rest += part
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def open(self, path):
        self.events.clear()
        self.call("Page.navigate", url="file://" + path)
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.message())

    def evaluate(self, script):
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")


# Texts whose contrast to what is behind them is below 4.5, as the browser computes both.
CONTRASTS = r"""
(() => {
  const parse = c => (c.match(/[\d.]+/g) || []).map(Number);
  const linear = v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const luminance = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
  const found = [];
  for (const e of document.querySelectorAll('main *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.namespaceURI.endsWith('svg') && e.tagName !== 'text') continue;
    const style = getComputedStyle(e);
    let behind = null;
    const box = e.tagName === 'text' && e.classList.contains('b') ? e.parentNode.querySelector('rect') : null;
    if (box) behind = parse(getComputedStyle(box).fill);
    for (let at = e; !behind && at; at = at.parentElement) {
      const c = parse(getComputedStyle(at).backgroundColor);
      if (c.length === 3 || c[3] > 0) behind = c;
    }
    behind = behind || [255, 255, 255];
    const front = parse(e.tagName === 'text' ? style.fill : style.color);
    const [a, b] = [luminance(front), luminance(behind)].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) found.push(e.textContent.trim() + ' ' + front + ' on ' + behind);
  }
  return found;
})()
"""


def tree_faults(browser):
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    shown = [n for n in nodes if not n.get("ignored")]
    roles = {}
    for node in shown:
        role = node.get("role", {}).get("value", "")
        roles.setdefault(role, []).append(node.get("name", {}).get("value", "").strip())
    for role in ("image", "table", "region", "heading", "columnheader", "rowheader", "RootWebArea"):
        if any(not name for name in roles.get(role, [])):
            yield f"Chromium: without a name: {role}"
    for role in ("main", "heading", "image", "RootWebArea"):
        if not roles.get(role):
            yield f"Chromium: no {role}"


def browser_faults(browser, path):
    browser.call("Emulation.setDeviceMetricsOverride", width=1200, height=900, deviceScaleFactor=1, mobile=False)
    browser.open(path)
    for event in browser.events:
        url = event.get("params", {}).get("request", {}).get("url", "")
        if event.get("method") == "Network.requestWillBeSent" and url != "file://" + path:
            yield f"Chromium: {url} was asked for"
        if event.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
            yield f"Chromium: {json.dumps(event['params'])[:200]}"
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    yield from tree_faults(browser)
    for mode in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": mode}])
        yield from (f"Chromium, {mode}: {fault}" for fault in browser.evaluate(CONTRASTS)[:5])
    browser.call("Emulation.setDeviceMetricsOverride", width=320, height=640, deviceScaleFactor=1, mobile=False)
    if browser.evaluate("document.scrollingElement.scrollWidth > innerWidth"):
        yield "Chromium: 320 pixels wide the page scrolls sideways"


def browser_misses(browser, good, path):
    """How many faults of a bad page Chromium does not show."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(good.replace("--soft:#667", "--soft:#aab").replace("<main>", '<main><img src="http://127.0.0.1:9/x">')
                   .replace("<h1>", '<h1 style="min-width:2000px">').replace(' role="img" aria-label=', ' role="img" title='))
    faults = list(browser_faults(browser, path))
    missed = [w for w in ("Chromium, light: ", "sideways", "without a name: image", "Content Security Policy", "127.0.0.1")
              if not any(w in fault for fault in faults)]
    if missed:
        print(f"Chromium does not show {missed}: {faults}")
    return len(missed)


def write(path, names):
    header, data = {}, b""
    for i, name in enumerate(names):
        values = [float(k % 7 - 3 + i) for k in range(4 * (i % 9 + 1))]
        part = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": [4, i % 9 + 1], "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def make_pages(folder):
    """Pages of every command that makes some: of a small file, and of one whose tables are folded."""
    small = ["encoder.layer0.weight", "encoder.layer0.bias", "head.weight", "odd <&\"' name"]
    many = [f"part{i % 9}.layer{i}.{kind}" for i in range(40) for kind in ("weight", "bias")]
    write(os.path.join(folder, "small.safetensors"), small)
    write(os.path.join(folder, "many.safetensors"), many)
    write(os.path.join(folder, "other.safetensors"), many[1:] + ["new"])
    pages = {"info.html": ["info", "small.safetensors"], "info_many.html": ["info", "many.safetensors"],
             "stat.html": ["stat", "small.safetensors"], "stat_many.html": ["stat", "many.safetensors"],
             "diff.html": ["diff", "many.safetensors", "other.safetensors"]}
    for name, words in pages.items():
        subprocess.run([CKPT, *words, "--html", name], cwd=folder, stdout=subprocess.DEVNULL, check=False)
        assert os.path.exists(os.path.join(folder, name)), words
    return [os.path.join(folder, name) for name in pages]


def started(program, profile):
    try:
        return Chromium(program, profile)
    except (AssertionError, BrokenPipeError, OSError):
        return None


def main():
    bad = 0
    program = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as profile:
        pages = make_pages(folder)
        browser = started(program, profile) if program else None
        for path in pages:
            with open(path, encoding="utf-8") as file:
                faults = faults_of(file.read())
            if browser:
                faults += browser_faults(browser, path)
            print(f"{os.path.basename(path)}: {'good' if not faults else faults}")
            bad += len(faults)
        with open(pages[0], encoding="utf-8") as file:
            good = file.read()
        if browser:
            bad += browser_misses(browser, good, os.path.join(folder, "bad.html"))
            browser.close()
        for old, new, wanted in MUTATIONS:
            assert old in good, old
            faults = faults_of(good.replace(old, new, 1))
            if not any(wanted in fault for fault in faults):
                print(f"not found: {old!r} -> {new!r}: {faults}")
                bad += 1
    if not program:
        print("by rules alone: chromium was not found")
    else:
        print("in Chromium too" if browser else "by rules alone: chromium does not start here")
    sys.exit(1 if bad else 0)


main()
