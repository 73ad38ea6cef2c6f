# SPDX-License-Identifier: Apache-2.0
"""docs/kubeadm.md, every command of it, on a control plane of three nodes that kubeadm makes, with systemd on each node.

The nodes are installed on, joined, upgraded and left in the order in which the guide tells it, so each test begins where the one before it ended. A client
never stops asking: at the balancer, and at each node's own address. kubeadm is the real one. The kubelet is a stand-in (harness/stand-in-kubelet) that
starts what the static pods' manifests say, and asks their probes.
"""

import contextlib
import itertools
import re
import threading
import time

from harness import waiting
from harness.api import config_map, config_maps
from harness.guide import Guide
from harness.kubeadm import CLIENT, ENDPOINT, PORT, TOKEN
from harness.machine import GATEWAY, CommandFailed
from harness.runner import Skip

GUIDE, LAYOUTS, OPERATE = Guide("kubeadm.md"), Guide("layouts.md"), Guide("operate.md")
INSTALL = ("keys", "configuration", "patch")
COLLECTION = config_maps("default")
# Each object has a number of its own: what a writer could not delete must not be in the way of a later one.
_OBJECTS = itertools.count(1)
# What a client may lose at a balancer that asks nobody how he is, where kube-apiserver is restarted twice (two nodes, or there and back): what had just been
# accepted when a kube-apiserver with the port itself was stopped, and a 403 of one that starts and has not read its RBAC yet.
LOST = 4
# What `mvproxyctl check` may warn of where tests run: limits of the kernel, and memory.
OF_THIS_MACHINE = "descriptors|somaxconn|ip_local_port_range|tcp_mem|max-client-memory"


class Asking(threading.Thread):
    """Reads, writes and deletes at one place, each on a connection of its own, until end(). trouble: what was not answered as it should be.

    patient: like client-go it asks again, for a minute, where it is told to (503 with Retry-After) and where nobody listens."""

    def __init__(self, name, client, patient, pause=0.1):
        super().__init__(daemon=True)
        self._pause = pause
        self.turns, self.trouble, self.retries = 0, [], 0
        self._name, self._client, self._patient = name, client, patient
        self._over = threading.Event()

    def _once(self, method, path, right, body):
        """(what is wrong or None, whether it may be asked again)"""
        try:
            answer = self._client.request(method, path, body)
        except ConnectionRefusedError as error:
            return repr(error), True
        except OSError as error:
            return repr(error), False
        return None if answer.status == right else repr(answer), answer.status == 503 and answer.header("Retry-After") is not None

    def _ask(self, method, path, right, body=None):
        deadline = time.monotonic() + (60 if self._patient else 0)
        said, again = self._once(method, path, right, body)
        while said and again and time.monotonic() < deadline:
            self.retries += 1
            time.sleep(1)
            said, again = self._once(method, path, right, body)
        if said:
            self.trouble.append("%s %s: %s %s: %s" % (time.strftime("%H:%M:%S"), self._name, method, path, said[:300]))
        return said is None

    def run(self):
        while not self._over.wait(self._pause):
            self.turns += 1
            name = "%s-%d" % (self._name, next(_OBJECTS))
            self._ask("GET", "/apis/apps/v1/namespaces/default/deployments", 200)
            if self._ask("POST", COLLECTION, 201, config_map(name, {"a": "b"})):
                self._ask("DELETE", COLLECTION + "/" + name, 200)

    def end(self):
        self._over.set()
        self.join(60)

    def await_turns(self, more=3):
        """Until it has asked a few times from now on."""
        wanted = self.turns + more
        waiting.until(lambda: self.turns >= wanted or not self.is_alive(), self._name + " goes on")


class Askers:
    """with Askers(cluster, machines): a patient one at the balancer, which knows nothing of who is ready, and one at each of those machines
    that is not: it is to get each answer at once."""

    def __init__(self, cluster, machines, pause=0.1):
        self._all = [Asking("balancer", cluster.client(), True)] + [Asking(m.name, cluster.client(m), False, pause) for m in machines]

    def __enter__(self):
        for one in self._all:
            one.start()
        return self

    def __exit__(self, *_):
        for one in self._all:
            one.end()

    def go_on(self):
        for one in self._all:
            one.await_turns()

    @property
    def trouble(self):
        return [t for one in self._all for t in one.trouble]

    def __str__(self):
        return "%d turns, asked again %d times, not answered: %s" % (
            sum(one.turns for one in self._all), sum(one.retries for one in self._all), self.trouble)


def _pod(one, property_name="MainPID"):
    return one.run("systemctl show -P %s pod-kube-apiserver" % property_name).strip()


def _probes(one):
    """The hosts that kube-apiserver's probes go to, and where it listens."""
    manifest = one.run("cat /etc/kubernetes/manifests/kube-apiserver.yaml")
    return set(re.findall(r"^ +host: (.*)$", manifest, re.M)), set(re.findall("--bind-address=(.*)", manifest))


def _in_place(one):
    assert _probes(one) == ({"127.0.0.1"}, {"127.0.0.1"}), _probes(one)
    assert "mvproxy" in one.run("ss -Hltnp 'sport = :6443' | grep -F %s:6443" % one.address)
    GUIDE.take(one, "verify")


def _marks(said):
    """What `mvproxyctl check` does not find well."""
    return [line for line in said.splitlines() if line.startswith(("×", "‼"))]


def _logged(one, unit, pattern):
    """Whether a line of that unit's log matches."""
    return re.search(pattern, one.run("journalctl --no-pager -o cat -u " + unit)) is not None


def _has_node(cluster, name):
    return cluster.client().get("/api/v1/nodes/" + name).status == 200


def _may_read(one):
    """Whether the service's user, and he alone besides root, may read the serving key."""
    as_ = "setpriv --reuid=%s --regid=%s --clear-groups cat /etc/kubernetes/pki/apiserver.key"
    assert one.status(as_ % ("nobody", "nogroup")) != 0
    return one.status(as_ % ("mvproxy", "mvproxy")) == 0


def test_before(cluster):
    """kubeadm makes a cluster of two nodes, without mvproxy"""
    first, second, _ = cluster.machines
    # It asks nobody how he is: a server that starts is not to have clients.
    cluster.balancer.only([(m.address, PORT) for m in (first, second)])
    cluster.init(first)
    cluster.bring_authorities(second)
    cluster.join(second)
    waiting.until(lambda: _has_node(cluster, second.name), "the second node")
    assert _probes(second) == ({second.address}, set()), _probes(second)


def _changes(said):
    """The lines that a difference takes and adds, without their indentation."""
    return sorted(" ".join(line.split()) for line in said.splitlines() if re.match(r"[-+](?![-+][-+] )", line))


def _to_loopback(one):
    return sorted(["+ - --bind-address=127.0.0.1", *["- host: " + one.address, "+ host: 127.0.0.1"] * 3])


def test_edited(cluster):
    """what somebody wrote into a manifest by hand is shown before kubeadm would drop it"""
    first = cluster.machines[0]
    manifest = "/etc/kubernetes/manifests/kube-scheduler.yaml"
    first.run("cp -p %s /root/ && sed -i 's/^    tier: control-plane/&\\n    edited: by-hand/' %s && mkdir -p /etc/kubernetes/patches" % (manifest, manifest))
    assert _changes(GUIDE.take(first, "compare")) == ["- edited: by-hand"]
    first.run("mv /root/kube-scheduler.yaml " + manifest)


def test_install(cluster):
    """installed on the first and the second node by the guide; a client at the balancer loses no more than what was under way"""
    first, second, _ = cluster.machines
    with contextlib.closing(cluster.client(first).connect()):
        said = GUIDE.take(first, "look")
    assert "https://%s:6443" % ENDPOINT in said and re.search(r"^ +[0-9]+ .*%s" % re.escape(first.address), said, re.M), said
    assert _changes(GUIDE.take(first, "cluster")) == ["+ - name: bind-address", "+ value: 127.0.0.1"]
    GUIDE.take(first, "cluster-upload", "cluster-verify")
    with Askers(cluster, []) as askers:
        for one in (first, second):
            cluster.install(one)
            assert one.run("stat -c '%U %a' /etc/kubernetes/pki/apiserver.key").split() == ["root", "600"] and not _may_read(one)
            GUIDE.take(one, "configuration")
            said = one.run("mvproxy -t 2>&1 || true")
            assert "the user mvproxy, as whom the service runs, cannot read /etc/kubernetes/pki/apiserver.key" in said, said
            wrong = [m for m in _marks(GUIDE.take(one, *INSTALL, "check-configuration")) if m.startswith("×")]
            assert all("6443 is taken" in m or "nothing says where it can be reached" in m for m in wrong), wrong
            assert _changes(GUIDE.take(one, "compare")) == _to_loopback(one)
            GUIDE.take(one, "cut-over")
            assert one.run("cat /etc/kubernetes/manifests/kube-*.yaml") == one.run("cat /root/manifests-after/kube-*.yaml")
            _in_place(one)
            assert one.run("cat /proc/1/comm").strip() == "systemd" and _may_read(one)
            assert one.run("stat -c %U /proc/$(systemctl show -P MainPID mvproxy)").strip() == "mvproxy"
            askers.go_on()
    print("# %s" % askers)
    assert len(askers.trouble) <= LOST, askers.trouble


def test_go_back(cluster):
    """kubeadm says that it went well of a kube-apiserver that cannot start; what the guide has kept is the way back, and then the step is taken again"""
    first, second, _ = cluster.machines
    upload = "kubeadm init phase upload-config kubeadm --config /root/%s.yaml"
    first.run(r"sed '/^apiServer:/,/^[^ ]/s/^  - name: bind-address$/  - name: no-such-flag\n    value: \"1\"\n&/' /root/cluster-mvproxy.yaml >/root/wrong.yaml && "
              + upload % "wrong")
    assert 'Component "kube-apiserver" upgraded successfully!' in GUIDE.take(second, "cut-over")
    waiting.until(lambda: second.status("grep -q 'unknown flag: --no-such-flag' %s/pods/%s-kube-apiserver.log" % (cluster.shared, second.name)) == 0,
                  "kube-apiserver to end")
    first.run(upload % "cluster-mvproxy")
    GUIDE.take(second, "go-back")
    assert _probes(second) == ({second.address}, set()), _probes(second)
    assert "mvproxy" not in second.run("ss -Hltnp 'sport = :6443'")
    GUIDE.take(second, "cut-over")
    _in_place(second)


def test_join(cluster):
    """a third node joins with mvproxy there before; at the ones that are there nobody notices"""
    *others, third = cluster.machines
    cluster.bring_authorities(third)
    cluster.install(third)
    GUIDE.take(third, *INSTALL, "join-before")
    waiting.until(lambda: _logged(third, "mvproxy", r"apiserver\.(crt|key)"), "mvproxy says that it has no certificates")
    with Askers(cluster, others) as askers:
        cluster.join(third, "--patches /etc/kubernetes/patches", "--ignore-preflight-errors=Port-6443")
        waiting.until(lambda: _has_node(cluster, third.name), "the third node")
        _in_place(third)
        askers.go_on()
    assert not askers.trouble, askers.trouble
    cluster.balancer.only([(m.address, PORT) for m in cluster.machines])
    for one in cluster.machines:
        marks = _marks(GUIDE.take(one, "check"))
        print("# %s: %s" % (one.name, marks or "all well"))
        assert all(re.search(OF_THIS_MACHINE, mark) for mark in marks), marks
        GUIDE.take(one, "endpoint")


def test_port_check(cluster):
    """where mvproxy holds the port kubeadm says so before it joins, unless it is told"""
    third = cluster.machines[2]
    joined = "FileAvailable--etc-kubernetes-kubelet.conf,SystemVerification,KubeletVersion,FileContent--proc-sys-net-ipv4-ip_forward"
    asked = "kubeadm join phase preflight %s:6443 --control-plane --token %s --discovery-token-unsafe-skip-ca-verification " \
        "--ignore-preflight-errors=%s%%s 2>&1 || true" % (GATEWAY, TOKEN, joined)
    said = third.run(asked % "")
    assert "[ERROR Port-6443]" in said, said
    said = third.run(asked % ",Port-6443")
    assert "[ERROR Port-6443]" not in said and "[WARNING Port-6443]" in said, said


def test_audit_log(cluster):
    """the client's address is where the guide says, in the audit logs of every node, and cannot be forged"""
    for one in cluster.machines:
        answer = cluster.client(one).get("/api/v1/namespaces/default", X_Forwarded_For="203.0.113.1", X_Real_Ip="203.0.113.2", Forwarded="for=203.0.113.3")
        event = waiting.until(lambda o=one, a=answer: cluster.audit(o, a.header("Audit-Id")), "the audit log of " + one.name)[0]
        assert event["sourceIPs"] == [CLIENT, "127.0.0.1"], event["sourceIPs"]


VIRTUAL = "192.0.2.200"


def test_virtual_address(cluster):
    """an address that moves from node to node, as kube-vip and keepalived have it: served wherever it is, and nowhere refused"""
    *holders, asker = cluster.machines
    ask = "kubectl --server https://%s:6443 --tls-server-name kubernetes --request-timeout=10s get --raw /livez" % VIRTUAL
    for one in holders:
        one.run("cp -p /etc/mvproxy/mvproxy.yaml /root/plain.yaml && sed -i 's/^bind-address:.*/bind-address: [%s, %s]/' /etc/mvproxy/mvproxy.yaml && "
                "systemctl restart mvproxy" % (one.address, VIRTUAL))
        _in_place(one)
    try:
        for one in holders:
            one.run("ip address add %s/32 dev eth0" % VIRTUAL)
            waiting.until(lambda: asker.status("ip neighbour flush to %s; %s" % (VIRTUAL, ask)) == 0, "an answer at the virtual address on " + one.name)
            one.run("ip address del %s/32 dev eth0" % VIRTUAL)
    finally:
        for one in holders:
            one.run("cp -p /root/plain.yaml /etc/mvproxy/mvproxy.yaml && systemctl restart mvproxy")
            _in_place(one)


def test_low_port(cluster):
    """the unit with a port below 1024, by docs/layouts.md"""
    second = cluster.machines[1]
    second.run("cp -p /etc/mvproxy/mvproxy.yaml /root/plain.yaml && sed -i 's/^secure-port:.*/secure-port: 443/' /etc/mvproxy/mvproxy.yaml")
    try:
        LAYOUTS.take(second, "port")
        assert "mvproxy" in second.run("ss -Hltnp 'sport = :443' | grep -F %s:443" % second.address)
        assert second.run("stat -c %U /proc/$(systemctl show -P MainPID mvproxy)").strip() == "mvproxy"
    finally:
        second.run("cp -p /root/plain.yaml /etc/mvproxy/mvproxy.yaml && rm /etc/systemd/system/mvproxy.service.d/port.conf && "
                   "systemctl daemon-reload && systemctl restart mvproxy")
        _in_place(second)


def test_broken_configuration(cluster):
    """a mistake is named with its place; a reload is refused with the reason, and what runs goes on"""
    first = cluster.machines[0]
    first.run("cp -p /etc/mvproxy/mvproxy.yaml /root/good.yaml && sed -i 's/^client-ca-file/cleint-ca-file/' /etc/mvproxy/mvproxy.yaml")
    try:
        said = first.run("mvproxy -t 2>&1 || true")
        line = first.run("grep -n cleint /etc/mvproxy/mvproxy.yaml").partition(":")[0]
        assert "mvproxy.yaml:%s:" % line in said and "client-ca-file" in said, said
        try:
            raise AssertionError("reloaded: " + first.run("systemctl reload mvproxy"))
        except CommandFailed:
            pass
        assert _logged(first, "mvproxy", "cleint"), first.run("journalctl -u mvproxy -n 20")
        GUIDE.take(first, "verify")
    finally:
        first.run("cp -p /root/good.yaml /etc/mvproxy/mvproxy.yaml")
    first.run("systemctl reload mvproxy")


def test_upgrade(cluster):
    """kubeadm upgrades all three nodes; clients at each node's address get every answer, and mvproxy stays in place"""
    first, *others = cluster.machines
    with Askers(cluster, cluster.machines) as askers:
        for one in cluster.machines:
            cluster.use_version(one, cluster.setup.upgrade)
        for one, step in [(first, "upgrade-first"), *((o, "upgrade-node") for o in others)]:
            before = _pod(one)
            GUIDE.take(one, step)
            _in_place(one)
            assert _pod(one) != before
            version = cluster.client(one).get("/version").json()["gitVersion"]
            assert version == "v" + cluster.setup.upgrade, version
            askers.go_on()
    print("# %s" % askers)
    assert not askers.trouble, askers.trouble[:20]


@contextlib.contextmanager
def _elsewhere(one):
    """Its default route is that of another network, where kubeadm finds another address if it is not told."""
    one.run("ip link add other type bridge && ip address add 198.51.100.9/24 dev other && ip link set other up && "
            "ip route replace default via 198.51.100.1")
    try:
        yield
    finally:
        one.run("ip link del other; ip route replace default via " + GATEWAY)


def _serial(one):
    return one.run("openssl s_client -connect $NODE_IP:6443 </dev/null 2>/dev/null | openssl x509 -noout -serial")


def test_certificates(cluster):
    """renewed certificates are served, whether they are written into the files or replace them; nobody notices"""
    first = cluster.machines[0]
    with Askers(cluster, [first]) as askers:
        before, inode = _serial(first), first.run("stat -c %i /etc/kubernetes/pki/apiserver.key")
        GUIDE.take(first, "renew", "renew-verify")
        renewed = _serial(first)
        assert renewed != before
        assert first.run("stat -c %i /etc/kubernetes/pki/apiserver.key") == inode
        # A new file, which only root may read, by docs/layouts.md: with the names of before.
        with _elsewhere(first):
            said = LAYOUTS.take(first, "certificate")
        assert not _changes(said) and "IPAddress:" + first.address in first.run("cat /root/names-after").split(), said
        assert "user:mvproxy" not in first.run("getfacl -p /etc/kubernetes/pki/apiserver.key")
        waiting.until(lambda: _logged(first, "mvproxy", r"apiserver\.key.*[Pp]ermission"), "mvproxy says that it cannot read the key")
        askers.go_on()
        assert _serial(first) == renewed
        LAYOUTS.take(first, "certificate-reload")
        GUIDE.take(first, "renew-verify")
        assert _serial(first) != renewed
        GUIDE.take(first, "reload")
        askers.go_on()
    assert not askers.trouble, askers.trouble[:20]


def _killed(one):
    return _logged(one, "kubelet", "kube-apiserver: liveness probe failed 8 times, killed")


def test_probes(cluster):
    """mvproxy is down for longer than the probes bear: with the patch kube-apiserver stays, without it it is killed"""
    patched, plain, _ = cluster.machines
    for one in (patched, plain):
        # Eight failures in 8 s instead of 80.
        one.write("/etc/default/kubelet", "MORE=--liveness-speed=10\n")
        one.run("systemctl restart kubelet")
    plain.run("kubeadm upgrade node phase control-plane --etcd-upgrade=false --certificate-renewal=false")
    assert _probes(plain) == ({plain.address}, {"127.0.0.1"}), _probes(plain)
    for one in (patched, plain):  # the startup probe is over
        plain.run("kubectl -n kube-system wait --for=condition=Ready --timeout=90s pod/kube-apiserver-" + one.name)
    before = _pod(patched)
    try:
        for one in (patched, plain):
            one.run("systemctl stop mvproxy")
        waiting.until(lambda: _killed(plain), "the kubelet to kill what it cannot reach", 120)
        # It has had as many probes.
        assert not _killed(patched) and _pod(patched) == before
        patched.run("kubectl --server https://127.0.0.1:6443 --tls-server-name kubernetes get --raw /livez")
    finally:
        for one in (patched, plain):
            one.run("systemctl start --no-block mvproxy; rm /etc/default/kubelet; systemctl restart kubelet")
    plain.run("kubeadm upgrade node phase control-plane --etcd-upgrade=false --certificate-renewal=false --patches /etc/kubernetes/patches")
    for one in (patched, plain):
        _in_place(one)


def test_bypass(cluster):
    """one command to plain kube-apiserver and one back; at the balancer and at the other nodes nobody notices"""
    first, *others = cluster.machines
    with Askers(cluster, others) as askers:
        begun = time.monotonic()
        said = GUIDE.take(first, "bypass")
        print("# bypass: %.0f s; %s" % (time.monotonic() - begun, said.strip()))
        assert "kube-apiserver" in first.run("ss -Hltnp 'sport = :6443'")
        assert "mvproxy" not in first.run("ss -Hltnp 'sport = :6443'")
        assert cluster.client(first).get("/readyz").status == 200
        told = others[0]
        told.environment["BYPASSED"] = "%s=%s:6443" % (first.name, first.address)
        lost = "peer %s: nothing says where it can be reached" % first.name
        waiting.until(lambda: lost in told.run("mvproxyctl check || true"), "%s to miss the address" % told.name)
        GUIDE.take(told, "bypass-peers", "check")
        begun = time.monotonic()
        GUIDE.take(first, "bypass-undo")
        print("# undone: %.0f s" % (time.monotonic() - begun))
        _in_place(first)
        GUIDE.take(told, "bypass-peers-undo", "check")
        assert "\npeers:" not in told.run("cat /etc/mvproxy/mvproxy.yaml")
        askers.go_on()
    pinned = [t for t in askers.trouble if " balancer: " not in t]
    assert not pinned, pinned
    assert len(askers.trouble) <= LOST, askers.trouble


def test_old_manifest(cluster):
    """a manifest of before comes back: kube-apiserver cannot have its port, until the one command takes mvproxy out of its way"""
    first = cluster.machines[0]
    manifest, before = "/etc/kubernetes/manifests/kube-apiserver.yaml", _pod(first)
    first.run("cp -p %s /root/new.yaml && sed '/--bind-address=/d' %s >/etc/kubernetes/.old && mv /etc/kubernetes/.old %s" % (manifest, manifest, manifest))
    waiting.until(lambda: _pod(first) != before and first.status("grep -q 'bind: address already in use' %s/pods/%s-kube-apiserver.log" % (
        cluster.shared, first.name)) == 0, "kube-apiserver to miss its port")
    GUIDE.take(first, "bypass")
    assert cluster.client(first).get("/readyz").status == 200
    first.run("mv /root/new.yaml %s && systemctl enable mvproxy && systemctl start --no-block mvproxy" % manifest)
    waiting.until(lambda: first.status("ss -Hltnp 'sport = :6443' | grep -qF %s:6443" % first.address) == 0, "mvproxy to have the port")
    _in_place(first)


def test_bypass_socket(cluster):
    """so are a socket with its service, and with an instance of the template; they come back, and nothing else does, though clients call all the time"""
    first = cluster.machines[0]
    units = "mvproxy.socket mvproxy.service mvproxy@blue.service"

    def states():
        return first.run("systemctl is-active %s || true; systemctl is-enabled %s || true" % (units, units)).split()

    first.run("mkdir -p /etc/systemd/system/mvproxy.socket.d && ln -s mvproxy.service.d /etc/systemd/system/mvproxy@.service.d && "
              "printf '[Socket]\\nListenStream=\\nListenStream=%s:6443\\n' >/etc/systemd/system/mvproxy.socket.d/address.conf && "
              "systemctl daemon-reload && systemctl disable --now mvproxy" % first.address)
    # A connection that finds the socket alone starts mvproxy.service, so each is started by one job: an instance brings the socket along.
    for start, before in (("mvproxy.socket mvproxy", ["active", "active", "inactive", "enabled", "enabled", "disabled"]),
                          ("mvproxy@blue", ["active", "inactive", "active", "enabled", "disabled", "enabled"])):
        first.run("systemctl enable mvproxy.socket %s && systemctl start %s" % (start, start))
        _in_place(first)
        assert states() == before, states()
        with Askers(cluster, [first], pause=0.002) as askers:
            GUIDE.take(first, "bypass")
            assert states() == ["inactive"] * 3 + ["disabled"] * 3, states()
            GUIDE.take(first, "bypass-undo")
            _in_place(first)
            askers.go_on()
        assert states() == before, states()
        first.run("systemctl disable --now mvproxy.socket mvproxy mvproxy@blue")
    first.run("rm -r /etc/systemd/system/mvproxy.socket.d /etc/systemd/system/mvproxy@.service.d && systemctl daemon-reload && systemctl enable --now mvproxy")
    _in_place(first)


def test_clone(cluster):
    """the identity Leases of another cluster, out of its snapshot, are deleted past mvproxy; those of this one come back"""
    first = cluster.machines[0]
    names = "kubectl -n kube-system get lease -l %s=kube-apiserver -o name"
    labels = ("apiserver.kubernetes.io/identity", "k8s.io/component")
    ours = first.run(names % labels[0]).split()
    assert len(ours) == len(cluster.machines), ours
    for number, label in enumerate(labels):
        first.run("kubectl -n kube-system create -f - <<END\napiVersion: coordination.k8s.io/v1\nkind: Lease\n"
                  "metadata: {name: apiserver-other-%d, labels: {%s: kube-apiserver}}\nspec: {holderIdentity: other}\nEND" % (number, label))
    OPERATE.take(first, "clone")
    waiting.until(lambda: sorted(first.run(names % labels[0]).split()) == sorted(ours), "this cluster's Leases alone")
    assert not first.run(names % labels[1]).split()
    for one in cluster.machines:
        _in_place(one)
        GUIDE.take(one, "check")


def _process(one, unit):
    """(its number, whether it runs a program that has been replaced)"""
    pid = one.run("systemctl show -P MainPID " + unit).strip()
    return pid, one.run("readlink /proc/%s/exe" % pid).strip().endswith("(deleted)")


def test_package_upgrade(cluster):
    """a newer Debian package, another build of it, an earlier one: what runs and its configuration stay, and with the socket no connection is refused"""
    if not cluster.package:
        raise Skip("no Debian package is tried (--package)")
    first = cluster.machines[0]
    settings = first.run("sha256sum /etc/mvproxy/mvproxy.yaml /etc/systemd/system/mvproxy.service.d/keys.conf")
    OPERATE.take(first, "socket")
    _in_place(first)
    with Askers(cluster, [first], pause=0.01) as askers:
        for suffix, way, before, unit in (("+1", "restart", "mvproxy", "mvproxy"), ("+1", "instance", "mvproxy", "mvproxy@blue"),
                                          ("~1", "hand-over", "mvproxy@blue", "mvproxy@green")):
            pid, _ = _process(first, before)
            cluster.other_package(first, suffix)
            OPERATE.take(first, "package")
            assert first.run("dpkg-query -W -f '${Version}' mvproxy").endswith(suffix)
            assert _process(first, before) == (pid, True), "the package has touched the process that runs"
            askers.go_on()
            OPERATE.take(first, way)
            now, old = _process(first, unit)
            assert now not in (pid, "0") and not old, (way, pid, now, old)
            _in_place(first)
            askers.go_on()
        pid, _ = _process(first, "mvproxy@green")
        said = OPERATE.take(first, "instances")
        assert "Reloaded" in said and _process(first, "mvproxy@green")[0] == pid and first.status("systemctl is-active mvproxy") != 0, said
        askers.go_on()
    print("# %s" % askers)
    assert not askers.trouble, askers.trouble[:20]
    assert first.run("sha256sum /etc/mvproxy/mvproxy.yaml /etc/systemd/system/mvproxy.service.d/keys.conf") == settings
    first.run("systemctl disable --now mvproxy.socket mvproxy@green && rm -r /etc/systemd/system/mvproxy.socket.d "
              "/etc/systemd/system/mvproxy@.service.d && systemctl daemon-reload && systemctl enable --now mvproxy")
    _in_place(first)


def test_prometheus(cluster):
    """let in as the guide says: by the pair that it makes, from the node's address, where the listener is no longer on loopback"""
    first = cluster.machines[0]
    OPERATE.take(first, "monitoring")
    first.run("sed -i '$a admin-bind-address: '$NODE_IP:9443 /etc/mvproxy/mvproxy.yaml && systemctl restart mvproxy")
    _in_place(first)
    said = first.run("curl -sS --cacert /etc/kubernetes/pki/ca.crt --cert monitoring.crt --key monitoring.key https://$NODE_IP:9443/metrics")
    assert re.search("^mvproxy_ready 1$", said, re.M), said[:400]
    assert first.run("curl -ksS https://$NODE_IP:9443/readyz").startswith("ok")
    assert first.status("curl -sS http://127.0.0.1:9443/readyz") != 0
    assert "a client certificate is needed" in first.run("curl -ksS https://$NODE_IP:9443/metrics")
    first.run("sed -i '$d' /etc/mvproxy/mvproxy.yaml && rm monitoring.crt monitoring.key && systemctl restart mvproxy")
    _in_place(first)


def test_package_stays(cluster):
    """a package is not removed under a node that has no other API server at its address: refused with what to do, and nobody notices"""
    if not cluster.package:
        raise Skip("no Debian package is tried (--package)")
    first = cluster.machines[0]
    pid, _ = _process(first, "mvproxy")
    with Askers(cluster, [first]) as askers:
        for how in ("remove", "purge"):
            said = first.run("apt-get %s mvproxy 2>&1 && echo removed || true" % how)
            assert "run mvproxy-bypass first" in said and "removed" not in said.splitlines()[-1], said
        askers.go_on()
    assert not askers.trouble, askers.trouble[:20]
    assert _process(first, "mvproxy") == (pid, False)
    assert first.run("dpkg-query -W -f '${db:Status-Status}' mvproxy") == "installed"
    _in_place(first)


def test_static_pod(cluster):
    """from its image as a static pod, as nobody in particular; bypassed and back as well; at the other nodes nobody notices"""
    *others, third = cluster.machines
    cluster.bring_image(third)
    with Askers(cluster, others) as askers:
        GUIDE.take(third, "pod-keys", "pod", "pod-verify")
        assert third.run("stat -c %u /proc/$(systemctl show -P MainPID pod-mvproxy)").strip() == "65532"
        assert _readers(third) == ["user:65532:r--"] * 2, _readers(third)
        assert "mvproxy" in third.run("ss -Hltnp 'sport = :6443' | grep -F %s:6443" % third.address)
        third.run("mvproxy-bypass && ! ss -Hltnp 'sport = :6443' | grep mvproxy && mvproxy-bypass --undo")
        GUIDE.take(third, "pod-verify")
        askers.go_on()
    pinned = [t for t in askers.trouble if " balancer: " not in t]
    assert not pinned, pinned


def _readers(one):
    """Who may read a key besides root."""
    acls = one.run("getfacl -npc /etc/kubernetes/pki/apiserver.key /etc/kubernetes/pki/front-proxy-client.key")
    return re.findall("^(?:user|group):[0-9]+:.*|^(?:group|other)::r.*", acls, re.M)


def test_leave(cluster):
    """taken out again, one command a node: what kubeadm writes then is what it wrote before"""
    first = cluster.machines[0]
    assert _changes(GUIDE.take(first, "leave-cluster")) == ["- - name: bind-address", "- value: 127.0.0.1"]
    GUIDE.take(first, "leave-upload")
    assert first.run("kubectl -n kube-system get configmap kubeadm-config -o yaml").count("name: bind-address") == 2
    for one in cluster.machines:
        GUIDE.take(one, "leave")
        assert "inactive" in GUIDE.take(one, "leave-verify")
        assert not _readers(one), _readers(one)
        left = one.run("find /etc/systemd/system -name '*mvproxy*'").split()
        assert not left, left
    waiting.until(lambda: cluster.client().get("/readyz").status == 200, "the balancer")
    first.run("kubeadm upgrade node phase control-plane --etcd-upgrade=false --certificate-renewal=false")
    assert _probes(first) == ({first.address}, set()), _probes(first)
    assert "--bind-address=0.0.0.0" in first.run("cat /etc/kubernetes/manifests/kube-controller-manager.yaml")
    # There is no container runtime here.
    left = [step for step in GUIDE.not_taken + LAYOUTS.not_taken if not step.startswith("runtime-")]
    assert not left, "commands of the guide that nothing has run: %s" % left
    if cluster.package:
        assert not OPERATE.not_taken, OPERATE.not_taken
        # Running beside a kube-apiserver that has the node's address itself it is stopped, and leaves nothing that it was given.
        first.run("sed -i 's/^secure-port:.*/secure-port: 16443/' /etc/mvproxy/mvproxy.yaml && setfacl -m u:mvproxy:r /etc/kubernetes/pki/apiserver.key "
                  "/etc/kubernetes/pki/front-proxy-client.key && systemctl enable --now mvproxy && ss -Hltnp 'sport = :16443' | grep mvproxy")
        first.run("apt-get purge mvproxy && ! getent passwd mvproxy && ! test -e /etc/mvproxy && "
                  "! test -e /etc/systemd/system/multi-user.target.wants/mvproxy.service && ! ss -Hltn 'sport = :16443' | grep . && ! test -e /run/mvproxy")
        assert not _readers(first), _readers(first)


def test_memory(cluster):
    """no mvproxy has reported a memory error on any machine"""
    for one in cluster.machines:
        assert not _logged(one, "mvproxy", "Sanitizer|runtime error:"), one.run("journalctl -u mvproxy")
