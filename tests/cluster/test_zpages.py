# SPDX-License-Identifier: Apache-2.0
"""/statusz and /flagz: mvproxy gives everybody the form that kube-apiserver (1.36 and later) gives."""

import json
import urllib.error
import urllib.request

import yaml

from harness.runner import core, needs

BETA, ALPHA = "v=v1beta1;g=config.k8s.io;as=%s", "v=v1alpha1;g=config.k8s.io;as=%s"
ACCEPTED = ["", "*/*", "text/plain", "text/*", "application/json", "application/yaml", "application/cbor", "application/*", "application/xml",
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "*/plain", "text/plain;stream=watch", "text/plain;v=v1beta1",
            "application/json;v=v1;g=config.k8s.io;as=%s", "application/json;v=v1beta1;g=config.k8s.io", "application/json;v=v1beta1;as=%s",
            "application/json;v=nonsense;g=config.k8s.io;as=%s,*/*"]
ACCEPTED += ["%s;%s" % (media, version) for version in (BETA, ALPHA) for media in
             ("application/json", "application/yaml", "application/cbor", "application/vnd.kubernetes.protobuf", "application/*", "*/*", "text/plain",
              "application/json;stream=watch", "application/json;sv=v1", "application/json;pretty=1", "application/yaml;pretty=1")]
ACCEPTED += ["application/json;%s,application/json;%s" % pair for pair in ((ALPHA, BETA), (BETA, ALPHA))]
ACCEPTED += ["application/cbor;%s,application/yaml;%s;q=0.5,text/plain;q=0.1" % (BETA, BETA)]
AGENTS = ("test", "curl/8.0", "Mozilla/5.0 (X11)")
OWN = {"goVersion", "emulationVersion", "status"}  # each has what the other has not


def _ours(node, path, headers):
    request = urllib.request.Request("http://%s%s" % (node.admin_address, path), headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def _theirs(node, path, headers):
    answer = node.direct().get(path, **headers)
    return answer.status, answer.headers, answer.body


def _parameters(media):
    """In any order."""
    first, *more = (part.strip() for part in (media or "").split(";"))
    return first, sorted(more)


def _shape(answer):
    """What of an answer is the same whoever gives it."""
    status, headers, body = answer
    media, parameters = _parameters(headers.get("Content-Type"))
    text = body.decode()
    if status == 200 and media == "text/plain":
        content = text.splitlines()[2]
    elif media == "application/yaml":
        document = yaml.safe_load(text)
        assert not text.lstrip().startswith("{"), text
        content = document["kind"], document["apiVersion"], {key: type(value) for key, value in document.items() if key not in OWN}
    else:
        document = json.loads(text)
        content = ({key: type(value) for key, value in document.items() if key not in OWN}, document["kind"], document["apiVersion"],
                   document.get("message"), "pretty" if status == 200 and text.startswith("{\n  \"") else "")
    return status, media, parameters, headers.get("Warning"), content


DELIMITERS = (": ", ":", "=", " ")  # kube-apiserver draws one each time it makes the text
# Flags that both have, and with the same value here. The names of header fields are not ours to choose in this setup.
SHARED = ("client-ca-file", "goaway-chance", "proxy-client-cert-file", "proxy-client-key-file", "requestheader-allowed-names", "requestheader-client-ca-file",
          "requestheader-extra-headers-prefix", "requestheader-group-headers", "requestheader-username-headers", "secure-port",
          "shutdown-delay-duration", "tls-cert-file", "tls-cipher-suites", "tls-private-key-file", "tls-sni-cert-key")


def _pairs(lines, behind=""):
    """What text says, whichever delimiter it has, and what stands behind that."""
    for delimiter in (each + behind for each in DELIMITERS):
        if all(delimiter in line for line in lines):
            return [tuple(part.strip() for part in line.split(delimiter, 1)) for line in lines]
    raise AssertionError("no delimiter fits %r" % lines)


def _unnamed(head):
    """The lines before the first pair, without who says them."""
    return [line.partition(" ")[2] if i == 1 else line for i, line in enumerate(head)]


def _flags(who, node, accept):
    """{name: value}, and the lines before them. The order is that of names, in every form."""
    status, _, body = who(node, "/flagz", {"Accept": accept, "User-Agent": "test"})
    assert status == 200, (who, accept, body)
    text = body.decode()
    if accept == "text/plain":
        head, pairs = text.splitlines()[:3], _pairs(text.splitlines()[3:])
        assert [name for name, _ in pairs] == sorted({name for name, _ in pairs}), pairs
        return _unnamed(head), dict(pairs)
    document = yaml.safe_load(text)
    assert all(isinstance(value, str) for value in document["flags"].values()), document
    assert list(document["flags"]) == sorted(document["flags"]), document
    return [document["kind"], document["apiVersion"]], document["flags"]


@core
@needs("zpages")
def test_flags(cluster):
    """/flagz: the flags that both have and that are set alike have the same values, in text, JSON and YAML of both versions"""
    asked = ["text/plain"] + ["application/%s;%s" % (media, version % "Flagz") for media in ("json", "yaml") for version in (ALPHA, BETA)]
    for node in cluster.nodes:
        for accept in asked:
            (head, theirs), (our_head, ours) = (_flags(who, node, accept) for who in (_theirs, _ours))
            assert head == our_head, (head, our_head)
            assert {name: theirs[name] for name in SHARED} == {name: ours[name] for name in SHARED}, (node.name, accept)
            assert ours == _flags(_ours, node, "text/plain")[1], accept


@core
@needs("zpages")
def test_status_text(cluster):
    """/statusz as text: the same lines in the same order, but for those that only one of the two can have"""
    for node in cluster.nodes:
        theirs, ours = (who(node, "/statusz", {"Accept": "text/plain"})[2].decode().splitlines() for who in (_theirs, _ours))
        assert _unnamed(theirs[:4]) == _unnamed(ours[:4]), (theirs, ours)
        names = [name for name, _ in _pairs(theirs[4:], " ") if name not in ("Go version", "Emulation version")]
        assert [name for name, _ in _pairs(ours[4:4 + len(names)], " ")] == names, (theirs, ours)
        for lines in (theirs, ours):
            paths = dict(_pairs([line for line in lines if line.startswith("Paths")], " "))["Paths"].split()
            assert paths == sorted(paths) and all(path.count("/") == 1 for path in paths), paths
            assert {"/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz"} <= set(paths), paths


@core
@needs("zpages")
def test_negotiated(cluster):
    """every way to ask, of both pages: status, media type, warning and members as with kube-apiserver itself"""
    asked, wrong = 0, []
    for path, kind in (("/statusz", "Statusz"), ("/flagz", "Flagz")):
        for accept in ACCEPTED:
            for query, agent in [("", agent) for agent in AGENTS] + [("?pretty=true", "test"), ("?pretty=0", "curl/8.0")]:
                headers = {"User-Agent": agent, "Accept": accept.replace("%s", kind)}
                asked += 1
                for node in cluster.nodes:
                    theirs, ours = (_shape(who(node, path + query, headers)) for who in (_theirs, _ours))
                    if theirs != ours:
                        wrong.append("%s: %s%s, %r:\n  kube-apiserver: %s\n  mvproxy:        %s" % (node.name, path, query, headers, theirs, ours))
    assert not wrong, "%d of %d\n%s" % (len(wrong), asked, "\n".join(wrong[:12]))
    print("# asked in %d ways at each node" % asked, flush=True)
