#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Leaving a node: what mvproxy-bypass and the Debian package's scripts do where a node is not as the guide has it. In a mount namespace, with
stand-ins for the service manager; on real machines they are run by tests/cluster/test_kubeadm.py."""

import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(TOP, "tests", "lib"))
import tap  # noqa: E402 # pylint: disable=wrong-import-position

# What every script finds: /etc of its own, a service manager that writes down what it is told, and mvproxy with the address until it is stopped.
BEFORE = """set -eu
mount -t tmpfs none /mnt
mkdir -p /mnt/etc /mnt/bin
cp -a /etc/. /mnt/etc
rm -rf /mnt/etc/kubernetes /mnt/etc/mvproxy
mkdir -p /mnt/etc/kubernetes/manifests /mnt/etc/kubernetes/pki /mnt/etc/mvproxy
mount --bind /mnt/etc /etc
cat >/mnt/bin/systemctl <<'END'
#!/bin/sh
echo "$*" >>/mnt/told
case "$*" in
*is-active*) exit "$(cat /mnt/inactive)" ;;
stop*)
    [ -e /mnt/at-stop ] || cp /etc/kubernetes/manifests/kube-apiserver.yaml /mnt/at-stop 2>/dev/null
    [ ! -e /mnt/slow ] || sleep 1
    ;;
disable*) [ ! -e /mnt/slow ] || sleep 1 ;;
esac
END
cat >/mnt/bin/ss <<'END'
#!/bin/sh
# The kube-apiserver on loopback (127.0.0.9) has ended when it is asked for a second time.
case "$*" in
*"src 127.0.0.9 "*)
    [ -e /mnt/asked ] || echo LISTEN
    touch /mnt/asked
    ;;
*"src "*) grep -qs '^stop.* mvproxy.service' /mnt/told || echo LISTEN ;;
esac
END
printf '#!/bin/sh\\necho "Unable to connect to the server" >&2\\nexit 1\\n' >/mnt/bin/kubectl
chmod +x /mnt/bin/*
touch /mnt/told
echo 0 >/mnt/inactive
export PATH=/mnt/bin:$PATH
manifest=/etc/kubernetes/manifests/kube-apiserver.yaml
back() { for _ in $(seq 300); do if grep -q '^    - .*bind-address=' $manifest; then return; fi; sleep 0.1; done; }
manifest() { printf 'spec:\\n  containers:\\n  - command:\\n    - kube-apiserver\\n    - --advertise-address=%s\\n    - %s\\n    - --secure-port=%s\\n' "$@" >$manifest; }
"""


def run(script, *arguments):
    return subprocess.run(["unshare", "-m", "bash", "-c", BEFORE + script, "bash", *arguments], capture_output=True, text=True, check=False, timeout=120)


def bypass():
    """The script, with a shorter patience."""
    path = os.path.join(tempfile.mkdtemp(prefix="mvproxy-leaving-"), "mvproxy-bypass")
    with open(os.path.join(TOP, "contrib", "kubeadm", "mvproxy-bypass"), encoding="utf-8") as source, open(path, "w", encoding="utf-8") as out:
        out.write(source.read().replace("limit=120", "limit=60").replace("linger=10", "linger=1"))
    return path


class Server:
    """An API server that answers /readyz with a status."""

    def __init__(self, folder, status):
        pair = [os.path.join(folder, name) for name in ("server.crt", "server.key")]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=x",
                        "-out", pair[0], "-keyout", pair[1]], check=True, capture_output=True)
        self.context, self.status = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), status
        self.context.load_cert_chain(*pair)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            client, _ = self.listener.accept()
            try:
                with self.context.wrap_socket(client, server_side=True) as near:
                    near.recv(65536)
                    near.sendall(b"HTTP/1.1 %d x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok" % self.status)
            except OSError:
                client.close()


def bypasses(script):
    folder = os.path.dirname(script)
    for status in (200, 401):
        server = Server(folder, status)
        done = run('manifest 127.0.0.1 --bind-address=127.0.0.1 "$2"\nbash "$1"\ncat $manifest', script, str(server.port))
        tap.ok(done.returncode == 0 and "answers at 127.0.0.1:%d itself" % server.port in done.stdout and "# mvproxy-bypass: - --bind-address=127.0.0.1" in done.stdout,
               "without admin.conf, an API server that answers %d is seen" % status, done.stdout + done.stderr)
        for argument in ("--bind-address=::1", "--bind-address=[::1]", '"--bind-address=127.0.0.2"'):
            done = run('manifest 127.0.0.1 "$3" "$2"\nbash "$1"\nbash "$1" --undo &\nback\nkill -KILL $! || true\ncat $manifest', script, str(server.port), argument)
            tap.ok("itself: after" in done.stdout and "    - " + argument in done.stdout, "%s is loopback, too, and comes back with --undo" % argument,
                   done.stdout + done.stderr)
    done = run('manifest 127.0.0.1 --bind-address=127.0.0.9 "$2"\nbash "$1" || echo "failed $?"\nls /mnt/asked\ncat /mnt/at-stop', script, str(server.port))
    tap.ok("/mnt/asked" in done.stdout and "# mvproxy-bypass: - --bind" in done.stdout and "failed" not in done.stdout,
           "mvproxy is stopped when kube-apiserver has its new manifest, and has closed its port on loopback", done.stdout + done.stderr)
    for when in ("disable", "stop"):
        done = run('manifest 127.0.0.1 --bind-address=127.0.0.9 "$2"\ntouch /mnt/slow\nbash "$1" &\nuntil grep -q "^$3" /mnt/told; do sleep 0.05; done\n'
                   'kill -TERM $!\nwait $! || echo "failed $?"\ncat /mnt/told $manifest', script, str(server.port), when)
        tap.ok("# mvproxy-bypass: - --bind" in done.stdout and "\nstop" in done.stdout, "interrupted at %s: kube-apiserver gets its address all the same" % when,
               done.stdout + done.stderr)
    done = run('manifest 127.0.0.1 --bind-address=127.0.0.9 1\nbash "$1" &\nuntil grep -q "^stop" /mnt/told; do sleep 0.05; done\n'
               'until kill -TERM $! 2>/dev/null && ! sleep 0.2; do kill -0 $! 2>/dev/null || break; done\nwait $! || echo "failed $?"', script)
    tap.ok("failed 1" in done.stdout and "interrupted: mvproxy is stopped" in done.stderr, "interrupted while it waits: what is left to do is said", done.stdout + done.stderr)
    done = run('manifest 127.0.0.1 --bind-address=10.9.8.7 "$2"\nbash "$1" || echo "failed $?"\ncat /mnt/told $manifest', script, str(server.port))
    tap.ok("failed 1" in done.stdout and "stop" not in done.stdout and "nothing was stopped" in done.stderr and "- --bind-address=10.9.8.7" in done.stdout,
           "where it would not help nothing is stopped", done.stdout + done.stderr)


def undone(script):
    server = Server(os.path.dirname(script), 200)
    before = 'manifest 127.0.0.1 --bind-address=127.0.0.1 "$2"\nbash "$1"\n'
    done = run(before + 'rm /etc/kubernetes/mvproxy-bypass.units\n: >/mnt/told\nbash "$1" --undo || echo "refused $?"\ncat /mnt/told $manifest', script, str(server.port))
    tap.ok("refused 1" in done.stdout and "this node was left" in done.stderr and "start" not in done.stdout and "# mvproxy-bypass: - --bind" in done.stdout,
           "not undone where the node was left since: nothing is touched", done.stdout + done.stderr)
    impatient = script + ".impatient"
    with open(script, encoding="utf-8") as source, open(impatient, "w", encoding="utf-8") as out:
        out.write(source.read().replace("limit=60", "limit=${LIMIT:-60}"))
    done = run(before + 'LIMIT=1 bash "$1" --undo || echo "failed $?"\ncat $manifest', impatient, str(server.port))
    tap.ok("failed 1" in done.stdout and "is ready: not within" in done.stderr and done.stdout.count("itself: after") == 2
           and "# mvproxy-bypass: - --bind" in done.stdout, "mvproxy that does not come: kube-apiserver has its address again", done.stdout + done.stderr)


# Named in each way that YAML and the options have, by a drop-in, by the folder and by nobody.
KEYS = """keys() {
    printf '%s\\n' /etc/kubernetes/pki/apiserver.key "/mnt/my own.key" /mnt/single.key "/mnt/with #.key" /mnt/plain.key /mnt/etcd.key /mnt/sni.key \
        /mnt/flow.key /mnt/egress.key /mnt/drop-in.key /mnt/folder "/etc/kubernetes/of nobody.key"
}
mkdir /mnt/folder /etc/systemd/system/mvproxy.service.d
keys | while read -r key; do
    [ -d "$key" ] || touch "$key"
    chmod go= "$key"
done
useradd -r mvproxy
keys | while read -r key; do setfacl -m u:mvproxy:rX "$key"; done
setfacl -d -m u:mvproxy:r /mnt/folder
cat >/etc/mvproxy/mvproxy.yaml <<'END'
proxy-client-key-file: "/mnt/my own.key"
tls-private-key-file: '/mnt/single.key'
peer-key-file: "/mnt/with #.key" # not a comment
some-key-file: /mnt/plain.key  # a comment
etcd-keyfile: /mnt/etcd.key
tls-sni-cert-key:
- /mnt/sni.crt,/mnt/sni.key:*.example.com
other: [/mnt/flow.crt, /mnt/flow.key]
egress-selector-config-file: /mnt/egress.yaml
END
echo '      clientKey: /mnt/egress.key' >/mnt/egress.yaml
printf '[Service]\\nExecStartPre=+setfacl -m u:mvproxy:rx /mnt/folder\\nExecStart=mvproxy --etcd-keyfile=/mnt/drop-in.key\\n' >/etc/systemd/system/mvproxy.service.d/a.conf
"""


def removed(debian):
    if shutil.which("useradd") is None or shutil.which("setfacl") is None:
        tap.skip("purged", "no useradd or setfacl here")
        return
    look = 'keys | while read -r key; do getfacl -np "$key"; done\n'
    done = run(KEYS + look + 'echo purge\nsh "$1/mvproxy.postrm" purge\n' + look + 'getent passwd mvproxy || echo gone', debian)
    before, _, after = done.stdout.partition("purge\n")
    tap.ok(done.returncode == 0 and "gone" in after and len(re.findall("^user:[0-9]+:r", before, re.M)) == 12 and len(re.findall("^user::rw", after, re.M)) == 12
           and not re.search("user:[0-9]", after),
           "purged: nobody else may read the keys, and the user is gone", done.stdout + done.stderr)
    done = run(KEYS + 'printf "#!/bin/sh\\nexit 1\\n" >/mnt/bin/setfacl; chmod +x /mnt/bin/setfacl\nsh "$1/mvproxy.postrm" purge\ngetent passwd mvproxy', debian)
    tap.ok(done.returncode == 0 and "mvproxy:" in done.stdout and "/etc/kubernetes/pki/apiserver.key" in done.stderr,
           "where that cannot be done the user stays, and it is said why", done.stdout + done.stderr)


def stopped(debian):
    remove = 'mount -t tmpfs none /run && mkdir -p /run/systemd/system\n%s\nsh "$1/mvproxy.prerm" remove || echo "refused $?"\ncat /mnt/told'
    done = run(remove % 'manifest 10.0.0.1 --bind-address=127.0.0.1 6443', debian)
    tap.ok("refused 1" in done.stdout and "stop" not in done.stdout and "mvproxy-bypass" in done.stderr,
           "not removed while kube-apiserver is on loopback", done.stdout + done.stderr)
    for name, what in (("kube-apiserver has its address again", "manifest 10.0.0.1 --v=2 6443"),
                       ("it does not run", "manifest 10.0.0.1 --bind-address=127.0.0.1 6443; echo 3 >/mnt/inactive")):
        done = run(remove % what, debian)
        tap.ok("refused" not in done.stdout and "stop mvproxy.socket\nstop mvproxy.service mvproxy@*.service" in done.stdout, "removed: stopped, where " + name,
               done.stdout + done.stderr)


def main():
    if run("true").returncode != 0:
        tap.skip_all("a mount namespace needs root")
    script = bypass()
    bypasses(script)
    undone(script)
    shutil.rmtree(os.path.dirname(script))
    debian = os.path.join(TOP, "debian")
    removed(debian)
    stopped(debian)
    return tap.done()


sys.exit(main())
