# SPDX-License-Identifier: Apache-2.0
"""With the rights of contrib/rbac/mvproxy.yaml, and no others, mvproxy does all that it does."""

import json
import os
import re
import signal

from harness import waiting
from harness.api import expect

MANIFEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "contrib", "rbac", "mvproxy.yaml")
WHO = {"apiserver_user": "system:mvproxy", "apiserver_groups": ["system:authenticated"]}


def _reload(node, **options):
    mark = len(node.mvproxy.log_text())
    node.write_config(**options)
    node.mvproxy.signal(signal.SIGHUP)
    waiting.until(lambda: '"Reloaded"' in node.mvproxy.log_text()[mark:], "the reload")
    return mark


def test_least_privilege(cluster):
    """after the change of user: no 403 for us, peers are found, routed to and merged as before"""
    newest = cluster.new
    done = newest.kubectl().run("apply", "-f", MANIFEST)
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
        expect(cluster.old.proxied().get(cluster.skew.collection), 200)
        for node in cluster.nodes:
            log = node.mvproxy.log_text()[marks[node.name]:]
            refused = [line for line in log.splitlines() if re.search(r"\b403\b|[Ff]orbidden", line) and '"Request"' not in line]
            assert not refused, refused[:3]
    finally:
        for node in cluster.nodes:
            _reload(node)
    events = [e for n in cluster.nodes for e in _asked_by(n)]
    assert events, "nobody was asked as system:mvproxy"
    assert not [e for e in events if e["responseStatus"]["code"] == 403], [e for e in events if e["responseStatus"]["code"] == 403][:2]


def _asked_by(node):
    with open(node.audit_log, encoding="utf-8") as lines:
        return [e for e in map(json.loads, lines) if e["user"].get("username") == "system:mvproxy" and "responseStatus" in e]
