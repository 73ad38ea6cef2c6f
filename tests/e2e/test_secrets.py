#!/usr/bin/env python3
"""Nothing secret is written anywhere: not into the log at its most talkative, not into metrics, not into a core dump."""

import base64
import os
import shutil
import subprocess
import sys

import fixture
from fixture import check, equal

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
        for page in ("/metrics", "/statusz", "/flagz"):
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
        check(world.ask("GET", path + "?token=" + CANARIES["query"], None, "a", None).status < 500, "query")
    equal(world.ask("POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "canary", "namespace": "default"},
                                   "data": {"a": CANARIES["body"]}}, "a", None,
                    {"Authorization": "Bearer token-root", "Content-Type": "application/json"}).status, 201, "created")
    told = written(world)
    check("Request" in told["log of a"], "there is no access log")
    for where, text in told.items():
        for what, canary in [*CANARIES.items(), ("good token", "token-root"), ("basic", basic), ("bearer protocol", protocol)]:
            check(canary not in text, "the", what, "is in the", where)


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
