# SPDX-License-Identifier: Apache-2.0
"""What is really stored: etcd asked by itself, past every API server."""

import base64
import http.client
import json
import ssl


def _text(value):
    return base64.b64encode(value.encode()).decode()


def _ask(cluster, path, what):
    tls = ssl.create_default_context(cafile=cluster.pki.crt("etcd-ca"))
    tls.load_cert_chain(cluster.pki.crt("etcd-client"), cluster.pki.key("etcd-client"))
    connection = http.client.HTTPSConnection("127.0.0.1", 2379, timeout=30, context=tls)
    connection.request("POST", path, json.dumps(what))
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    assert answer.status == 200, body
    return body


def keys(cluster, prefix):
    """All keys that begin with this, sorted."""
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    body = _ask(cluster, "/v3/kv/range", {"key": _text(prefix), "range_end": _text(end), "keys_only": True})
    return sorted(base64.b64decode(one["key"]).decode() for one in body.get("kvs", []))


def get(cluster, key):
    """What is stored under it, as bytes."""
    return base64.b64decode(_ask(cluster, "/v3/kv/range", {"key": _text(key)})["kvs"][0]["value"])


def put(cluster, key, thing):
    """An object, as JSON."""
    _ask(cluster, "/v3/kv/put", {"key": _text(key), "value": _text(json.dumps(thing))})


def delete(cluster, key):
    _ask(cluster, "/v3/kv/deleterange", {"key": _text(key)})
