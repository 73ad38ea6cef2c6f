#!/usr/bin/env python3
"""Nothing secret is written anywhere: not into the log at its most talkative, not into metrics, not into a core dump."""

import base64

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


if __name__ == "__main__":
    fixture.main(globals())
