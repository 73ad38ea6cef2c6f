# SPDX-License-Identifier: Apache-2.0
"""Real etcd for stories: a cluster of members with TLS and client certificates, and a look into its store."""

import base64
import json
import os
import shutil
import signal
import ssl
import tempfile
import urllib.request

import fixture

FOLDER = "/registry/peerserverleases/"


class Member(fixture.Process):
    """One etcd, which may be stopped, killed, and started again on its data."""

    def __init__(self, name, scratch, data, certs, urls, peers):
        self.url = urls[name]
        self.data = os.path.join(data, name + ".data")
        self.peers = peers
        super().__init__(name, [
            "etcd", "--name=" + name, "--data-dir=" + self.data, "--listen-client-urls=" + self.url,
            "--advertise-client-urls=" + self.url, "--listen-peer-urls=" + peers[name],
            "--initial-advertise-peer-urls=" + peers[name],
            "--initial-cluster=" + ",".join("%s=%s" % p for p in peers.items()),
            "--cert-file=" + certs.crt("etcd-server"), "--key-file=" + certs.key("etcd-server"), "--client-cert-auth",
            "--trusted-ca-file=" + certs.crt("etcd-ca"), "--heartbeat-interval=100", "--election-timeout=1000"], scratch)

    def kill(self):
        self.child.kill()
        self.child.wait()

    def freeze(self, frozen):
        self.child.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)


class Etcd:
    """Members by name; every question goes to some member that answers."""

    def __init__(self, scratch, certs, members=3):
        if shutil.which("etcd") is None:
            raise fixture.Skip("no etcd (Debian: etcd-server)")
        names = ["etcd-%d" % i for i in range(members)]
        urls = {n: "https://127.0.0.1:%d" % fixture.free_port() for n in names}
        peers = {n: "http://127.0.0.1:%d" % fixture.free_port() for n in names}
        self.certs = certs
        # In memory where that can be: a disk that others keep busy makes members miss each other's heartbeats.
        self.data = tempfile.mkdtemp(prefix="etcd.", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else scratch)
        self.members = [Member(n, scratch, self.data, certs, urls, peers) for n in names]
        self.urls = [m.url for m in self.members]
        self.tls = ssl.create_default_context(cafile=certs.crt("etcd-ca"))
        self.tls.load_cert_chain(certs.crt("etcd-client"), certs.key("etcd-client"))

    def start(self):
        for member in self.members:
            if not member.running():
                member.spawn()
        fixture.until(lambda: self.ask("/v3/kv/range", {"key": "AA=="}), "etcd to answer")

    def destroy(self):
        for member in self.members:
            member.destroy()
        shutil.rmtree(self.data, ignore_errors=True)

    def ask_at(self, url, path, body):
        request = urllib.request.Request(url + path, data=json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, context=self.tls, timeout=3) as answer:
            return json.load(answer)

    def ask(self, path, body):
        last = OSError("no member")
        for url in self.urls:
            try:
                return self.ask_at(url, path, body)
            except OSError as error:
                last = error
        raise last

    def leader(self):
        """The member that leads."""
        for member in self.members:
            try:
                status = self.ask_at(member.url, "/v3/maintenance/status", {})
                if status.get("leader") and status["leader"] == status["header"]["member_id"]:
                    return member
            except OSError:
                pass
        raise fixture.Failure("nobody leads")

    def record(self, server_id):
        """(key-value as etcd has it, the object) or (None, None)."""
        key = base64.b64encode((FOLDER + server_id).encode()).decode()
        found = self.ask("/v3/kv/range", {"key": key}).get("kvs")
        if not found:
            return None, None
        return found[0], json.loads(base64.b64decode(found[0]["value"]))

    def put(self, server_id, record):
        """As somebody who may write to etcd."""
        pair = {"key": FOLDER + server_id, "value": json.dumps(record)}
        self.ask("/v3/kv/put", {k: base64.b64encode(v.encode()).decode() for k, v in pair.items()})

    def delete(self, server_id):
        self.ask("/v3/kv/deleterange", {"key": base64.b64encode((FOLDER + server_id).encode()).decode()})

    def revision(self, server_id):
        """Of the record; 0: there is none."""
        return int((self.record(server_id)[0] or {}).get("mod_revision", 0))
