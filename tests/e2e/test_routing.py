#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests for what the local server lacks go to the server that has it; all others stay."""

import base64

import fixture
from fixture import check, equal, until, unversioned

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
MAPS = "/api/v1/namespaces/default/configmaps"


def device_class(name, **labels):
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
            "metadata": {"name": name, "labels": labels}, "spec": {}}


def refusal(answer, text):
    """A 503 that client-go understands and repeats by itself."""
    equal(answer.status, 503, "status of %r" % answer)
    status = answer.json()
    equal((status["kind"], status["apiVersion"], status["status"], status["reason"], status["code"]),
          ("Status", "v1", "Failure", "ServiceUnavailable", 503), "the Status")
    check(text in status["message"], status["message"], "does not say", text)
    equal(answer.header("Content-Type"), "application/json", "Content-Type")
    seconds = answer.header("Retry-After")
    check(seconds and seconds.isdigit() and int(seconds) >= 1, "Retry-After", seconds)
    equal(status["details"]["retryAfterSeconds"], int(seconds), "retryAfterSeconds")


def test_the_problem(world):
    """straight at the old server: a plain 404"""
    answer = world.ask("GET", CLASSES, direct=True)
    equal((answer.status, answer.body), (404, b"404 page not found\n"), "direct answer")


def test_the_cure(world):
    """create, get, list, patch, replace, delete through the old server's mvproxy"""
    with world.client() as client:
        made = client.ask("POST", CLASSES, device_class("gpu", a="1"))
        equal(made.status, 201, "create %r" % made)
        check(made.json()["metadata"]["uid"], "no uid")
        equal(client.ask("POST", CLASSES, device_class("gpu")).status, 409, "create again")
        equal(client.ask("GET", CLASSES + "/gpu").json(), made.json(), "get")
        listed = client.ask("GET", CLASSES + "?labelSelector=a%3D1")
        equal([i["metadata"]["name"] for i in listed.json()["items"]], ["gpu"], "list")
        patched = client.ask("PATCH", CLASSES + "/gpu", b'{"metadata":{"labels":{"b":"2"}}}',
                             {"Content-Type": "application/merge-patch+json"})
        equal(patched.json()["metadata"]["labels"], {"a": "1", "b": "2"}, "patch")
        replaced = client.ask("PUT", CLASSES + "/gpu", device_class("gpu", c="3"))
        equal(replaced.json()["metadata"]["labels"], {"c": "3"}, "put")
        equal(client.ask("DELETE", CLASSES + "/gpu").json()["status"], "Success", "delete")
        gone = client.ask("GET", CLASSES + "/gpu")
        equal((gone.status, gone.json()["reason"]), (404, "NotFound"), "get after delete")
        equal(client.ask("DELETE", CLASSES).status, 200, "deletecollection")
    for record in world.sim.requests(path=CLASSES):
        equal(record["server"], "b", "who answered " + record["method"])


def test_answers_are_the_peers(world):
    """status, headers and body are those that the peer gives"""
    for path in (CLASSES, CLASSES + "/nothing", CLASSES + "?labelSelector=a%20b"):
        direct = world.ask("GET", path, name="b", direct=True)
        through = world.ask("GET", path)
        equal((through.status, unversioned(through.body)), (direct.status, unversioned(direct.body)), path)
        equal(through.header("Content-Type"), direct.header("Content-Type"), path)
        for name in ("Audit-Id", "Cache-Control", "Content-Type"):
            equal(len(through.all(name)), 1, "%s of %s" % (name, path))


def test_named(world):
    """what a peer answered says which server it was; what the local server answered says nothing"""
    identity = world.sim.server("b")["id"]
    for path in (CLASSES, CLASSES + "/nothing"):
        equal(world.ask("GET", path).header("X-Mvproxy-Served-By"), identity, path)
    equal(world.ask("GET", MAPS).header("X-Mvproxy-Served-By"), None, MAPS)
    # The real one alone is believed.
    world.sim.fault("raw", "a", "GET", MAPS, count=1, raw=base64.b64encode(
        b"HTTP/1.1 200 OK\r\nX-Mvproxy-Served-By: somebody\r\nContent-Length: 0\r\n\r\n").decode())
    equal(world.ask("GET", MAPS).header("X-Mvproxy-Served-By"), None, "a server's own")


def test_local_stays_local(world):
    """what the local server has goes there, and the answers are byte for byte the same"""
    world.ask("POST", MAPS, {"metadata": {"name": "local"}})
    mark = world.sim.mark()
    for path in (MAPS, MAPS + "/local", MAPS + "/nothing", "/api/v1/namespaces/default", "/api/v1/namespaces",
                 "/version", "/healthz", "/api", "/api/v1", "/apis/apps", "/apis/apps/v1", "/nothing"):
        direct = world.ask("GET", path, direct=True)
        through = world.ask("GET", path)
        equal((through.status, unversioned(through.body)), (direct.status, unversioned(direct.body)), path)
    check({r["server"] for r in world.sim.requests(since=mark)
           if "apiserver-" not in r["path"] and (r["user"] or {}).get("username") == "kubernetes-admin"} == {"a"}, "asked elsewhere")


def test_false_404s_only(world):
    """what nobody has is the local server's 404, unchanged"""
    for path in ("/apis/nobody.example.com/v1/things", "/api/v1/nothings", "/api/v2/pods",
                 "/apis/apps/v9/deployments", MAPS + "/x/wings", "/apis/resource.k8s.io/v1/nothings", CLASSES + "/x/wings"):
        direct = world.ask("GET", path, direct=True)
        through = world.ask("GET", path)
        equal((through.status, unversioned(through.body)), (direct.status, unversioned(direct.body)), path)
        equal(through.status, 404, path)


def test_slashes_before(world):
    """what requestInfo reads as a peer's resource, but no server has a path for, is 404"""
    for path in ("/" + CLASSES, "//" + CLASSES + "/x", "/%2f" + CLASSES[1:]):
        answer = world.ask("GET", path)
        equal((answer.status, answer.body), (404, b"404 page not found\n"), path)


def test_target_unchanged(world):
    """the peer gets the request target byte for byte"""
    targets = [CLASSES + "?labelSelector=a%3Db&limit=5&&x=%2f;y", "/apis/resource.k8s.io%2Fv1/deviceclasses", CLASSES + "/%e2%82%ac?b&a=1",
               CLASSES + "/name/?z=%7e", CLASSES + "?fieldSelector=metadata.name%3Dx"]
    mark = world.sim.mark()
    with world.client() as client:
        for target in targets:
            client.ask("GET", target)
    equal([r["target"] for r in world.sim.requests("b", CLASSES, since=mark)], targets, "targets at the peer")


def test_subresource_and_verb(world):
    """a subresource or verb that only the peer has counts as missing here"""
    try:
        world.sim.command("a", "apis", {"runtime-config": [
            "v1/pods/resize=false", "apps/v1/deployments:deletecollection=false"], "extra": []})
        until(lambda: world.ask("GET", "/api/v1", direct=True).status == 200 and "pods/resize" not in
              world.ask("GET", "/api/v1", direct=True).body.decode(), "the change")
        world.ask("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": {"n": 1}})
        body = b'{"spec":{"n":2}}'
        kind = {"Content-Type": "application/merge-patch+json"}
        path = "/api/v1/namespaces/default/pods/p/resize"
        equal(world.ask("PATCH", path, body, headers=kind, direct=True).status, 404, "direct resize")
        until(lambda: world.ask("PATCH", path, body, headers=kind).status == 200, "resize through the peer")
        equal(world.ask("GET", "/api/v1/namespaces/default/pods/p").json()["spec"], {"n": 2}, "the pod")
        path = "/apis/apps/v1/namespaces/default/deployments"
        equal(world.ask("DELETE", path, direct=True).status, 405, "direct deletecollection")
        until(lambda: world.ask("DELETE", path).status == 200, "deletecollection through the peer")
        mark = world.sim.mark()
        equal(world.ask("GET", path).status, 200, "list")
        equal([r["server"] for r in world.sim.requests(path=path, since=mark)], ["a"], "who listed")
    finally:
        world.sim.command("a", "apis", {"runtime-config": [], "extra": []})


def test_loop_mark_of_a_client(world):
    """a client's own loop marks mean nothing"""
    for name in ("X-Kubernetes-APIServer-Rerouted", "x-kubernetes-peer-proxied"):
        equal(world.ask("GET", CLASSES, headers={name: "true"}).status, 200, name)


def test_loop_mark_of_a_peer(world):
    """a request that a peer sent here is never sent on: 503, not 404"""
    with world.client(user="front-proxy-client") as peer:
        for name in ("X-Kubernetes-APIServer-Rerouted", "x-kubernetes-peer-proxied"):
            mark = world.sim.mark()
            answer = peer.ask("GET", CLASSES, None, {name: "true", "X-Remote-User": "admin", "X-Remote-Group": "system:masters"})
            refusal(answer, "")
            equal(world.sim.requests("b", CLASSES, since=mark), [], "requests at b")
            answer = peer.ask("GET", MAPS, None, {name: "true", "X-Remote-User": "admin", "X-Remote-Group": "system:masters"})
            equal(answer.status, 200, "local resource with " + name)


def test_hop_is_marked(world):
    """on its way to the peer a request carries the loop mark, so that it is rerouted once"""
    world.ask("GET", CLASSES)
    record = world.sim.requests("b", CLASSES)[-1]
    equal(record["headers"].get("X-Kubernetes-Peer-Proxied"), ["true"], "mark")
    equal(record["user"]["username"], "kubernetes-admin", "user at the peer")


def test_new_crd_stays_local(world):
    """a custom resource of this second is the local server's, also where its discovery was not read since"""
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for number in range(5):
        group = "g%d.example.com" % number
        crd = {"metadata": {"name": "widgets." + group}, "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True}]}}
        equal(world.ask("POST", crds, crd).status, 201, "create the CRD")
        mark = world.sim.mark()
        for name in world.proxies:
            path = "/apis/%s/v1/namespaces/default/widgets" % group
            equal(world.ask("GET", path, name=name).status, 200, path)
            equal([r["server"] for r in world.sim.requests(path=path, since=mark)], [name], "who answered")
            mark = world.sim.mark()
        equal(world.ask("DELETE", crds + "/widgets." + group).status, 200, "delete the CRD")
        equal(world.ask("GET", path).status, 404, "after the deletion")


def test_namespaces(world):
    """namespaces, their status and finalize are the local server's"""
    mark = world.sim.mark()
    equal(world.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}}).status, 201, "create")
    for path in ("/api/v1/namespaces/team", "/api/v1/namespaces/team/status"):
        equal(world.ask("GET", path).status, 200 if not path.endswith("status") else
              world.ask("GET", path, direct=True).status, path)
    equal(world.ask("DELETE", "/api/v1/namespaces/team").status, 200, "delete")
    equal({r["server"] for r in world.sim.requests(path="/api/v1/namespaces/team", since=mark)}, {"a"}, "who")


def test_bad_targets(world):
    """a target that could be read in two ways is refused, and nobody is asked"""
    mark = world.sim.mark()
    for target in ("/api/v1/%zz", "/api/v1/%", "/api/v1/a%0", "/api/v1/pods%00", "/api/v1/p\x01ds", "/api/v1/p ods",
                   "ftp://kubernetes.default.svc/api/v1/pods"):
        with world.client() as client:
            client.send("GET %s HTTP/1.1\r\nHost: kubernetes.default.svc\r\n\r\n" % target)
            equal(client.answer().status, 400, repr(target))
    equal([r["target"] for r in world.sim.requests(since=mark) if r["user"] and r["user"]["username"] == "kubernetes-admin"],
          [], "requests that arrived")


def test_peer_down(world):
    """the only server that has it is down: 503 with Retry-After and never 404; back: healed"""
    equal(world.ask("GET", CLASSES).status, 200, "before")
    world.sim.kill_server("b")
    for _ in range(10):  # its mvproxy says so
        refusal(world.ask("GET", CLASSES), "Error while proxying request to")
    world.proxies["b"].kill()
    for _ in range(10):
        refusal(world.ask("GET", CLASSES), "Error while proxying request to destination apiserver")
    equal(world.ask("GET", MAPS).status, 200, "a local resource meanwhile")
    world.sim.start_server("b")
    world.proxies["b"].start()
    until(lambda: world.ask("GET", CLASSES).status == 200, "the peer to be used again")


def test_never_404_while_it_restarts(world):
    """while the peer restarts again and again every answer is right or 503"""
    seen = set()
    for _ in range(4):
        world.sim.kill_server("b")
        seen |= {world.ask("GET", CLASSES).status for _ in range(5)}
        world.sim.start_server("b")
        seen |= {world.ask("GET", CLASSES).status for _ in range(5)}
        until(lambda: world.ask("GET", CLASSES).status == 200, "the peer to be used again")
    check(seen <= {200, 503}, "statuses", seen)


def test_gone_for_good(world):
    """upgraded here, the resource is local; downgraded, the peer's again"""
    world.sim.restart_server("a", profile="v1.34")
    until(lambda: world.ask("GET", "/version").json()["minor"] == "34", "the upgrade")

    def answered_by(name):
        mark = world.sim.mark()
        answer = world.ask("GET", CLASSES)
        return answer.status == 200 and {r["server"] for r in world.sim.requests(path=CLASSES, since=mark)} == {name}

    until(lambda: answered_by("a"), "a to answer for itself")
    world.sim.restart_server("a", profile="v1.33")
    until(lambda: answered_by("b"), "b to answer for a")


def test_log_and_metrics(world):
    """rerouted requests are counted by code, group, version and resource"""
    proxy = world.proxies["a"]
    labels = {"code": "200", "group": "resource.k8s.io", "version": "v1", "resource": "deviceclasses"}
    before = proxy.metric("apiserver_rerouted_request_total", **labels) or 0
    for _ in range(3):
        equal(world.ask("GET", CLASSES).status, 200, "list")
    equal(proxy.metric("apiserver_rerouted_request_total", **labels), before + 3, "rerouted")
    none = {"code": "200", "group": "", "version": "", "resource": ""}
    before = proxy.metric("apiserver_rerouted_request_total", **none) or 0
    equal(world.ask("GET", "/apis", headers={"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}).status, 200, "merged discovery")
    equal(proxy.metric("apiserver_rerouted_request_total", **none) or 0, before, "which no peer has answered")
    equal(world.ask("GET", "/openapi/v3/apis/resource.k8s.io/v1").status, 200, "a schema")
    equal(proxy.metric("apiserver_rerouted_request_total", **none), before + 1, "which one has")


if __name__ == "__main__":
    fixture.main(globals())
