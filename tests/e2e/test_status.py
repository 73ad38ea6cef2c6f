#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One status, three ways to see it: the page, /statusz and mvproxyctl say the same of every server, soon after it has died; and the page in a real
browser: light and dark, without a request to anybody else, and without markup of others."""

import base64
import html.parser
import json
import os
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import urllib.request
import zlib

import yaml

import fixture
from fixture import check, equal, until

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"  # served by b only
STATUSZ = "application/json;v=%s;g=config.k8s.io;as=Statusz"
SOON = 10  # seconds, of patience; discovery by itself is looked at once an hour here
HOSTILE = "<script>document.title='taken'</script>\x1b[31m"


def setup():
    return fixture.World(options={"discovery-refresh-interval": "1h"}).start()


def ctl(world, *arguments):
    program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")
    return subprocess.run([program, "--socket", world.proxies["a"].options["control-socket"], *arguments], capture_output=True, text=True,
                          check=False, timeout=fixture.PATIENCE).stdout


def statusz(world, version):
    request = urllib.request.Request("http://%s/statusz" % world.proxies["a"].admin, headers={"Accept": STATUSZ % version})
    with urllib.request.urlopen(request, timeout=fixture.PATIENCE) as answer:
        equal(answer.headers["Content-Type"], STATUSZ % version, "media type")
        return json.load(answer)


def words(text):
    """Of the page: what is read."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))


def views(world):
    """What each says, as text."""
    proxy = world.proxies["a"]
    return {
        "page": words(proxy.get("/")[1]),
        "statusz": proxy.get("/statusz")[1],
        "statusz v1beta1": json.dumps(statusz(world, "v1beta1")["status"]),
        "statusz v1alpha1": json.dumps(statusz(world, "v1alpha1")["status"]),
        "mvproxyctl status": ctl(world, "status"),
        "mvproxyctl -o json status": ctl(world, "-o", "json", "status"),
    }


def servers(world):
    return {s["hostname"]: s for s in json.loads(ctl(world, "-o", "json", "status"))["servers"]}


def all_say(world, state):
    """Each of the views by itself, so that it is known which one does not."""
    for name in views(world):
        until(lambda n=name: state in views(world)[n], "%s to say %r" % (name, state), SOON)


def test_same(world):
    """host names, versions and state of each server, in every view"""
    until(lambda: all(s["answers"] == "answers" and s["version"] for s in servers(world).values()), "all to have told their versions", SOON)
    told = servers(world)
    equal({n: (s["version"], s["state"]) for n, s in told.items()},
          {"test-server-a": ("v1.33.0", "local"), "test-server-b": ("v1.34.0", "live")}, "servers")
    for server in told.values():  # its own, and what the peer says of itself
        check(server["mvproxyVersion"] and server["hasMvproxy"], "its mvproxy", server)
    equal(told["test-server-a"]["mvproxyVersion"], told["test-server-b"]["mvproxyVersion"], "the same program")
    for name, text in views(world).items():
        for part in ("test-server-a", "test-server-b", "v1.33.0", "v1.34.0", world.proxies["a"].options["apiserver"][8:]):
            check(part in text, name, "has", part, ":", text)
    peer, address = told["test-server-b"], "127.0.0.1:%d" % world.ports["b"]
    equal((peer["address"], peer["addressSource"], peer["outlierEjected"]), (address, "static", False), "its address, and where that is from")
    check(0 <= peer["leaseAgeSeconds"] < 40 and 0 <= peer["discoveryAgeSeconds"] < 3600, "the ages of its Lease and of its discovery", peer)
    equal(statusz(world, "v1beta1")["apiVersion"], "config.k8s.io/v1beta1", "as asked for")
    equal(statusz(world, "v1alpha1")["apiVersion"], "config.k8s.io/v1alpha1", "and the older one")
    check(statusz(world, "v1beta1")["binaryVersion"], "what Kubernetes' own have")


def test_columns(world):
    """a peer that emulates another version, with a watch under way: all that is told of a server is in every view, and is so"""
    version = {"major": "1", "minor": "35", "gitVersion": "v1.35.9", "emulationMajor": "1", "emulationMinor": "34"}
    fault = world.sim.fault("status", server="b", path="/version", exact=True, status=200, body=json.dumps(version), contentType="application/json")
    watches = [world.client() for _ in range(3)]
    try:
        for watch in watches:
            watch.request("GET", CLASSES + "?watch=1")
            equal(watch.final_head().status, 200, "a watch")
        all_say(world, "v1.35.9")
        peer = until(lambda: [p for p in [servers(world)["test-server-b"]] if p["requestsInFlight"] == 3], "its watches")[0]
        equal((peer["version"], peer["emulatedVersion"]), ("v1.35.9", "1.34"), "versions")
        lines = {
            "page": r"test-server-b \S+ live v1\.35\.9 emulates 1\.34 {mvproxy} {address} {source} \d+(\.\d)?s \d+m?\d*(\.\d)?s \d+ groups, \d+ resources 3 ",
            "statusz": r"Server test-server-b: live, v1\.35\.9 as 1\.34, {address} \({source}\), behind an mvproxy {mvproxy}, Lease \d\S*s old, discovery \d\S*s old, 3 in flight",
            "mvproxyctl status": r"test-server-b +live +v1\.35\.9 as 1\.34 +{mvproxy} +{address} +{source} +\d\S*s +\d\S*s +\d+/\d+ +3 ",
        }
        told = views(world)
        for name, line in lines.items():
            wanted = line.format(mvproxy=re.escape(peer["mvproxyVersion"]), address=re.escape(peer["address"]), source=peer["addressSource"])
            check(re.search(wanted, told[name]), name, "has no", wanted, ":", told[name][:3000])
    finally:
        world.sim.heal(fault)
        for watch in watches:
            watch.close()
    until(lambda: servers(world)["test-server-b"]["version"] == "v1.34.0", "its own version again", SOON)


def shape(value):
    """Names and types, without what changes from one moment to the next."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    return [shape(inner) for inner in value] if isinstance(value, list) else type(value)


def test_yaml(world):
    """/statusz and /flagz in YAML are what they are in JSON"""
    for path, kind in (("/statusz", "Statusz"), ("/flagz", "Flagz")):
        read = {}
        for media, load in (("json", json.loads), ("yaml", yaml.safe_load)):
            asked = "application/%s;v=v1beta1;g=config.k8s.io;as=%s" % (media, kind)
            request = urllib.request.Request("http://%s%s" % (world.proxies["a"].admin, path), headers={"Accept": asked})
            with urllib.request.urlopen(request, timeout=fixture.PATIENCE) as answer:
                equal(answer.headers["Content-Type"], asked, "media type")
                read[media] = load(answer.read().decode())
        equal(read["json"]["kind"], kind, "kind")
        equal(shape(read["yaml"]), shape(read["json"]), path)
        if kind == "Flagz":
            equal(read["yaml"]["flags"], read["json"]["flags"], "each value")
            flags, a = read["json"]["flags"], world.proxies["a"]
            equal(flags["tls-cert-file"], a.options["tls-cert-file"], "text as it is")
            equal(flags["tls-cipher-suites"], "[]", "an empty list")
            equal(flags["client-header-timeout"], "32s", "a duration")
            text = a.get(path)[1].splitlines()
            equal(text[3:], ["%s=%s" % pair for pair in sorted(flags.items())], "the same as text, in the order of names")


def test_dead_peer(world):
    """a peer whose server is killed: all say so with its host name, and that it is back"""
    world.sim.kill_server("b")
    all_say(world, "live, does not answer")
    all_say(world, "1 of 2 servers cannot be used: test-server-b (live, does not answer")
    told = servers(world)["test-server-b"]
    check(told["failing"] and told["lastError"] and told["lastErrorAgeSeconds"] < SOON, "why, and since when", told)
    check(json.loads(ctl(world, "-o", "json", "status"))["ready"], "that is no reason not to be ready")
    world.sim.start_server("b")
    until(lambda: servers(world)["test-server-b"]["answers"] == "answers", "its return", SOON)
    check(servers(world)["test-server-b"]["lastError"], "the last error is still known")

    def kinds():
        return {c["kind"] for c in json.loads(ctl(world, "-o", "json", "status"))["changes"] if c["subject"] == "test-server-b"}
    until(lambda: {"failed", "recovered"} <= kinds(), "both changes", SOON)  # the state is seen a turn of the loop before
    until(lambda: world.ask("GET", CLASSES).status == 200, "the peer to be used", SOON)


def test_refused_certificate(world):
    """a peer whose certificate is not believed here answers: that is what is said of it"""
    proxy, usual = world.proxies["b"], dict(world.proxies["b"].options)
    world.certs.extra("foreign-server", "kube-apiserver", ca="foreign-ca", eku="serverAuth", sans=["kubernetes.default.svc", "127.0.0.1"])
    proxy.kill()
    proxy.options.update({"tls-cert-file": world.certs.crt("foreign-server"), "tls-private-key-file": world.certs.key("foreign-server")})
    proxy.start()
    all_say(world, "live, certificate refused")
    all_say(world, "1 of 2 servers cannot be used: test-server-b (live, certificate refused")
    proxy.stop()
    proxy.options.clear()
    proxy.options.update(usual)
    proxy.start()
    until(lambda: not servers(world)["test-server-b"]["failing"], "its return", SOON)


def test_dead_mvproxy(world):
    """a peer that is gone together with its mvproxy"""
    world.proxies["b"].kill()
    all_say(world, "live, does not answer")
    check("refused" in servers(world)["test-server-b"]["lastError"], servers(world)["test-server-b"])
    world.proxies["a"].stop()
    world.proxies["a"].start()
    all_say(world, "Not known what these serve, whose discovery has not been read yet: test-server-b")
    all_say(world, "not known: 1 of 2 servers have never been read")
    world.proxies["b"].start()
    until(lambda: not servers(world)["test-server-b"]["failing"], "its return", SOON)


def test_dead_local(world):
    """the local server is killed: not ready, why, and where to look, first of all"""
    proxy = world.proxies["a"]
    world.sim.kill_server("a")
    for name in views(world):
        until(lambda n=name: re.search("not ready|\"ready\": *false", views(world)[n], re.I), "%s to say so" % name, SOON)
    all_say(world, "the local kube-apiserver does not answer")
    all_say(world, "local, does not answer")
    status, text = proxy.get("/readyz?verbose")
    check(status == 500 and "[-]local-apiserver failed: reason withheld, see mvproxyctl status or /readyz/local-apiserver\n" in text, text)
    check("does not answer" in proxy.get("/readyz/local-apiserver")[1], "there it is told")
    check("Look at: " in ctl(world, "status") and "Look at: " in words(proxy.get("/")[1]), "where to look")
    world.sim.start_server("a")
    until(lambda: proxy.ready(), "ready again", SOON)
    until(lambda: not servers(world)["test-server-a"]["failing"], "the server's return", SOON)


# ------------------------------------------------------------------------------------ in a browser


def chromium(world, *arguments, path="/", dark=False):
    """What a browser of its own says: (standard output, console messages, URLs that pages asked for)."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        raise fixture.Skip("no chromium")
    home = os.path.join(world.scratch, "chromium")
    net = os.path.join(world.scratch, "net.json")
    command = [
        program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--user-data-dir=" + home, "--log-net-log=" + net,
        "--enable-logging=stderr", "--blink-settings=preferredColorScheme=%d" % (0 if dark else 1), *arguments,
        "http://%s%s" % (world.proxies["a"].admin, path)]
    for _ in range(3):  # a browser that ends before it has begun says nothing about the page
        if os.path.exists(net):
            os.remove(net)
        done = subprocess.run(command, env=dict(os.environ, HOME=home, XDG_CONFIG_HOME=home, XDG_CACHE_HOME=home),
                              capture_output=True, check=False, timeout=2 * fixture.PATIENCE)
        if os.path.exists(net):
            break
        print("# the browser: %d: %s" % (done.returncode, done.stderr.decode(errors="replace")[-500:].replace("\n", " | ")), flush=True)
    with open(net, encoding="utf-8") as log:
        events = json.load(log)["events"]
    started = [e["params"] for e in events if isinstance(e.get("params"), dict) and "url" in e["params"] and "initiator" in e["params"]]
    asked = {e["url"] for e in started if e["initiator"] not in ("not an origin", "")} | {
        e["url"] for e in started if e["url"].startswith("http://" + world.proxies["a"].admin)}
    console = [line for line in done.stderr.decode(errors="replace").splitlines() if ":CONSOLE" in line]
    return done.stdout.decode(errors="replace"), console, asked


class Document(html.parser.HTMLParser):
    """The elements of a document, and its texts by element."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.stack = [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.stack.append(tag)

    def handle_endtag(self, tag):
        if tag in self.stack:
            del self.stack[len(self.stack) - 1 - self.stack[::-1].index(tag):]

    def handle_data(self, data):
        for tag in self.stack[-1:]:
            self.texts.setdefault(tag, []).append(data)

    def of(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


def test_browser(world):
    """in Chromium: first line, servers, charts, matrix; every header with its scope; nothing is loaded, nothing complained of"""
    for _ in range(3):
        equal(world.ask("GET", CLASSES).status, 200, "rerouted")
    text, console, asked = chromium(world, "--dump-dom")
    dom = Document(text)
    equal(dom.texts["h1"][0], "Ready", "the first line")
    equal((console, asked), ([], {"http://%s/" % world.proxies["a"].admin}), "console, requests")
    check({"header", "nav", "main", "section", "details"} <= {tag for tag, _ in dom.elements}, "landmarks")
    check(dom.of("th") and all(th.get("scope") in ("col", "row") for th in dom.of("th")), "scopes")
    check(all(svg.get("role") == "img" and svg.get("aria-label") for svg in dom.of("svg")), "charts are named", dom.of("svg"))
    routes = {m[1]: int(m[2]) for m in (re.match(r"([a-z-]+): (\d+) requests, ", svg["aria-label"]) for svg in dom.of("svg"))}
    check(routes["peer"] >= 3, "and right", routes)
    check(dom.of("rect"), "bars")
    check("resource.k8s.io/v1" in words(text) and "What differs in resource.k8s.io/v1" in words(text), "the matrix")
    check(not dom.of("script") and not any(a.startswith("on") or a == "style" for _, attrs in dom.elements for a in attrs), "no scripts, no styles")
    check(dom.of("html")[0].get("lang"), "language")


def top_left(path):
    """The colour of the first pixel of a PNG, which no filter changes, and the picture's size."""
    with open(path, "rb") as picture:
        data = picture.read()
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    equal((depth, kind in (2, 6)), (8, True), "a PNG as Chromium makes it")
    at, packed = 8, b""
    while at < len(data):
        size, name = struct.unpack(">I4s", data[at:at + 8])
        packed += data[at + 8:at + 8 + size] if name == b"IDAT" else b""
        at += size + 12
    return tuple(zlib.decompress(packed)[1:4]), (width, height)


def test_colours(world):
    """light and dark, as the reader has it"""
    for dark, wanted in ((False, (255, 255, 255)), (True, (20, 23, 27))):
        path = os.path.join(os.environ.get("MVPROXY_SCREENSHOTS", world.scratch), "status-page-%s.png" % ("dark" if dark else "light"))
        chromium(world, "--screenshot=" + path, "--window-size=1180,1000", dark=dark)
        equal(top_left(path), (wanted, (1180, 1000)), "background")


class Tab:
    """A page in a Chromium that is asked over the DevTools protocol, which a page's policy does not bind."""

    # The browser takes its orders from descriptor 3 and answers on 4.
    START = ("import fcntl, os, sys; high = [fcntl.fcntl(int(n), fcntl.F_DUPFD, 10) for n in sys.argv[1:3]];"
             "[os.dup2(n, 3 + i) for i, n in enumerate(high)]; os.execv(sys.argv[3], sys.argv[3:])")

    def __init__(self, world, path="/"):
        program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        if program is None:
            raise fixture.Skip("no chromium")
        home = os.path.join(world.scratch, "chromium")
        asks, self._asks = os.pipe()
        self._said, says = os.pipe()
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--window-size=1180,1000",
                   "--disable-background-networking", "--disable-component-update", "--user-data-dir=" + home, "--remote-debugging-pipe", "about:blank"]
        self._browser = subprocess.Popen([sys.executable, "-c", self.START, str(asks), str(says), *command], pass_fds=(asks, says),
                                         env=dict(os.environ, HOME=home, XDG_CONFIG_HOME=home, XDG_CACHE_HOME=home), stderr=subprocess.DEVNULL)
        os.close(asks)
        os.close(says)
        self._read, self._number, self._session = b"", 0, None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._call("Page.enable")
        self._call("Page.navigate", url="http://%s%s" % (world.proxies["a"].admin, path))
        until(lambda: self.value("document.readyState == 'complete' && document.querySelector('footer') != null"), "the page")

    def _message(self):
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._said], [], [], fixture.PATIENCE)
            more = os.read(self._said, 65536) if ready else b""
            check(more, "the browser says nothing")
            self._read += more
        one, _, self._read = self._read.partition(b"\0")
        return json.loads(one)

    def _call(self, method, **params):
        self._number += 1
        message = dict({"id": self._number, "method": method, "params": params}, **({"sessionId": self._session} if self._session else {}))
        os.write(self._asks, json.dumps(message).encode() + b"\0")
        while True:
            said = self._message()
            if said.get("id") == self._number:
                check("result" in said, method, said)
                return said["result"]

    def value(self, expression):
        said = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        check("exceptionDetails" not in said, expression, said)
        return said["result"].get("value")

    def picture(self, path):
        with open(path, "wb") as out:
            out.write(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))

    def press(self, key):
        for kind in ("rawKeyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode={"Tab": 9, "Enter": 13}[key])
        if key == "Enter":
            self._call("Input.dispatchKeyEvent", type="char", key=key, text="\r")

    def close(self):
        self._browser.kill()
        self._browser.wait()
        os.close(self._asks)
        os.close(self._said)


FOCUS = "(e => e == document.body ? '' : e.tagName + ' ' + (e.id || e.getAttribute('href') || e.getAttribute('aria-label') || e.textContent))(document.activeElement)"
CORNER = """(() => {
    const box = document.querySelector('#skew .scroll'), corner = box.querySelector('thead th');
    box.style.maxHeight = '300px'; box.style.maxWidth = '200px'; box.scrollTop = 150; box.scrollLeft = 60;
    box.scrollIntoView();
    const c = corner.getBoundingClientRect(), b = box.getBoundingClientRect(), seen = document.elementFromPoint(b.left + 4, b.top + 4);
    return {scrolled: [box.scrollTop, box.scrollLeft], off: [Math.round(c.left - b.left), Math.round(c.top - b.top)], seen: seen == corner,
            row: Math.round(box.querySelectorAll('tbody th')[8].getBoundingClientRect().left - b.left)};
})()"""
MANY = 60  # group/versions that one server has


def test_keyboard(world):
    """with many rows: Tab comes past the matrix in a few steps and opens what is closed; corner and first column stay when it is scrolled"""
    extra = [{"group": "g%03d.example.com" % i, "version": "v1", "resource": "things", "kind": "Thing", "namespaced": True, "verbs": ["get", "list"]}
             for i in range(MANY)]
    many = fixture.World(servers={"b": {"extra": extra}})
    try:
        many.start()
        until(lambda: many.proxies["a"].get("/")[1].count("What differs in <bdi>g") == MANY, "all rows")
        tab = Tab(many)
        try:
            tab.value("document.querySelector('#skew').scrollIntoView(), document.querySelector('nav a').focus()")
            seen = []
            while len(seen) < 80 and (not seen or seen[-1]):  # to the end of the page
                tab.press("Tab")
                seen.append(tab.value(FOCUS))
            rows = [s for s in seen if s.startswith("SUMMARY What differs in ")]
            tables = [s for s in seen if re.match(r"SUMMARY \d+ and on, from ", s)]
            check(len(rows) == 25 and 2 <= len(tables) <= 4, "one open table, the others are a step each", seen)
            check("A #end" in seen and seen.index("A #end") < seen.index(rows[0]), "past all of it", seen)
            tab.value("[...document.querySelectorAll('#skew summary')].find(s => / and on, from /.test(s.textContent)).focus()")
            tab.press("Enter")
            until(lambda: tab.value("document.activeElement.parentElement.open"), "Enter opens the second table")
            tab.press("Tab")
            tab.press("Tab")
            check(tab.value(FOCUS).startswith("SUMMARY What differs in "), "its rows are next", tab.value(FOCUS))
            told = tab.value(CORNER)
            check(min(told["scrolled"]) > 0, "it can be scrolled both ways", told)
            check(told["seen"] and max(map(abs, told["off"])) <= 1 and abs(told["row"]) <= 1, "the corner stands above all else, and the first column", told)
        finally:
            tab.close()
    finally:
        many.close()


SERVERS, GROUPS = 100, 500
LOOK = """(() => {
    const rows = [...document.querySelectorAll('#skew .matrix > tbody > tr:not(.more)')], seen = e => e.checkVisibility();
    return {
        title: document.querySelector('h1').textContent, servers: document.querySelectorAll('#servers tbody tr').length, rows: rows.length,
        columns: Math.max(...rows.map(r => r.cells.length)), seen: rows.filter(seen).length,
        wide: document.documentElement.scrollWidth - document.documentElement.clientWidth};
})()"""
FIND = """(() => {
    const name = [...document.querySelectorAll('#skew tbody th')].find(h => h.textContent == 'g%03d.example.com/v1'), table = name.closest('details');
    table.open = true;
    const detail = name.parentElement.nextElementSibling.querySelector('details');
    detail.open = true;
    detail.scrollIntoView();
    detail.closest('.scroll').scrollLeft = 300;
    const box = detail.getBoundingClientRect();
    return {seen: name.checkVisibility(), text: detail.textContent, left: box.left, right: innerWidth - box.right,
            headings: getComputedStyle(detail.querySelector('thead th:last-child')).writingMode};
})()"""


def test_large(world):  # pylint: disable=unused-argument # as all have it
    """100 servers with 500 groups that differ, in Chromium: all there, no wider than the window, 25 rows at a time, and the end a few steps of Tab away"""
    def rows(verbs):
        return [{"group": "g%03d.example.com" % i, "version": "v1", "resource": "things", "kind": "Thing", "namespaced": True, "verbs": verbs}
                for i in range(GROUPS)]
    names = ["%03d" % i for i in range(SERVERS)]
    extra = {name: {"extra": rows(["get", "list"] if int(name) % 2 else ["get", "list", "watch"])} for name in names}
    large = fixture.World(dict.fromkeys(names, "v1.34"), proxies=[], servers=extra)
    try:
        options = dict(large.options("000"), **{"tls-cert-file": large.certs.crt("node-a"), "tls-private-key-file": large.certs.key("node-a"),
                                                "peers": ["test-server-%s=%s:%d" % (name, *large.addresses[name]) for name in names[1:]]})
        large.proxies["a"] = proxy = fixture.Mvproxy("mvproxy-a", large.scratch, options)
        proxy.start()
        until(lambda: proxy.metric("mvproxy_uneven_group_versions") == GROUPS, "all to be read and compared", 4 * fixture.PATIENCE)
        until(lambda: json.loads(ctl(large, "-o", "json", "status"))["skew"]["serversUnread"] == 0, "none to be missing", 4 * fixture.PATIENCE)
        tab = Tab(large)
        try:
            told = tab.value(LOOK)
            equal((told["title"], told["servers"], told["rows"], told["columns"]), ("Ready", SERVERS, GROUPS, 1 + SERVERS), "all of it")
            check(told["seen"] == 25 and told["wide"] <= 0, "one table of the skew is open, and the page is no wider than the window", told)
            tab.value("document.querySelector('nav a').focus()")
            seen = []
            while len(seen) < 80 and "A #end" not in seen:
                tab.press("Tab")
                seen.append(tab.value(FOCUS))
            check("A #end" in seen and len(seen) < 40, "past the skew", seen)
            found = tab.value(FIND % (GROUPS - 1))
            check(found["seen"] and "things" in found["text"] and "get list watch" in found["text"], "the last one, opened", found)
            check(found["left"] >= 0 and found["right"] >= 0 and found["headings"] == "horizontal-tb", "it stays in the window, whatever the columns do", found)
            if "MVPROXY_SCREENSHOTS" in os.environ:
                tab.picture(os.path.join(os.environ["MVPROXY_SCREENSHOTS"], "status-page-large.png"))
        finally:
            tab.close()
    finally:
        large.close()


def test_hostile_names(world):
    """a peer whose host name and address are markup: text in the page, in every view, and nothing of it runs"""
    lease = next(o for o in world.sim.stored("leases.coordination.k8s.io") if o["metadata"]["name"] == world.sim.server("b")["id"])
    name = "apiserver-" + "x" * 26
    world.sim.put("leases.coordination.k8s.io", {
        "metadata": {"name": name, "namespace": "kube-system",
                     "labels": dict(lease["metadata"]["labels"], **{"kubernetes.io/hostname": HOSTILE}),
                     "annotations": {"kubernetes.io/peer-advertise-address": HOSTILE}},
        "spec": dict(lease["spec"], holderIdentity=name + "_1")})
    until(lambda: HOSTILE in servers(world), "the peer", SOON)
    page = world.proxies["a"].get("/")[1]
    check("<script" not in page and page.count("&lt;script&gt;document.title=&#39;taken&#39;&lt;/script&gt; [31m") >= 3, "escaped in every place")
    told = json.loads(ctl(world, "-o", "json", "status"))
    check(any(HOSTILE in d["text"] for d in told["disbelieved"]), "its address is not believed", told["disbelieved"])
    for command in ("status", "peers", "skew"):
        check("\x1b" not in ctl(world, command) and HOSTILE.replace("\x1b", "?") in ctl(world, command), command, "tells a terminal nothing")
    text = world.proxies["a"].get("/statusz")[1]
    check("\x1b" not in text and "Server %s: " % HOSTILE.replace("\x1b", "?") in text, "nor /statusz", text)
    inform = [line for line in world.proxies["a"].get("/metrics")[1].splitlines() if line.startswith("mvproxy_server_info{") and "taken" in line]
    escaped = HOSTILE.replace("\\", "\\\\").replace('"', '\\"').replace("\x1b", "\\\\u001b")
    check(len(inform) == 1 and 'server="%s"' % escaped in inform[0] and inform[0].endswith("} 1"), "one sample, with one value of the label", inform)
    check("\x1b" not in world.proxies["a"].log() and r"<script>document.title='taken'</script>\x1b[31m" in world.proxies["a"].log(), "in the log it is escaped",
          [line for line in world.proxies["a"].log().splitlines() if "taken" in line][:3])
    text, console, asked = chromium(world, "--dump-dom")
    dom = Document(text)
    check(not dom.of("script") and "taken" not in dom.texts["title"][0], "nothing of it ran", dom.texts["title"])
    check(any(HOSTILE.replace("\x1b", " ") in t for t in dom.texts["bdi"]), "it is read as it stands")
    equal((console, asked), ([], {"http://%s/" % world.proxies["a"].admin}), "console, requests")
    world.sim.delete("leases.coordination.k8s.io", name, "kube-system")


def test_kept_by_http_1_0(world):
    """a page sent in pieces to a client of HTTP/1.0 that would keep the connection ends with the connection, and has no length"""
    host, port = world.proxies["a"].admin.split(":")
    for fields in (b"", b"Connection: keep-alive\r\n", b"Connection: Keep-Alive\r\nConnection: keep-alive\r\n"):
        with socket.create_connection((host, int(port)), fixture.PATIENCE) as client:
            client.sendall(b"GET / HTTP/1.0\r\n" + fields + b"\r\n")
            heard = b""
            for data in iter(lambda: client.recv(65536), b""):
                heard += data
        head, _, body = heard.partition(b"\r\n\r\n")
        check(b"content-length" not in head.lower() and b"keep-alive" not in head.lower(), "head", head)
        check(body.rstrip().endswith(b"</html>"), "body", body[-100:])


if __name__ == "__main__":
    fixture.main(globals())
