# SPDX-License-Identifier: Apache-2.0
"""Crowds for test_floods.py: connections by the thousand, and ordinary clients beside them whose requests are timed.

Every client and every flood is a process of its own, so that none takes Python's lock from another.  pin() gives the daemon
a core to itself, and a flood in full takes only what the others leave of the rest: then their times say something about the daemon.
"""

import json
import os
import select
import selectors
import signal
import socket
import ssl
import time

import fixture
from fixture import check, until

SOURCES = ["127.0.9.%d" % i for i in range(1, 9)]
# Ordinary clients have an address of their own: who comes from a flood's address may be crowded out with it.
ORDINARY = "127.0.8.1"
# Of a hello.
BEGINNING = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


def give_way():
    """This process runs when nobody else wants to.  Not by real-time priorities of the others: a kernel that keeps 50 ms of each
    second for those without takes them from the ones that are timed."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


# ------------------------------------------------------------------------------------ who is timed


def _split(work):
    """work(pipe) in a process that ends when it is told to; (its number, what it writes)."""
    said, say = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # the handler that it inherits ends the test
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.close(said)
            work(say)
        finally:
            os._exit(1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    os.close(say)
    return pid, said


class Client:
    """A process that asks and asks, and tells at the end how long each request took. ask() returns None, or what is wrong."""

    def __init__(self, ask, pause, enough):
        self.ask, self.pause, self.enough = ask, pause, enough
        self.pid, self.said = _split(self._work)

    def _work(self, say):
        ending, times, trouble = [], [], None
        signal.signal(signal.SIGTERM, lambda *unused: ending.append(1))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        try:
            while not ending and trouble is None:
                started = time.monotonic()
                trouble = self.ask()
                times.append(time.monotonic() - started)
                if len(times) == self.enough:
                    os.write(say, b"\n")
                time.sleep(self.pause)
        except BaseException as error:  # whatever it is, it is told
            trouble = repr(error)
        with os.fdopen(say, "w") as out:
            json.dump({"times": times, "trouble": trouble}, out)

    def has_asked(self):
        """Often enough, or until it failed."""
        return bool(select.select([self.said], [], [], 0)[0])

    def end(self):
        """(times, trouble)"""
        os.kill(self.pid, signal.SIGTERM)
        with os.fdopen(self.said) as told:
            text = told.read()
        os.waitpid(self.pid, 0)
        told = json.loads(text)
        return sorted(told["times"]), told["trouble"]


def of(times, share):
    return 1e3 * times[int((len(times) - 1) * share)]


class Others:
    """Ordinary clients: one that holds its connection, and one that makes a new one for each request."""

    def __init__(self, world, path, enough, patience):
        self.world, self.path, self.enough, self.patience = world, path, enough, patience
        self.steady, self.clients, self.seen = None, {}, {}
        with world.client(source=ORDINARY) as client:
            self.context = client.context

    def _held(self):
        self.steady = self.steady or self.world.client(source=ORDINARY)
        return self._verdict(self.steady.ask("GET", self.path))

    def _fresh(self):
        with self.world.client(context=self.context, source=ORDINARY) as client:
            return self._verdict(client.ask("GET", self.path))

    @staticmethod
    def _verdict(answer):
        return None if answer.status == 200 else "got %d" % answer.status

    def __enter__(self):
        self.clients = {"held": Client(self._held, 0.002, self.enough), "new": Client(self._fresh, 0.01, self.enough // 2)}
        return self

    def __exit__(self, *what):
        try:
            if not what[0]:
                until(lambda: all(c.has_asked() for c in self.clients.values()), "requests of others", patience=self.patience)
        finally:
            self.seen = {name: client.end() for name, client in self.clients.items()}
        for kind, (_, trouble) in self.seen.items():
            check(what[0] or not trouble, "another client,", kind, trouble)

    def tell(self, name, quiet):
        """Prints how long they waited, beside those of `quiet`."""
        for kind, (times, _) in self.seen.items():
            before = quiet.seen[kind][0]
            print("# %s: on %s connections p99 %.1f ms, quiet %.1f ms: x %.1f (median %.1f and %.1f ms, %d and %d requests)" % (
                name, kind, of(times, 0.99), of(before, 0.99), of(times, 0.99) / of(before, 0.99), of(times, 0.5), of(before, 0.5),
                len(times), len(before)), flush=True)


def pin(proxy):
    """The daemon has the last core, everybody else the others.  False where there is only one."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return False
    for pid in os.listdir("/proc"):
        try:
            with open("/proc/%s/stat" % pid, encoding="ascii", errors="replace") as stat:
                parent = int(stat.read().rpartition(")")[2].split()[1])
            if parent == os.getpid():
                for task in os.listdir("/proc/%s/task" % pid):
                    os.sched_setaffinity(int(task), cores[:-1])
        except (OSError, ValueError):
            continue
    os.sched_setaffinity(proxy.child.pid, cores[-1:])
    os.sched_setaffinity(0, cores[:-1])
    return True


class Flood:
    """work() in a process; what it returns, sockets, stays open until the flood ends.  Lasting: until then again and again, each
    time for a second, and only with what time the machine has left."""

    def __init__(self, work, lasting=False):
        self.work, self.lasting, self.rounds = work, lasting, 0
        self.pid = self.said = None

    def _flood(self, say):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        try:
            if self.lasting:
                give_way()
            while True:
                held = self.work()
                os.write(say, b"+")
                while not self.lasting:
                    signal.pause()
                time.sleep(1)
                end(held or [])
        except BaseException as error:  # whatever it is, it is told
            os.write(say, repr(error).encode())

    def done(self):
        """How many rounds are complete; a failure of the flood is one."""
        while select.select([self.said], [], [], 0)[0]:
            text = os.read(self.said, 4096)
            if not text:
                break
            check(set(text) == {ord("+")}, "the flood:", text.decode())
            self.rounds += len(text)
        return self.rounds

    def __enter__(self):
        self.pid, self.said = _split(self._flood)
        return self

    def __exit__(self, *what):
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)
        os.close(self.said)


# ------------------------------------------------------------------------------------ crowds


def arrive(proxy, i):
    """The ith connection of a crowd from several addresses."""
    return socket.create_connection(proxy.address, source_address=(SOURCES[i % len(SOURCES)], 0), timeout=fixture.PATIENCE)


def half_open(proxy, n, beginning=BEGINNING):
    """n connections: half of them send nothing, half the beginning of a hello."""
    out = []
    for i in range(n):
        one = arrive(proxy, i)
        try:
            if i % 2 == 0:
                one.send(beginning)
        except OSError:  # crowded out
            pass
        out.append(one)
    return out


def end(sockets):
    for one in sockets:
        one.close()


def hello_with_tickets(n):
    """The first flight of a client that offers to resume n sessions, none of which has been."""
    def vector(wide, data):
        return len(data).to_bytes(wide, "big") + data

    def extension(kind, data):
        return kind.to_bytes(2, "big") + vector(2, data)

    tickets = vector(2, (vector(2, b"t" * 200) + bytes(4)) * n) + vector(2, vector(1, bytes(32)) * n)
    extensions = (extension(43, b"\2\3\4") + extension(10, vector(2, b"\0\x1d")) + extension(13, vector(2, b"\4\3\x08\4")) +
                  extension(51, vector(2, b"\0\x1d" + vector(2, b"\x09" * 32))) + extension(45, b"\1\1") + extension(41, tickets))
    body = b"\3\3" + bytes(32) + vector(1, b"") + vector(2, b"\x13\1") + vector(1, b"\0") + vector(2, extensions)
    return b"\x16\3\1" + vector(2, b"\1" + vector(3, body))


def hello():
    """The first flight of a client, as bytes."""
    out = ssl.MemoryBIO()
    try:
        _context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="kubernetes.default.svc").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def hellos(proxy, n, at_once=200):
    """n times the same hello: the server signs for it, and we only wait for its first byte."""
    flight, open_ones = hello(), []
    for i in range(n):
        one = arrive(proxy, i)
        try:
            one.send(flight)
        except OSError:  # crowded out
            pass
        open_ones.append(one)
        if len(open_ones) >= at_once:
            _leave(open_ones.pop(0))
    for one in open_ones:
        _leave(one)


def _leave(one):
    try:
        one.recv(1)
    except OSError:  # crowded out
        pass
    one.close()


def _context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def handshakes(proxy, n, asks):
    """n TLS connections at a time without threads; each sends `asks`, and stays."""
    context = _context()
    out, selector, left = [], selectors.DefaultSelector(), 0
    for i in range(n):
        tcp = arrive(proxy, i)
        tcp.setblocking(False)
        one = context.wrap_socket(tcp, do_handshake_on_connect=False)
        selector.register(one, selectors.EVENT_READ | selectors.EVENT_WRITE)
        out.append(one)
        left += 1
        if left >= 50:
            left -= _drive(selector, asks, 40)
    while left > 0:
        left -= _drive(selector, asks, left)
    return out


def _drive(selector, asks, wanted):
    done, deadline = 0, time.monotonic() + 2 * fixture.PATIENCE
    while done < wanted:
        check(time.monotonic() < deadline, "handshakes do not end")
        for key, _ in selector.select(1):
            one = key.fileobj
            try:
                one.do_handshake()
                if asks:
                    one.send(asks)
            except ssl.SSLWantReadError:
                selector.modify(one, selectors.EVENT_READ)
                continue
            except ssl.SSLWantWriteError:
                continue
            except OSError:  # crowded out
                pass
            selector.unregister(one)
            done += 1
    return done
