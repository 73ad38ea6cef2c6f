# SPDX-License-Identifier: Apache-2.0
"""What the stories in this folder stand on: a simulated cluster, mvproxy before each of its
servers, and clients that look closely.  Python 3.9, standard library only.

A story is a file of its own with functions test_*(world), in the order in which they run, and

    if __name__ == "__main__":
        fixture.main(globals())

It prints TAP and ends with 0 (all passed, or all skipped, with the reason) or 1.  A story may define
setup() returning its world; the usual one is two servers, 1.33 and 1.34, each behind mvproxy.

Environment: MVPROXY the daemon (else $top_builddir/mvproxy), APISIM the simulator (else it is
built), KEEP=1 keeps the folder with configurations and logs.
"""

import atexit
import contextlib
import fcntl
import hashlib
import inspect
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(TREE, "tests", "lib"))

import certs as certlib  # noqa: E402
from rawhttp import Raw  # noqa: E402

PATIENCE = 30.0  # seconds after which something that must happen did not; never a measurement

# What AddressSanitizer says once of each process with fibers (src/base/fiber.c tells it of their stacks); no alarm.
REMARK = "ASan doesn't fully support makecontext/swapcontext"
# Words of sanitizers and of broken promises: none may stand in a daemon's log.
ALARMS = ("AddressSanitizer", "LeakSanitizer", "UndefinedBehaviorSanitizer", "runtime error:",
          "ThreadSanitizer", "Assertion", "double free", "stack smashing")


class Skip(Exception):
    """This test cannot run here; the text says why."""


class Failure(AssertionError):
    """What was promised did not happen."""


def check(condition, *what):
    if not condition:
        raise Failure(" ".join(str(w) for w in what) or "check failed")


def equal(got, wanted, what=""):
    if got != wanted:
        raise Failure("%s: got %r, wanted %r" % (what, got, wanted))


def until(condition, what, patience=PATIENCE, pause=0.02):
    """Wait until condition() is true and return its value; its exceptions count as not yet."""
    end = time.monotonic() + patience
    last = None
    while True:
        try:
            value = condition()
            if value:
                return value
            last = value
        except (OSError, Failure, KeyError, IndexError, ValueError) as error:
            last = error
        if time.monotonic() > end:
            raise Failure("gave up waiting for %s (last: %r)" % (what, last))
        time.sleep(pause)


_LIST = re.compile(rb'(\{"kind":"[A-Za-z]+List","apiVersion":"[^"]+","metadata":\{"resourceVersion":)"[0-9]+"')


def unversioned(body):
    """The bytes of an answer; of a list without its own version, which moves with every Lease that somebody renews."""
    return _LIST.sub(rb'\1"*"', body, count=1)


# ------------------------------------------------------------------------------------ scratch


def _cache():
    """A folder for what stories share (certificates, the simulator): ours alone, one for each tree,
    and outside of the build, which has to be able to clean up after itself."""
    path = os.path.join(tempfile.gettempdir(), "mvproxy-tests-%d-%s" % (
        os.getuid(), hashlib.sha256(TREE.encode()).hexdigest()[:12]))
    os.makedirs(path, mode=0o700, exist_ok=True)
    if os.stat(path).st_uid != os.getuid():
        raise Failure("%s belongs to somebody else" % path)
    return path


class Lock:
    """An exclusive lock on a file, for things that parallel stories share."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.file = open(self.path, "w", encoding="ascii")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *unused):
        self.file.close()


class Certs:
    """The standard set of tests/lib/certs.py, made once and shared; extra() issues more."""

    def __init__(self, scratch):
        # Made anew when the set is another one, and each half day, beside the one that other stories use.
        with open(certlib.__file__, "rb") as maker:
            self.dir = os.path.join(_cache(), "certs-%s-%d" % (hashlib.sha256(maker.read()).hexdigest()[:12], time.time() // 43200))
        stamp = os.path.join(self.dir, "complete")
        with Lock(os.path.join(_cache(), "certs.lock")):
            if not os.path.exists(stamp):
                self.authority = certlib.make_all(self.dir)
                open(stamp, "w", encoding="ascii").close()
        self.authority = certlib.Authority(self.dir)
        self.own = certlib.Authority(os.path.join(scratch, "certs"))

    def crt(self, name):
        mine = self.own.crt(name)
        return mine if os.path.exists(mine) else self.authority.crt(name)

    def key(self, name):
        mine = self.own.key(name)
        return mine if os.path.exists(mine) else self.authority.key(name)

    def extra(self, name, cn, orgs=(), ca="ca", **more):
        """Issue a certificate for this story only."""
        for pair in (self.own.crt(ca), self.own.key(ca)):
            shared = os.path.join(self.dir, os.path.basename(pair))
            if not os.path.exists(pair) and os.path.exists(shared):
                shutil.copy(shared, pair)
        return self.own.issue(name, cn, orgs, ca=ca, **more)


_ports = []


def free_port():
    """A port of 127.0.0.1 below the ephemeral range, reserved for this process until it ends."""
    folder = os.path.join(tempfile.gettempdir(), "mvproxy-ports-%d" % os.getuid())
    os.makedirs(folder, mode=0o700, exist_ok=True)
    start = 18000 + os.getpid() * 37 % 12000
    for i in range(12000):
        port = 18000 + (start - 18000 + i) % 12000
        lock = open(os.path.join(folder, str(port)), "w", encoding="ascii")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            lock.close()
            continue
        _ports.append(lock)
        return port
    raise Failure("no free port")


# ---------------------------------------------------------------------------------- processes


class Process:
    """A program of ours with its log; it must not outlive the story."""

    def __init__(self, name, argv, scratch, env=None):
        self.name, self.argv = name, argv
        self.log_path = os.path.join(scratch, name + ".log")
        self.env = dict(os.environ, **(env or {}))
        self.child = None

    def spawn(self, **more):
        with open(self.log_path, "ab") as log:
            self.child = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL,
                                          env=self.env, **dict({"stdout": log, "stderr": log}, **more))
        atexit.register(self.destroy)

    def running(self):
        return self.child is not None and self.child.poll() is None

    def destroy(self):
        if self.running():
            self.child.kill()
            self.child.wait()

    def log(self):
        try:
            with open(self.log_path, encoding="utf-8", errors="replace") as log:
                return log.read()
        except FileNotFoundError:
            return ""

    def tail(self, lines=25):
        return "\n".join(self.log().splitlines()[-lines:])

    def log_mark(self):
        """A place in the log, to be given to log_contains."""
        return len(self.log())

    def log_contains(self, text, since=0):
        return text in self.log()[since:]

    def await_log(self, text, since=0):
        until(lambda: self.log_contains(text, since), "%r in the log of %s" % (text, self.name))


def _go():
    for name in (os.environ.get("GO"), "go", "/usr/local/go/bin/go", "/usr/lib/go/bin/go"):
        path = name and shutil.which(name)
        if path:
            return path
    raise Skip("no Go toolchain to build the simulator with")


def go_binary(name, package):
    """The path of a program of the module tests/apisim, built if need be."""
    path = os.path.join(_cache(), name)
    with Lock(path + ".lock"):
        env = dict(os.environ, GOFLAGS="-mod=mod", GOWORK="off", CGO_ENABLED="0")
        if "GOCACHE" not in env and "HOME" not in env:
            env["GOCACHE"] = os.path.join(_cache(), "go-build")
        done = subprocess.run([_go(), "build", "-o", path, package], env=env, capture_output=True,
                              cwd=os.path.join(TREE, "tests", "apisim"), check=False)
        if done.returncode != 0:
            raise Failure("%s does not build: %s" % (name, done.stderr.decode(errors="replace")))
    return path


def apisim_binary():
    return os.environ.get("APISIM") or go_binary("apisim", ".")


class ApiSim(Process):
    """The simulator: several servers on one store."""

    def __init__(self, scratch, certs, servers, **config):
        self.certs = certs
        self.tokens = os.path.join(scratch, "tokens.csv")
        with open(self.tokens, "w", encoding="ascii") as out:
            out.write('token-bob,bob,uid-bob,"dev,ops"\ntoken-root,root,uid-root,"system:masters"\n')
        self.config_path = os.path.join(scratch, "apisim.json")
        config["servers"] = [self.server_config(**s) for s in servers]
        with open(self.config_path, "w", encoding="utf-8") as out:
            json.dump(config, out, indent=1)
        super().__init__("apisim", [apisim_binary(), "--config", self.config_path], scratch)
        self.control = None

    def server_config(self, name, profile, **more):
        config = {
            "name": name, "hostname": "test-server-" + name, "profile": profile,
            "listen": "127.0.0.1:%d" % free_port(),
            "tls-cert-file": self.certs.crt("node-a"), "tls-private-key-file": self.certs.key("node-a"),
            "client-ca-file": self.certs.crt("ca"), "token-auth-file": self.tokens,
            "requestheader-client-ca-file": self.certs.crt("front-proxy-ca"),
            "requestheader-allowed-names": ["front-proxy-client"],
        }
        config.update(more)
        return config

    def start(self):
        self.spawn(stdout=subprocess.PIPE)
        line = self.child.stdout.readline()
        if not line:
            raise Failure("apisim did not start:\n" + self.tail())
        told = json.loads(line)
        self.control = told["control"]
        return told["servers"]

    def ask(self, path, method="GET", body=None):
        request = urllib.request.Request(
            "http://%s/_sim/%s" % (self.control, path), method=method,
            data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Failure("apisim: " + error.read().decode(errors="replace")) from error

    # One server.

    def server(self, name):
        return self.ask("servers/" + name)

    def address(self, name):
        host, port = self.server(name)["address"].rsplit(":", 1)
        return host, int(port)

    def stop_server(self, name):
        """As by SIGTERM."""
        return self.ask("servers/%s/stop" % name, "POST")

    def kill_server(self, name):
        """As by SIGKILL: connections are reset, the Lease stays."""
        return self.ask("servers/%s/kill" % name, "POST")

    def start_server(self, name, **changes):
        return self.ask("servers/%s/start" % name, "POST", changes or None)

    def restart_server(self, name, **changes):
        self.kill_server(name)
        return self.start_server(name, **changes)

    def command(self, name, command, body=None):
        return self.ask("servers/%s/%s" % (name, command), "POST", body)

    # Faults and what was seen.

    def fault(self, action, server="", method="", path="", **more):
        return self.ask("faults", "POST", dict(more, action=action, server=server, method=method,
                                               path=path))["id"]

    def hits(self, fault_id):
        for fault in self.ask("faults")["faults"]:
            if fault["id"] == fault_id:
                return fault["hits"]
        return 0

    def heal(self, fault_id=0):
        return self.ask("faults?id=%d" % fault_id, "DELETE")

    def requests(self, server="", path="", since=0):
        query = urllib.parse.urlencode({"server": server, "path": path, "since": since})
        return self.ask("requests?" + query)["requests"]

    def mark(self):
        """A number for requests(since=...)."""
        return max([r["seq"] for r in self.requests()] or [0])

    def reset(self):
        self.ask("reset", "POST")

    # The store.

    def stored(self, resource, namespace=""):
        return self.ask("store?" + urllib.parse.urlencode(
            {"resource": resource, "namespace": namespace}))["items"]

    def put(self, resource, obj):
        return self.ask("store?resource=" + resource, "PUT", obj)

    def delete(self, resource, name, namespace=""):
        return self.ask("store?" + urllib.parse.urlencode(
            {"resource": resource, "name": name, "namespace": namespace}), "DELETE")

    def compact(self, resource):
        return self.ask("compact?resource=" + resource, "POST")

    def end_watches(self, resource):
        return self.ask("end-watches?resource=" + resource, "POST")

    def stop(self):
        if self.running():
            self.child.terminate()
            equal(self.child.wait(PATIENCE), 0, "exit status of apisim")


def mvproxy_binary():
    path = os.environ.get("MVPROXY") or os.path.join(
        os.environ.get("top_builddir") or TREE, "mvproxy")
    if not os.access(path, os.X_OK):
        raise Failure("no daemon at %s (set MVPROXY, or top_builddir)" % path)
    return path


def yaml(options):
    """A flat YAML mapping; JSON's scalars and lists are YAML's."""
    return "".join("%s: %s\n" % (key, json.dumps(value, ensure_ascii=False))
                   for key, value in options.items())


class Mvproxy(Process):
    """The daemon, with a configuration made of a dict."""

    def __init__(self, name, scratch, options, arguments=()):
        self.options = dict(options)
        self.config_path = os.path.join(scratch, name + ".yaml")
        super().__init__(name, [mvproxy_binary(), "--config", self.config_path, *arguments], scratch,
                         {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:" + os.environ.get("ASAN_OPTIONS", ""),
                          "UBSAN_OPTIONS": "print_stacktrace=1:" + os.environ.get("UBSAN_OPTIONS", "")})
        self.expected_exit = False

    @property
    def address(self):
        return self.options["bind-address"], self.options["secure-port"]

    @property
    def admin(self):
        return self.options["admin-bind-address"]

    def sanitized(self):
        """Whether it runs with AddressSanitizer, whose quarantine makes memory figures meaningless."""
        with open(self.argv[0], "rb") as binary:
            return b"__asan_init" in binary.read()

    def write_config(self, text=None):
        staged = self.config_path + ".new"
        with open(staged, "w", encoding="utf-8") as out:
            out.write(yaml(self.options) if text is None else text)
        os.replace(staged, self.config_path)

    def start(self, ready=True, **more):
        self.write_config()
        self.expected_exit = False
        self.spawn(**more)
        if ready:
            self.await_ready()

    def get(self, path):
        """(status, text) of the admin listener."""
        try:
            with urllib.request.urlopen("http://%s%s" % (self.admin, path), timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace")

    def ready(self):
        if not self.running():
            raise RuntimeError("%s ended with %s:\n%s" % (self.name, self.child.returncode, self.tail()))
        return self.get("/readyz")[0] == 200

    def await_ready(self):
        until(self.ready, "%s to be ready" % self.name)

    def metric(self, name, **labels):
        """The sum of the samples of a metric that carry these labels; None if there is none."""
        total = None
        for line in self.get("/metrics")[1].splitlines():
            series, _, value = line.rpartition(" ")
            bare, _, rest = series.partition("{")
            if bare == name and all('%s="%s"' % (k, v) in rest for k, v in labels.items()):
                total = (total or 0.0) + float(value)
        return total

    def reload(self, options=None, text=None):
        """Rewrite the configuration and send SIGHUP; what came of it is for the caller to see."""
        if options is not None:
            self.options.update(options)
        self.write_config(text)
        mark = self.log_mark()
        self.child.send_signal(signal.SIGHUP)
        return mark

    def signal(self, number):
        self.child.send_signal(number)

    def wait_exit(self):
        self.expected_exit = True
        try:
            return self.child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure("%s does not end:\n%s" % (self.name, self.tail())) from None

    def kill(self):
        self.expected_exit = True
        self.child.kill()
        self.child.wait()

    def stop(self):
        """SIGTERM; the exit status must be 0."""
        if self.child is None or self.expected_exit:
            return
        check(self.running(), "%s ended by itself with %s:\n%s" % (
            self.name, self.child.returncode, self.tail()))
        self.signal(signal.SIGTERM)
        equal(self.wait_exit(), 0, "exit status of %s\n%s" % (self.name, self.tail()))

    def examine(self):
        """Fail when the daemon is dead without having been told, or has cried."""
        if self.child is not None and not self.expected_exit:
            check(self.running(), "%s ended by itself with %s:\n%s" % (
                self.name, self.child.returncode, self.tail(60)))
        text = self.log()
        for alarm in ALARMS:
            check(alarm not in text, "%s: %s in its log:\n%s" % (self.name, alarm, self.tail(80)))


# -------------------------------------------------------------------------------------- world


class World:
    """Simulated servers by name, and an mvproxy before each."""

    def __init__(self, profiles=None, proxies=None, options=None, servers=None, **config):
        profiles = {"a": "v1.33", "b": "v1.34"} if profiles is None else profiles
        self.scratch = tempfile.mkdtemp(prefix="mvproxy-e2e-")
        self.certs = Certs(self.scratch)
        more = servers or {}
        self.sim = ApiSim(self.scratch, self.certs, [
            dict(more.get(n, {}), name=n, profile=p) for n, p in profiles.items()], **config)
        self.addresses = {}
        for name, told in self.sim.start().items():
            host, port = told["address"].rsplit(":", 1)
            self.addresses[name] = (host, int(port))
        self.ports = {name: free_port() for name in profiles}
        self.proxies = {name: Mvproxy("mvproxy-" + name, self.scratch,
                                      dict(self.options(name), **(options or {})))
                        for name in (profiles if proxies is None else proxies)}

    def options(self, name):
        certs = self.certs
        return {
            "bind-address": "127.0.0.1", "secure-port": self.ports[name],
            "admin-bind-address": "127.0.0.1:%d" % free_port(),
            "control-socket": os.path.join(self.scratch, name + ".control"),
            "tls-cert-file": certs.crt("node-" + name), "tls-private-key-file": certs.key("node-" + name),
            "client-ca-file": certs.crt("ca"),
            "requestheader-client-ca-file": certs.crt("front-proxy-ca"),
            "requestheader-allowed-names": ["front-proxy-client"],
            "proxy-client-cert-file": certs.crt("front-proxy-client"),
            "proxy-client-key-file": certs.key("front-proxy-client"),
            "apiserver": "https://%s:%d" % self.addresses[name], "apiserver-ca-file": certs.crt("ca"),
            "peer-ca-file": certs.crt("ca"), "hostname-override": "test-server-" + name,
            "peers": ["test-server-%s=127.0.0.1:%d" % (other, port)
                      for other, port in self.ports.items() if other != name],
            "peer-allowed-cidrs": ["127.0.0.0/8"], "v": 4,
        }

    def start_proxies(self):
        """Start every mvproxy; ready when all are."""
        for proxy in self.proxies.values():
            proxy.start(ready=False)
        for proxy in self.proxies.values():
            proxy.await_ready()
        return self

    def start(self):
        """The same, and each knows the others."""
        self.start_proxies()
        self.settle()
        return self

    def settle(self):
        """Wait until every mvproxy knows what every peer serves: before that a resource that nobody
        has is answered with 503."""
        for name, proxy in self.proxies.items():
            if proxy.running():
                until(lambda n=name: self.ask("GET", "/apis/nobody.has.it/v1/things", name=n).status == 404,
                      "%s to know its peers" % name)

    # Clients.

    def client(self, name="a", user="admin", direct=False, **more):
        """A raw client of mvproxy NAME (direct: of its server), with a user's certificate or none."""
        address = self.addresses[name] if direct else self.proxies[name].address
        pair = (self.certs.crt(user), self.certs.key(user)) if user else None
        return Raw(address, self.certs.crt("ca"), pair, **more)

    def ask(self, method, path, body=None, name="a", user="admin", headers=None, direct=False):
        """One request on a connection of its own; the answer."""
        with self.client(name, user, direct) as client:
            return client.ask(method, path, body, headers)

    def close(self):
        """Stop everything, and fail if a daemon did not end well."""
        trouble = None
        for proxy in self.proxies.values():
            try:
                proxy.stop()
                proxy.examine()
            except Failure as error:
                trouble = trouble or error
        self.sim.stop()
        if trouble:
            raise trouble

    def examine(self):
        for proxy in self.proxies.values():
            proxy.examine()

    def tails(self):
        out = []
        for process in [*self.proxies.values(), self.sim]:
            if process.log():
                out.append("--- %s\n%s" % (process.name, process.tail(12)))
        return "\n".join(out)


def ctl(world, *arguments, path=None):
    """(exit status, standard output, standard error) of mvproxyctl asking a's mvproxy."""
    program = os.path.join(os.path.dirname(mvproxy_binary()), "mvproxyctl")
    done = subprocess.run([program, "--socket", path or world.proxies["a"].options["control-socket"], *arguments],
                          capture_output=True, text=True, check=False, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


def ctl_json(world, *arguments):
    """The result of a command as JSON."""
    status, out, errors = ctl(world, "-o", "json", *arguments)
    equal((status, errors), (0, ""), "mvproxyctl " + " ".join(arguments))
    return json.loads(out)


@contextlib.contextmanager
def killed(world, name):
    """A server is dead meanwhile."""
    world.sim.kill_server(name)
    try:
        yield
    finally:
        world.sim.start_server(name)


def golden(path, out, mark="\n# "):
    """The text is the file's, part by part; MVPROXY_UPDATE_GOLDEN writes the file anew."""
    if os.environ.get("MVPROXY_UPDATE_GOLDEN"):
        with open(path, "w", encoding="utf-8") as file:
            file.write(out)
    with open(path, encoding="utf-8") as file:
        wanted = file.read()
    for got, want in zip(out.split(mark), wanted.split(mark)):
        equal(got, want, "said")
    equal(len(out), len(wanted), "length")


# ---------------------------------------------------------------------------------------- TAP


def _say(ok, number, name, note=""):
    print("%s %d - %s%s" % ("ok" if ok else "not ok", number, name, note), flush=True)


def _comment(text):
    for line in text.splitlines():
        print("# " + line, flush=True)


def _title(test):
    doc = inspect.getdoc(test)
    return doc.splitlines()[0] if doc else test.__name__[len("test_"):].replace("_", " ")


def main(names):
    """Run the story in names, print TAP, end the process."""
    tests = [t for n, t in names.items() if n.startswith("test_") and callable(t)]
    wanted = sys.argv[1:]
    if wanted:
        tests = [t for t in tests if t.__name__ in wanted]
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(1))
    world, failed = None, 0
    try:
        try:
            world = names["setup"]() if "setup" in names else World().start()
        except Skip as why:
            print("1..0 # SKIP %s" % why)
            sys.exit(0)  # the plan says it: to automake's TAP driver another status is a failure
        except Exception:  # nothing can be tested: say why and stop
            _comment(traceback.format_exc())
            print("Bail out! the world does not start", flush=True)
            sys.exit(1)
        print("1..%d" % (len(tests) + 1), flush=True)
        for number, test in enumerate(tests, 1):
            failed += not _run(world, number, test)
        try:
            world.close()
            _say(True, len(tests) + 1, "everything ends cleanly")
        except Exception as error:
            failed += 1
            _say(False, len(tests) + 1, "everything ends cleanly")
            _comment(str(error))
    finally:
        if world is not None:
            for process in [*world.proxies.values(), world.sim]:
                process.destroy()
            if failed or os.environ.get("KEEP"):
                _comment("kept: " + world.scratch)
            else:
                shutil.rmtree(world.scratch, ignore_errors=True)
    sys.exit(1 if failed else 0)


def _run(world, number, test):
    try:
        world.sim.reset()
        test(world)
        world.examine()
    except Skip as why:
        _say(True, number, _title(test), " # SKIP %s" % why)
        return True
    except Exception:
        _say(False, number, _title(test))
        _comment(traceback.format_exc())
        _comment(world.tails())
        return False
    _say(True, number, _title(test))
    return True
