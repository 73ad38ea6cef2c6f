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
