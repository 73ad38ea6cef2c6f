"""What is really stored: etcd asked by itself, past every API server."""

import base64
import http.client
import json
import ssl


def _text(value):
    return base64.b64encode(value.encode()).decode()


def keys(cluster, prefix):
    """All keys that begin with this, sorted."""
    tls = ssl.create_default_context(cafile=cluster.pki.crt("etcd-ca"))
    tls.load_cert_chain(cluster.pki.crt("etcd-client"), cluster.pki.key("etcd-client"))
    connection = http.client.HTTPSConnection("127.0.0.1", 2379, timeout=30, context=tls)
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    connection.request("POST", "/v3/kv/range", json.dumps(
        {"key": _text(prefix), "range_end": _text(end), "keys_only": True}))
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    assert answer.status == 200, body
    return sorted(base64.b64decode(one["key"]).decode() for one in body.get("kvs", []))
