#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nothing secret is written anywhere: not into the log at its most talkative, not into metrics, not into a core dump; and none is kept in memory
longer than it is needed.  The daemon needs no system call, and no family of sockets, that its unit does not allow."""

import base64
import ctypes
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys

import fixture
from fixture import check, equal, until

MAPS = "/api/v1/namespaces/default/configmaps"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"  # only the peer has it
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
CANARIES = {"token": "wrong-canary-token-1", "password": "canary-password-2", "cookie": "canary-cookie-3", "query": "canary-query-4",
            "body": "canary-body-5", "protocol": "canary-protocol-6", "identity": "canary-identity-7"}


def setup():
    return fixture.World(options={"v": 10, "access-log": True}).start()


def written(world):
    """Everything that both daemons tell, by where."""
    out = {}
    for name, proxy in world.proxies.items():
        out["log of " + name] = proxy.log()
        for page in ("/", "/metrics", "/statusz", "/flagz", "/readyz?verbose"):
            out[page + " of " + name] = proxy.get(page)[1]
    return out


def test_requests(world):
    """credentials and bodies of requests are nowhere to be seen"""
    basic = base64.b64encode(("user:" + CANARIES["password"]).encode()).decode()
    protocol = base64.urlsafe_b64encode(CANARIES["protocol"].encode()).decode().rstrip("=")
    for path in (MAPS, CLASSES):
        for headers in ({"Authorization": "Bearer token-root"}, {"Authorization": "Bearer " + CANARIES["token"]},
                        {"Authorization": "Basic " + basic}, {"Cookie": "session=" + CANARIES["cookie"]},
                        {"Authorization": "Bearer token-root", "Impersonate-User": "bob"},
                        {"X-Remote-User": CANARIES["identity"]},
                        {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol":
                         "base64url.bearer.authorization.k8s.io." + protocol}):
            check(world.ask("GET", path, None, "a", None, headers).status < 500, headers)
        for query in ("?token=", "?", "?token%3D", "?watch=0;token=", "?limit=1?token=", ";token="):
            check(world.ask("GET", path + query + CANARIES["query"], None, "a", None).status < 500, query)
    equal(world.ask("POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "canary", "namespace": "default"},
                                   "data": {"a": CANARIES["body"]}}, "a", None,
                    {"Authorization": "Bearer token-root", "Content-Type": "application/json"}).status, 201, "created")
    told = written(world)
    check("Request" in told["log of a"], "there is no access log")
    for where, text in told.items():
        for what, canary in [*CANARIES.items(), ("good token", "token-root"), ("basic", basic), ("bearer protocol", protocol)]:
            check(canary not in text, "the", what, "is in the", where)


# Each with a secret of its own as its value, or in it.
SECRET_HEADERS = ("Authorization", "Proxy-Authorization", "Cookie", "Cookie2", "X-Auth-Token", "X-Api-Key", "X-Remote-User", "X-Remote-Group", "X-Remote-Uid",
                  "X-Remote-Extra-Scopes", "X-Forwarded-For", "Forwarded", "X-Real-Ip", "Impersonate-User", "Impersonate-Group", "Referer", "If-None-Match",
                  "Sec-WebSocket-Key", "Sec-WebSocket-Protocol", "Content-Type", "Accept", "Expect", "Upgrade", "Transfer-Encoding", "Content-Length", "TE", "Trailer")


def bundle(world):
    """What mvproxyctl puts together for somebody else to read, and what it shows of requests."""
    path = os.path.join(world.scratch, "bundle.json")
    program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")
    socket_path = world.proxies["a"].options["control-socket"]
    if os.path.exists(path):  # it takes the place of no file
        os.remove(path)
    subprocess.run([program, "--socket", socket_path, "support-bundle", path], check=True, capture_output=True)
    with open(path, encoding="utf-8") as text:
        return text.read().replace("\\/", "/")


def test_headers(world):
    """whatever header, query, path or body a secret stands in, well-formed or not, done, refused or under way: it is nowhere to be seen"""
    seen = set()
    for number, name in enumerate(SECRET_HEADERS):
        for value in ("canary-%d-whole", "Bearer canary-%d-scheme", "canary-%d-broken\x01"):
            for path in (MAPS, CLASSES, "/apis"):
                with world.client("a", "admin") as client:
                    client.send(("GET %s?token=canary-q-%d HTTP/1.1\r\nHost: x\r\n%s: %s\r\n\r\n" % (path, number, name, value % number)).encode())
                    try:
                        seen.add(client.answer().status)
                    except (OSError, AssertionError):
                        seen.add(0)
    check({200, 400} <= seen, "answers", seen)
    watch = world.client("a", "admin")
    watch.send(b"GET /api/v1/namespaces/x;p=canary-watch/configmaps?watch=1&access_token=canary-watch HTTP/1.1\r\n"
               b"Host: x\r\nCookie: canary-watch\r\n\r\n")
    until(lambda: '"pathHasParameters"' in bundle(world), "the watch under way")
    told = dict(written(world), bundle=bundle(world))
    watch.close()
    for where, text in told.items():
        equal(sorted(set(re.findall(r"canary-(?:\d+-\w+|q-\d+|watch)", text))), [], "in the " + where)


def test_option_values(world):
    """a password in a URL of the configuration is refused without being repeated, in the log, by mvproxyctl and in the status"""
    a = world.proxies["a"]
    pem = "-----BEGIN PRIVATE KEY-----\ncanary-url\n-----END PRIVATE KEY-----\n"
    for option, value in (("apiserver", "https://root:canary-url@127.0.0.1:6443"), ("apiserver", "http://canary-url@127.0.0.1"),
                          ("apiserver", "https://127.0.0.1/?canary-url"), ("peers", ["b=root:canary-url@127.0.0.1:1"]), ("bind-address", "root:canary-url@127.0.0.1"),
                          ("trusted-proxies", ["root:canary-url@10.0.0.0/8"]), ("tls-private-key-file", pem), ("tls-sni-cert-key", [pem]), ("client-ca-file", pem),
                          ("proxy-client-key-file", pem),
                          ("etcd-servers", ["https://root:canary-url@127.0.0.1:2379"]), ("password", "canary-url"), ("etcd-prefix", ["canary-url"] * 2)):
        right = a.options.get(option)
        mark = a.reload({option: value})
        a.await_log("Reload refused", mark)
        if right is None:
            del a.options[option]
        else:
            a.options[option] = right
        for where, text in dict(written(world), bundle=bundle(world)).items():
            check("canary-url" not in text, "the password of", option, "is in the", where)
    a.await_log('"Reloaded"', since=a.reload())


def test_every_option(world):
    """each option there is, in the file and on the command line: a key or a URL with a password in its place is refused, and nothing of it is repeated"""
    program, path = fixture.mvproxy_binary(), os.path.join(world.scratch, "pasted.yaml")
    told = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    options = re.findall(r"^  --?([a-z0-9-]+)=", told, re.M)
    check(len(options) > 60, options)
    key = "-----BEGIN PRIVATE KEY-----\nCANARY\n"
    seen = 0
    for option in options:
        for value in (key, key.replace("\n", " "), base64.b64encode(key.encode()).decode(), "https://root:CANARY@127.0.0.1:6443/x", "b=https://CANARY@127.0.0.1:1"):
            shown = json.dumps(value)
            for text, arguments in (("%s: %s\n" % (option, shown), ()), ("%s: [%s]\n" % (option, shown), ()), ("%s: {x: %s}\n" % (option, shown), ()),
                                    ("", ("-%s=%s" % (option, value) if len(option) == 1 else "--%s=%s" % (option, value),))):
                with open(path, "w", encoding="ascii") as out:
                    out.write(text)
                done = subprocess.run([program, "-t", "--config", path, *arguments], capture_output=True, text=True, check=False)
                said = done.stdout + done.stderr
                check(done.returncode != 0 and option in said, option, value, "is not refused:", said)
                check("CANARY" not in said and value[:40] not in said, option, "is repeated:", said)
                seen += 1
    print("# %d ways" % seen, flush=True)


def test_keys(world):
    """keys are nowhere to be seen, and there will be no core dump"""
    secrets = []
    for name in ("node-a", "front-proxy-client"):
        with open(world.certs.key(name), encoding="ascii") as key:
            secrets.append(key.read().splitlines()[1])
    for where, text in written(world).items():
        for secret in secrets:
            check(secret not in text and "PRIVATE KEY" not in text, "a key is in the", where)
    for proxy in world.proxies.values():
        with open("/proc/%d/limits" % proxy.child.pid, encoding="ascii") as limits:
            line = next(each for each in limits if each.startswith("Max core file size"))
        check(all(int(word) <= 1 for word in line.split()[4:6]), line)


def scalar(key):
    """The private number of an EC key, as bytes."""
    told = subprocess.run(["openssl", "pkey", "-in", key, "-noout", "-text"], capture_output=True, text=True, check=True).stdout
    return bytes.fromhex("".join(re.search(r"priv:([0-9a-f:\s]+)pub:", told).group(1).replace(":", "").split()))[-32:]


def memory(pid):
    """What the process may write to, piece by piece."""
    with open("/proc/%d/maps" % pid, encoding="ascii") as maps, open("/proc/%d/mem" % pid, "rb", 0) as mem:
        for line in maps:
            span, rights, *_ = line.split()
            begin, end = (int(word, 16) for word in span.split("-"))
            if rights.startswith("rw"):
                mem.seek(begin)
                yield mem.read(end - begin)


def forms(key):
    """How a key may stand in memory: as OpenSSL computes with it; as it is written in files, in DER and in lines of text."""
    number = scalar(key)
    with open(key, encoding="ascii") as text:
        lines = [line.encode() for line in text.read().splitlines()[1:-1]]
    return number[::-1], [number, *lines[:2]]


def test_wiped_keys(world):
    """a key is in memory only as OpenSSL works with it, not as it came from its file; and when it was replaced, not at all"""
    a = world.proxies["a"]
    if os.getuid() != 0 or a.sanitized():
        raise fixture.Skip("this needs root, and memory as it is without sanitizers")
    before = {name: forms(world.certs.key(name)) for name in ("node-a", "front-proxy-client")}
    found = list(memory(a.child.pid))
    for name, (used, written_so) in before.items():
        check(any(used in piece for piece in found), name, "is not found as OpenSSL has it: this test sees nothing")
        check(not any(form in piece for form in written_so for piece in found), name, "is in memory as it was in its file")
    world.certs.extra("new-a", "kube-apiserver", sans=["kubernetes.default.svc", "127.0.0.1"], eku="serverAuth")
    mark = a.reload({"tls-cert-file": world.certs.crt("new-a"), "tls-private-key-file": world.certs.key("new-a")})
    a.await_log("Reloaded", since=mark)
    world.proxies["b"].stop()  # its connections still have the old one
    old, new = before["node-a"], forms(world.certs.key("new-a"))

    def forgotten():
        now = list(memory(a.child.pid))
        check(any(new[0] in piece for piece in now), "the new key is not there")
        check(not any(form in piece for form in new[1] for piece in now), "the new one is in memory as it was in its file")
        return not any(form in piece for form in (old[0], *old[1]) for piece in now)
    until(forgotten, "the old key to be wiped")
    world.proxies["b"].start()


def test_bad_keys(world):
    """what is wrong with a file of keys is said without a word of what is in it"""
    a, canary = world.proxies["a"], base64.b64encode(b"canary in a key file, " * 4).decode()
    right = a.options["tls-private-key-file"]
    for number, text in enumerate((canary, "-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----\n" % canary, "%s: %s\n" % (canary, canary))):
        path = os.path.join(world.scratch, "bad-%d.key" % number)
        with open(path, "w", encoding="ascii") as out:
            out.write(text)
        mark = a.reload({"tls-private-key-file": path})
        a.await_log(path, since=mark)
        check(canary not in a.log() and canary[:20] not in a.log(), "the log has what is in the file")
    mark = a.reload({"tls-private-key-file": right})
    a.await_log('"Reloaded"', since=mark)


def groups_of_calls():
    """name: system calls, as systemd knows them."""
    told, groups, name = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True).stdout, {}, None
    for line in told.splitlines():
        word = line.strip()
        if line.startswith("@"):
            name = word
            groups[name] = []
        elif word and not word.startswith("#") and name:
            groups[name].append(word)

    def whole(group):
        out = set()
        for word in groups[group]:
            out |= whole(word) if word.startswith("@") else {word}
        return out
    return {group: whole(group) for group in groups}


def unit_lines(wanted):
    """The values that the unit gives this."""
    with open(os.path.join(fixture.TREE, "contrib/systemd/mvproxy.service.in"), encoding="utf-8") as unit:
        return [value for key, _, value in (line.strip().partition("=") for line in unit) if key == wanted]


def allowed_calls():
    """By the SystemCallFilter= lines of the unit."""
    groups, out = groups_of_calls(), set()
    for value in unit_lines("SystemCallFilter"):
        for word in value.lstrip("~").split():
            calls = groups[word] if word.startswith("@") else {word}
            out = out - calls if value.startswith("~") else out | calls
    return out


def test_system_calls(world):
    """from start to stop, with a reload, it makes no system call that its unit forbids"""
    if not shutil.which("strace") or not shutil.which("systemd-analyze"):
        raise fixture.Skip("this needs strace and systemd-analyze")
    if world.proxies["a"].sanitized() or subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], check=False, stderr=subprocess.DEVNULL).returncode:
        raise fixture.Skip("nothing can be traced here")
    traced, trace = world.proxies["a"], os.path.join(world.scratch, "trace")
    plain = traced.argv
    traced.stop()
    traced.argv = ["strace", "-D", "-f", "-qq", "-o", trace, *plain]
    try:
        traced.start()
        for path in (MAPS, CLASSES, "/apis"):
            equal(world.ask("GET", path).status, 200, path)
        mark = traced.reload({"v": 9})
        traced.await_log("Reloaded", since=mark)
        equal(world.ask("GET", CLASSES).status, 200, "afterwards")
        traced.stop()
    finally:
        traced.argv = plain
    with open(trace, encoding="utf-8", errors="replace") as lines:
        made = {found.group(1) for found in (re.match(r"\d+ +([a-z0-9_]+)\(", line) for line in lines) if found}
    check({"accept4", "epoll_wait"} & made, "nothing of it is in the trace:", made)
    equal(made - allowed_calls(), set(), "system calls that the unit forbids")
    traced.start()


def confined():
    """In a child: sockets of other families than RestrictAddressFamilies= has are refused (EAFNOSUPPORT), as systemd does it."""
    families = [getattr(socket, word) for value in unit_lines("RestrictAddressFamilies") for word in value.split()]
    # A load (number of the call, then its first argument), a jump if equal, and returns: struct sock_filter.
    program = [(0x20, 0, 0, 0), (0x15, 0, len(families) + 2, {"x86_64": 41, "aarch64": 198}[os.uname().machine]), (0x20, 0, 0, 16)]
    program += [(0x15, len(families) - i, 0, family) for i, family in enumerate(families)]
    program += [(0x06, 0, 0, 0x00050000 | 97), (0x06, 0, 0, 0x7fff0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in program))
    libc, rule = ctypes.CDLL(None), ctypes.create_string_buffer(struct.pack("HP", len(program), ctypes.addressof(code)))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, rule):  # PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP
        os._exit(99)


def own_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asks:
        try:
            asks.connect(("203.0.113.1", 9))  # nothing is sent
        except OSError as error:
            raise fixture.Skip("this machine has no route to anywhere") from error
        return asks.getsockname()[0]


def test_address_families(world):
    """with the sockets that its unit allows it knows its own addresses: a configuration that leads back is refused as by hand"""
    if os.uname().machine not in ("x86_64", "aarch64"):
        raise fixture.Skip("the number of socket() is not known here")
    folder, to = os.path.join(world.scratch, "families"), own_address()
    os.mkdir(folder)
    options = dict(world.proxies["a"].options, **{"bind-address": "0.0.0.0", "secure-port": fixture.free_port()})
    here = "%s:%d" % (to, options["secure-port"])
    for key, value in (("apiserver", "https://" + here), ("peers", ["elsewhere=" + here])):
        tried = fixture.Mvproxy("families", folder, dict(options, **{key: value}))
        tried.write_config()
        for prepare in (None, confined):
            done = subprocess.run([*tried.argv, "-t"], preexec_fn=prepare, capture_output=True, text=True, check=False)
            check(done.returncode == 1 and "this proxy itself" in done.stderr, key, prepare, done)


NOBODY = 65534
# Another process tries to look into this one: by its memory, and as a debugger (PTRACE_ATTACH is 16).
LOOK = """import ctypes, sys
try:
    open("/proc/%s/mem" % sys.argv[1], "rb").close()
    seen = True
except OSError:
    seen = False
print("seen" if ctypes.CDLL(None).ptrace(16, int(sys.argv[1]), None, None) == 0 or seen else "hidden")
"""


def as_nobody(*command):
    return ["setpriv", "--reuid=%d" % NOBODY, "--regid=%d" % NOBODY, "--clear-groups", "--bounding-set=-all", "--no-new-privs", *command]


def own_folder(world, proxy):
    """A folder that only the daemon's user reads, with the files that the configuration names and the program."""
    folder = os.path.join(world.scratch, "own")
    os.mkdir(folder)
    options = dict(proxy.options, **{"secure-port": fixture.free_port(), "admin-bind-address": "127.0.0.1:%d" % fixture.free_port()})
    for key, value in options.items():
        if isinstance(value, str) and os.path.isfile(value):
            options[key] = shutil.copy(value, os.path.join(folder, key))
    shutil.copy(proxy.argv[0], folder)
    os.chmod(world.scratch, 0o711)
    return folder, options


def test_own_user(world):
    """as a user of its own, without a capability, it works, and no other process of that user looks into its memory"""
    if os.getuid() != 0 or not shutil.which("setpriv"):
        raise fixture.Skip("this needs root and setpriv")
    folder, options = own_folder(world, world.proxies["a"])
    own = fixture.Mvproxy("own", folder, options)
    own.argv = as_nobody(os.path.join(folder, os.path.basename(own.argv[0])), *own.argv[1:])
    own.write_config()
    for path in (folder, *(os.path.join(folder, name) for name in os.listdir(folder))):
        os.chown(path, NOBODY, NOBODY)
        os.chmod(path, 0o500)
    own.expected_exit = False
    own.spawn()
    try:
        own.await_ready()
        with open("/proc/%d/status" % own.child.pid, encoding="ascii") as status:
            told = dict(line.split(":", 1) for line in status)
        equal((told["Uid"].split(), set(told["CapEff"].split() + told["CapBnd"].split())), ([str(NOBODY)] * 4, {"0" * 16}), "who it is")
        equal(os.stat("/proc/%d/mem" % own.child.pid).st_uid, 0, "whose its memory is: root's, as it is not dumpable")
        seen = subprocess.run(as_nobody(sys.executable, "-c", LOOK, str(own.child.pid)), capture_output=True, text=True, check=True)
        equal(seen.stdout.strip(), "hidden", "its memory, for its own user")
        with fixture.Raw(own.address, world.certs.crt("ca"), (world.certs.crt("admin"), world.certs.key("admin"))) as client:
            for path in (MAPS, CLASSES):
                equal(client.ask("GET", path).status, 200, path)
        own.stop()
    finally:
        own.destroy()


if __name__ == "__main__":
    fixture.main(globals())
