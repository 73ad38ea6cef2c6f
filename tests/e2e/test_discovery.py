#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The merged discovery document at /apis: the same everywhere, and right."""

import gzip
import json

import fixture
from fixture import check, equal, until

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=%s;as=APIGroupDiscoveryList"
V2 = AGGREGATED % "v2"
BETA = AGGREGATED % "v2beta1"
NOPEER = V2 + ";profile=nopeer"
KUBECTL = V2 + "," + BETA + ",application/json"
BATCH = "/apis/batch/v1/jobs"


def setup():
    return fixture.World(options={"discovery-authz-ttl": "0s", "discovery-refresh-interval": "1s"},
                         servers={n: {"lease-renew-interval": "500ms"} for n in "ab"}).start()


def apis(world, name="a", accept=V2, user="admin", direct=False, **headers):
    fields = {"Accept": accept}
    fields.update({k.replace("_", "-"): v for k, v in headers.items()})
    return world.ask("GET", "/apis", None, name, user, fields, direct)


def groups(answer):
    equal(answer.status, 200, "/apis %r" % answer)
    return [g["metadata"]["name"] for g in answer.json()["items"]]


def freshness(answer, group):
    for item in answer.json()["items"]:
        if item["metadata"]["name"] == group:
            return {v["version"]: v.get("freshness") for v in item["versions"]}
    return None


def settled(world):
    """Both instances serve one document with the newer server's group."""
    def same():
        one, two = apis(world, "a"), apis(world, "b")
        return one.status == two.status == 200 and one.body == two.body and \
            freshness(one, "resource.k8s.io") == {"v1": "Current"} and one
    return until(same, "one document at both")


def test_merged(world):
    """both instances serve the same bytes with the same ETag, and it holds both servers' groups"""
    merged = settled(world)
    one, two = apis(world, "a"), apis(world, "b")
    equal(one.header("ETag"), two.header("ETag"), "ETag")
    equal(one.body, two.body, "document")
    direct = {n: groups(apis(world, n, direct=True)) for n in "ab"}
    check("resource.k8s.io" not in direct["a"] and "resource.k8s.io" in direct["b"], "the servers differ")
    equal(set(groups(merged)), set(direct["a"]) | set(direct["b"]), "groups")
    equal(groups(merged)[0], "apiregistration.k8s.io", "the first group")
    equal((merged.json()["kind"], merged.json()["apiVersion"]), ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"), "kind")


def test_headers(world):
    """Content-Type, Vary, Cache-Control and a strong ETag, as kube-apiserver has them"""
    answer, direct = settled(world), apis(world, direct=True)
    for name in ("Content-Type", "Vary", "Cache-Control"):
        equal(answer.all(name), direct.all(name), name)
    tag = answer.header("ETag")
    check(len(tag) == 130 and tag[0] == tag[-1] == '"' and tag == tag.upper(), "ETag", tag)
    check(tag != direct.header("ETag"), "another document, the same ETag")


def test_conditional(world):
    """If-None-Match: 304 without a body for the merged ETag, 200 for anything else"""
    tag = settled(world).header("ETag")
    with world.client() as client:
        for value, status in ((tag, 304), ('"x"', 200), ("W/" + tag, 200), ("*", 200), (tag + ", " + tag, 200),
                              (apis(world, direct=True).header("ETag"), 200), (tag, 304)):
            answer = client.ask("GET", "/apis", None, {"Accept": V2, "If-None-Match": value})
            equal(answer.status, status, "If-None-Match: " + value)
            equal(answer.header("ETag"), tag, "ETag")
            equal(answer.header("Vary"), "Accept", "Vary")
            equal(bool(answer.body), status == 200, "a body")


def test_head(world):
    """HEAD gives the same head and no body"""
    settled(world)
    with world.client() as client:
        head = client.ask("HEAD", "/apis", None, {"Accept": V2})
        body = client.ask("GET", "/apis", None, {"Accept": V2})
    equal((head.status, head.body), (200, b""), "HEAD")
    for name in ("ETag", "Content-Type", "Vary", "Cache-Control"):
        equal(head.header(name), body.header(name), name)


def test_nopeer(world):
    """profile=nopeer: the local server's document, byte for byte; an unknown profile: the merged one"""
    merged = settled(world)
    for name in "ab":
        through, direct = apis(world, name, NOPEER), apis(world, name, NOPEER, direct=True)
        equal(through.body, direct.body, "nopeer at " + name)
        equal(through.header("ETag"), direct.header("ETag"), "its ETag")
        equal(through.header("Content-Type"), V2, "Content-Type")
    equal(apis(world, "a", V2 + ";profile=foo").body, merged.body, "profile=foo")


def test_negotiation(world):
    """which form is served for which Accept: exactly as the local server decides"""
    settled(world)
    proto = V2.replace("json", "vnd.kubernetes.protobuf")
    table = ["application/json", "*/*", "", "application/json," + V2, "application/json;q=1.0," + V2 + ";q=0.1",
             V2 + ";q=0", V2 + ";q=x", KUBECTL, "application/json;g=apidiscovery.k8s.io;v=v1;as=APIGroupDiscoveryList",
             "application/json; g=apidiscovery.k8s.io; v=v2; as=APIGroupDiscoveryList",
             "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
             "*/*;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
             'application/json;g="apidiscovery.k8s.io";v=v2;as=APIGroupDiscoveryList',
             "application/json;g=apidiscovery.k8s.io;v=V2;as=APIGroupDiscoveryList",
             "application/json;v=v2;as=APIGroupDiscoveryList", "text/html", "application/json/x," + V2,
             "a/b;;=;x==y," + V2, proto + "," + V2, V2 + "," + proto]
    for accept in table:
        through, direct = apis(world, "a", accept), apis(world, "a", accept, direct=True)
        wanted = direct.header("Content-Type")
        equal((through.status, through.header("Content-Type")), (direct.status, wanted), accept)
        if direct.header("ETag") is None:
            equal(through.body, direct.body, "legacy form for " + accept)
    # The first Accept line alone counts.
    with world.client() as client:
        client.send("GET /apis HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\nAccept: %s\r\n\r\n" % V2)
        equal(client.answer().json()["kind"], "APIGroupList", "two Accept lines")


def _texts(message, field):
    """The length-delimited fields of this number in a protobuf message, top level only."""
    found, at = [], 0
    while at < len(message):
        tag, at = message[at], at + 1
        size = shift = 0
        while True:
            byte, at = message[at], at + 1
            size, shift = size | (byte & 0x7f) << shift, shift + 7
            if byte < 0x80:
                break
        if tag == field << 3 | 2:
            found.append(message[at:at + size])
        if tag & 7 == 2:
            at += size
    return found


def test_protobuf(world):
    """protobuf by negotiation: the same groups, the same ETag, equal on both instances, 304 and HEAD"""
    merged = settled(world)
    proto = V2.replace("json", "vnd.kubernetes.protobuf")
    one, two = apis(world, "a", proto), apis(world, "b", proto)
    equal((one.status, one.header("Content-Type"), one.header("ETag"), one.all("Vary")),
          (200, proto, merged.header("ETag"), ["Accept"]), "head")
    equal(one.body, two.body, "document")
    equal(one.body[:4], b"k8s\0", "magic")
    names = [_texts(_texts(item, 1)[0], 1)[0].decode() for item in _texts(_texts(one.body[4:], 2)[0], 2)]
    equal(names, groups(merged), "groups")
    equal(apis(world, "a", proto, If_None_Match=one.header("ETag")).status, 304, "If-None-Match")
    with world.client() as client:
        head = client.ask("HEAD", "/apis", None, {"Accept": proto})
        equal((head.status, head.header("Content-Type"), head.body), (200, proto, b""), "HEAD")
    local = world.ask("GET", "/apis", None, "a", "admin", {"Accept": proto + ";profile=nopeer"})
    equal(local.body, apis(world, "a", proto, direct=True).body, "nopeer")
    beta = apis(world, "a", BETA.replace("json", "vnd.kubernetes.protobuf"))
    equal(_texts(_texts(beta.body[4:], 1)[0], 1), [b"apidiscovery.k8s.io/v2beta1"], "v2beta1")


def test_untouched(world):
    """/api, /apis/, group and version documents in which nobody differs are the local server's"""
    for path in ("/api", "/apis/", "/apis/apps", "/apis/apps/v1", "/api/v1"):
        for accept in ("application/json", KUBECTL)[:1 if path == "/api" else 2]:
            fields = {"Accept": accept}
            through, direct = world.ask("GET", path, headers=fields), world.ask("GET", path, headers=fields, direct=True)
            equal((through.status, through.body, through.header("ETag")),
                  (direct.status, direct.body, direct.header("ETag")), path)


def test_yaml(world):
    """YAML says what JSON says (JSON is YAML), under the same tag"""
    plain = settled(world)
    for path in ("/apis", "/api"):
        answer = world.ask("GET", path, headers={"Accept": V2.replace("json", "yaml")})
        equal(answer.header("Content-Type"), V2.replace("json", "yaml"), "type")
        equal(answer.json(), world.ask("GET", path, headers={"Accept": V2}).json(), "document")
        check(path == "/api" or answer.header("ETag") == plain.header("ETag"), "ETag")


def test_browsers(world):
    """what the server's filters allow an origin, and want of browsers, is on our answers: the server is asked"""
    plain = settled(world)
    fields = {"Access-Control-Allow-Origin": "https://console.example.com", "Access-Control-Allow-Credentials": "true",
              "Strict-Transport-Security": "max-age=31536000"}
    world.sim.fault(server="a", path="/apis", exact=True, action="headers", headers=fields)
    asked = apis(world, "a", V2, Origin="https://console.example.com")
    for name, value in fields.items():
        equal(asked.header(name), value, name)
    equal((asked.status, asked.body), (200, plain.body), "the document")
    again = apis(world, "a", V2, Origin="https://console.example.com", If_None_Match=plain.header("ETag"))
    equal((again.status, again.header("Access-Control-Allow-Origin")), (304, "https://console.example.com"), "304")
    equal(apis(world).header("Strict-Transport-Security"), "max-age=31536000", "to everybody")


def test_pretty(world):
    """indented for curl and ?pretty=true, with the same ETag"""
    plain = settled(world)
    for answer in (apis(world, User_Agent="curl/8.0"),
                   world.ask("GET", "/apis?pretty=true", headers={"Accept": V2})):
        equal(answer.header("ETag"), plain.header("ETag"), "ETag")
        equal(answer.json(), plain.json(), "document")
        check(b'\n  "kind"' in answer.body, "not indented")
    equal(apis(world, User_Agent="kubectl/1.34").body, plain.body, "kubectl's")


def test_readers(world):
    """who may read /apis at the local server may read it here, and nobody else"""
    settled(world)
    for user, token in (("admin", None), ("alice", None), (None, "token-bob"), (None, None), (None, "wrong"),
                        ("foreign", None), ("foreign", "token-bob"), ("expired", None), ("deep", None)):
        fields = {"Accept": V2}
        if token:
            fields["Authorization"] = "Bearer " + token
        direct = world.ask("GET", "/apis", None, "a", user, fields, direct=True)
        for _ in range(2):
            through = world.ask("GET", "/apis", None, "a", user, fields)
            equal(through.status, direct.status, "%s with token %s" % (user, token))
            if direct.status in (401, 403):
                equal((through.header("Content-Type"), through.body), (direct.header("Content-Type"), direct.body), "refusal")
        if direct.status != 200:
            equal(through.json(), direct.json(), "the refusal of %s" % user)


def test_revoked(world):
    """a right that is taken away counts at once when verdicts are not kept"""
    world.sim.ask("rules", "PUT", [{"users": ["system:anonymous"], "verbs": ["get"], "nonResourceURLs": ["/apis"]}])
    equal(apis(world, user=None).status, 200, "anonymous, allowed")
    world.sim.ask("rules", "PUT", [])
    equal(apis(world, user=None).status, 403, "anonymous, no more")
    equal(apis(world).status, 200, "admin")


def test_change_at_the_peer(world):
    """a group that appears at the peer and goes again is followed at both instances"""
    extra = [{"group": "new.example.com", "version": "v1", "resource": "things", "kind": "Thing", "namespaced": False,
              "verbs": ["get", "list"]}]
    before = settled(world)
    world.sim.restart_server("b", extra=extra)
    for name in "ab":
        until(lambda n=name: "new.example.com" in groups(apis(world, n)), "the group at " + name)
    until(lambda: apis(world, "a").body == apis(world, "b").body, "the same document")
    until(lambda: world.ask("GET", "/apis/new.example.com/v1/things").status == 200, "the resource through a")
    world.sim.restart_server("b", extra=[])
    for name in "ab":
        until(lambda n=name: "new.example.com" not in groups(apis(world, n)), "the group to go at " + name)
    equal(settled(world).body, before.body, "as before")


def test_core_follows_the_process(world):
    """what another process has in the core group is routed to"""
    gadgets = [{"group": "", "version": "v1", "resource": "gadgets", "kind": "Gadget", "namespaced": False, "verbs": ["get", "list"]}]
    settled(world)
    for extra, status in ((gadgets, 200), ([], 404)):
        world.sim.restart_server("b", extra=extra)
        until(lambda s=status: world.ask("GET", "/api/v1/gadgets").status == s, "the core group of the new process")


def test_merged_order_and_union(world):
    """one document from different verbs and subresources: their union, whoever asks"""
    try:
        world.sim.restart_server("a", **{"runtime-config": ["v1/pods/log=false", "apps/v1/deployments:watch=false"]})
        world.sim.restart_server("b", **{"runtime-config": ["apps/v1/deployments:list=false", "batch/v1/jobs=false"]})

        def whole():
            document = {g["metadata"]["name"]: g for g in apis(world).json()["items"]}
            resources = {r["resource"]: r for v in document["apps"]["versions"] for r in v["resources"]}
            jobs = [r["resource"] for v in document["batch"]["versions"] for r in v["resources"]]
            return {"watch", "list"} <= set(resources["deployments"]["verbs"]) and jobs == ["cronjobs", "jobs"]
        until(whole, "the union at a")
        until(lambda: apis(world, "a").body == apis(world, "b").body, "the same at b")
        until(lambda: world.ask("GET", BATCH, name="b").status == 200, "jobs through b")
    finally:
        for name in "ab":
            world.sim.restart_server(name, **{"runtime-config": []})
    settled(world)


def test_compressed(world):
    """more than 128 KiB: gzip for who takes exactly that; the ETag stays"""
    extra = [{"group": "many.example.com", "version": "v1", "resource": "things%d" % n, "kind": "Thing", "namespaced": True,
              "verbs": ["get", "list"]} for n in range(900)]
    small = settled(world)
    equal(apis(world, Accept_Encoding="gzip").header("Content-Encoding"), None, "a small document")
    equal(small.header("Content-Encoding"), None, "no Accept-Encoding")
    world.sim.restart_server("b", extra=extra)
    try:
        until(lambda: "many.example.com" in groups(apis(world)), "the large document")
        plain = apis(world)
        check(len(plain.body) > 131072, "not large enough")
        for encoding, zipped in (("gzip", True), ("deflate, gzip", True), ("gzip;q=1.0", False), ("identity", False)):
            answer = apis(world, Accept_Encoding=encoding)
            equal(answer.header("Content-Encoding"), "gzip" if zipped else None, encoding)
            equal(gzip.decompress(answer.body) if zipped else answer.body, plain.body, encoding)
            equal(answer.header("ETag"), plain.header("ETag"), "ETag")
            if zipped:
                check("Accept-Encoding" in ",".join(answer.all("Vary")), "Vary", answer.all("Vary"))
        equal(apis(world, Accept_Encoding="gzip", If_None_Match=plain.header("ETag")).status, 304, "304")
    finally:
        world.sim.restart_server("b", extra=[])
    for name in "ab":
        until(lambda n=name: "many.example.com" not in groups(apis(world, n)), "the small document at " + name)
    settled(world)


def test_custom_resources_are_not_merged_twice(world):
    """a CRD's group comes from the local server, and is gone with the CRD"""
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    crd = {"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True}]}}
    before = settled(world)
    equal(world.ask("POST", crds, crd).status, 201, "create")
    for name in "ab":
        until(lambda n=name: "example.com" in groups(apis(world, n)), "the group at " + name)
    until(lambda: apis(world, "a").body == apis(world, "b").body, "the same document")
    equal(world.ask("DELETE", crds + "/widgets.example.com").status, 200, "delete")
    for name in "ab":
        until(lambda n=name: apis(world, n).body == before.body, "the old document at " + name)


def impatient(world, wanted):
    """Only where a peer is to lapse: elsewhere a Lease that comes late on a slow machine would make it lapse, too."""
    proxy = world.proxies["a"]
    proxy.options.pop("peer-stale-after", None)
    proxy.await_log("Reloaded", proxy.reload({"peer-stale-after": "2s"} if wanted else {}))


def test_dead_peer_is_stale(world):
    """a killed peer's groups become Stale, not absent; deleted Lease: forgotten; back: Current"""
    settled(world)
    impatient(world, True)
    world.proxies["b"].kill()
    world.sim.kill_server("b")
    check("resource.k8s.io" in groups(apis(world)), "gone at once")
    until(lambda: freshness(apis(world), "resource.k8s.io") == {"v1": "Stale"}, "Stale")
    equal(freshness(apis(world), "apps"), {"v1": "Current"}, "what is served here")
    impatient(world, False)
    world.sim.start_server("b")
    world.proxies["b"].start()
    settled(world)


def test_died_before_we_started(world):
    """a peer that died before mvproxy started never told what it serves: what may be its is Stale, and 503, until it is back"""
    settled(world)
    world.sim.kill_server("b")
    proxy = world.proxies["a"]
    proxy.stop()
    proxy.options["peer-stale-after"] = "2s"
    proxy.start()
    until(lambda: proxy.metric("mvproxy_peers", state="lapsed") == 1.0, "the peer to have lapsed")
    for path in ("/apis/resource.k8s.io/v1/deviceclasses", "/apis/resource.k8s.io/v1/deviceclasses/x"):
        answer = world.ask("GET", path)
        equal(answer.status, 503, path)
        check(int(answer.header("Retry-After")) >= 1, "Retry-After")
    equal(freshness(apis(world), "resource.k8s.io").get("v1"), "Stale", "the merged document says the same")
    equal(world.ask("GET", "/apis/nobody.example.com/v1/things").status, 404, "what nobody names")
    equal(world.ask("GET", BATCH).status, 200, "what the local server has")
    world.sim.start_server("b")
    until(lambda: world.ask("GET", "/apis/resource.k8s.io/v1/deviceclasses").status == 200, "the peer to be back")
    impatient(world, False)
    settled(world)


def test_without_difference(world):
    """when the servers serve the same, the local document is served byte for byte"""
    world.sim.restart_server("a", profile="v1.34")
    try:
        until(lambda: apis(world).body == apis(world, direct=True).body, "the local document")
        # The bytes may have been the same before, as the merger of both: then the tag follows them.
        until(lambda: apis(world).header("ETag") == apis(world, direct=True).header("ETag"), "its ETag")
        equal(apis(world, "b").body, apis(world, "a").body, "at both")
    finally:
        world.sim.restart_server("a", profile="v1.33")
    settled(world)


def test_metrics(world):
    """merged and nopeer requests are counted"""
    proxy = world.proxies["a"]
    names = ("aggregator_discovery_peer_aggregated_cache_hits_total", "aggregator_discovery_nopeer_requests_total")
    before = [proxy.metric(n) or 0 for n in names]
    apis(world)
    apis(world, accept=NOPEER)
    equal([proxy.metric(n) for n in names], [b + 1 for b in before], "counters")


def test_valid_json(world):
    """every document parses, and repeats no group"""
    for name in "ab":
        for accept in (V2, NOPEER):
            document = json.loads(apis(world, name, accept).body)
            found = [g["metadata"]["name"] for g in document["items"]]
            equal(len(found), len(set(found)), "groups")


if __name__ == "__main__":
    fixture.main(globals())
