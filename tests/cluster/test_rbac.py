# SPDX-License-Identifier: Apache-2.0
"""With the rights of contrib/rbac/mvproxy.yaml (and of mvproxy-before-1.26.yaml there), and no others, mvproxy does all that it does."""

import json
import os
import re
import signal

from harness import waiting
from harness.api import expect
from harness.node import numbers
from harness.runner import core

RBAC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "contrib", "rbac")
WHO = {"apiserver_user": "system:mvproxy", "apiserver_groups": ["system:authenticated"]}


def _reload(node, **options):
    mark = len(node.mvproxy.log_text())
    node.write_config(**options)
    node.mvproxy.signal(signal.SIGHUP)
    waiting.until(lambda: '"Reloaded"' in node.mvproxy.log_text()[mark:], "the reload")
    return mark


def _flow_version(node):
    """As flowschema.yaml says it has to be written there."""
    minor = numbers(node.spec.version)[1]
    return "flowcontrol.apiserver.k8s.io/%s\n" % ("v1" if minor >= 29 else "v1beta3" if minor >= 26 else "v1beta2")


def _dispatched(node):
    """How many requests API Priority and Fairness has let through at that server's by our FlowSchema."""
    lines = expect(node.direct().get("/metrics"), 200).body.decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines
               if line.startswith("apiserver_flowcontrol_dispatched_requests_total{") and 'flow_schema="system-mvproxy",priority_level="node-high"' in line)


@core
def test_least_privilege(cluster):
    """after the change of user: no 403 for us, peers are found, routed to and merged as before; in a queue that is not everybody's"""
    newest = cluster.new
    files = ["mvproxy.yaml"] if "leases" in cluster.traits else ["mvproxy.yaml", "mvproxy-before-1.26.yaml"]
    for name in files + ["flowschema.yaml"]:
        with open(os.path.join(RBAC, name), encoding="utf-8") as text:
            done = newest.kubectl().run("apply", "-f", "-", stdin=text.read().replace("flowcontrol.apiserver.k8s.io/v1\n", _flow_version(newest)))
        assert done.status == 0, done
    marks = {}
    try:
        for node in cluster.nodes:
            marks[node.name] = _reload(node, **WHO)
            # Everything anew, as that user.
            node.mvproxy.stop()
            node.start_mvproxy(**WHO)
            node.await_mvproxy()
        cluster.await_settled()
        # They hear of the FlowSchema each by himself; /version is asked for each second.
        for node in cluster.nodes:
            waiting.until(lambda n=node: _dispatched(n), "requests by the FlowSchema at " + node.name)
        expect(cluster.old.proxied().get(cluster.skew.collection), 200)
        for node in cluster.nodes:
            log = node.mvproxy.log_text()[marks[node.name]:]
            refused = [line for line in log.splitlines() if _tells_of_403(line)]
            assert not refused, refused[:3]
    finally:
        for node in cluster.nodes:
            _reload(node)
    events = [e for n in cluster.nodes for e in _asked_by(n)]
    assert events, "nobody was asked as system:mvproxy"
    assert not [e for e in events if e["responseStatus"]["code"] == 403], [e for e in events if e["responseStatus"]["code"] == 403][:2]


def _tells_of_403(line):
    """Not a request of a client's, and not a duration or a length that happens to be 403."""
    said = re.sub(r"\b\w*(Us|Ms|bytes|Bytes|generation)=\d+", "", line)
    return '"Request"' not in line and re.search(r"\b403\b|[Ff]orbidden", said) is not None


def _asked_by(node):
    with open(node.audit_log, encoding="utf-8") as lines:
        return [e for e in map(json.loads, lines) if e["user"].get("username") == "system:mvproxy" and "responseStatus" in e]
