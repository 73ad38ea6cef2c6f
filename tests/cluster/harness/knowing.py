# SPDX-License-Identifier: Apache-2.0
"""A raw client that knows every right answer, and requests of it without a pause.

What it rides through is what client-go rides through, no more (k8s.io/client-go/rest, net/http): an answer 429 or 5xx with Retry-After, up to ten
times; a GET that got no answer. Everything else goes to the judge.
"""

import http.client
import json
import ssl
import threading
import time
from collections import Counter

from .api import AGGREGATED

NO_ANSWER = (OSError, http.client.HTTPException, ssl.SSLError)
TRIES = 11  # client-go: the first, and ten more
LONGEST_WAIT = 2.0  # seconds; for tests, of what Retry-After asks for


class NoAnswer:
    """A request that was sent (or not even that), and nothing came back."""

    def __init__(self, error):
        self.status = 0
        self.body = b""
        self.error = error

    def __repr__(self):
        return "no answer (%s: %s)" % (type(self.error).__name__, self.error)


class Asked:
    """One try: what, whom, when, and what came."""

    def __init__(self, method, path, begun, answer):
        self.method = method
        self.path = path
        self.begun = begun
        self.ended = time.time()
        self.answer = answer

    def __repr__(self):
        return "%s %s from %.3f to %.3f: %r" % (self.method, self.path, self.begun, self.ended, self.answer)


class Asker:
    """One keep-alive connection, made again when it breaks or the server asks for it."""

    def __init__(self, client):
        self._client = client
        self._connection = None

    def close(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def try_once(self, method, path, body=None, headers=None):
        """An Asked, whatever happens. A GET on a connection that turns out to be dead is sent again, as net/http does."""
        begun = time.time()
        for used_before in ([True, False] if self._connection is not None and method == "GET" else [False]):
            try:
                if self._connection is None:
                    self._connection = self._client.connect()
                answer = self._client.request(method, path, body, headers, connection=self._connection)
                if (answer.header("Connection") or "").lower() == "close":
                    self.close()
                return Asked(method, path, begun, answer)
            except NO_ANSWER as error:
                self.close()
                if not used_before:
                    return Asked(method, path, begun, NoAnswer(error))
        raise AssertionError("not reached")


def ridden(asked):
    """Whether client-go tries again by itself."""
    if asked.answer.status == 0:
        return asked.method == "GET"
    return (asked.answer.status == 429 or asked.answer.status >= 500) and (asked.answer.header("Retry-After") or "").isdigit()


def in_hands(asked):
    """Whether that is how a request ends that a server had in its hands when it was killed: nothing comes, or our 503 without
    Retry-After (docs/internals/retry.md). Reads are asked elsewhere."""
    answer = asked.answer
    return answer.status == 0 or answer.status == 503 and not ridden(asked)


class Ledger:
    """What was wrong, and how many answers of which kind there were."""

    def __init__(self):
        self._lock = threading.Lock()
        self.wrong = []
        self.excused = []
        self.counts = Counter()

    def count(self, who, asked):
        with self._lock:
            self.counts["%s %s" % (who, asked.answer.status or "none")] += 1

    def count_plain(self, what):
        with self._lock:
            self.counts[what] += 1

    def accuse(self, who, why, what=""):
        with self._lock:
            self.wrong.append("%s %s: %s: %s" % (time.strftime("%H:%M:%S"), who, why, what))

    def excuse(self, who, asked):
        with self._lock:
            self.excused.append("%s: %r" % (who, asked))


class Worker(threading.Thread):
    """Calls turn() again and again until it is ended."""

    PAUSE = 0.03

    def __init__(self, name, ledger):
        super().__init__(name=name, daemon=True)
        self.ledger = ledger
        self.turns = 0
        self._end = threading.Event()

    def turn(self):
        raise NotImplementedError

    def run(self):
        while not self._end.is_set():
            try:
                self.turn()
            except Exception as error:  # pylint: disable=broad-except # a worker that died would judge nothing any more
                self.ledger.accuse(self.name, "the test itself", repr(error))
                return
            self.turns += 1
            self._end.wait(self.PAUSE)

    def end(self):
        self._end.set()
        self.join(120)


class NodeReader(Worker):
    """At one node, without a balancer: what is served everywhere, what is skewed, and discovery; byte for byte.

    known: {path: the bytes that are right}, which never changes. skew: SkewTruth.
    """

    def __init__(self, node, known, skew, windows, ledger):
        super().__init__("reader at " + node.name, ledger)
        self._node = node
        self._known = sorted(known.items())
        self._skew = skew
        self._windows = windows
        self._asker = Asker(node.proxied())
        self._listed = False  # our own view of discovery: once it was there, it stays
        self._served = False
        self._groups = None

    def _ask(self, path, **headers):
        asked = self._asker.try_once("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        self.ledger.count(self.name, asked)
        return asked

    def _unavailable(self, asked, mine):
        """503 with Retry-After or no answer at all: right only while somebody works, at this node if it is about it alone."""
        status = asked.answer.status
        if status == 503 and not ridden(asked):
            self.ledger.accuse(self.name, "503 without Retry-After", asked)
        elif status == 0 and not self._windows.overlap(asked.begun, asked.ended, self._node.name):
            self.ledger.accuse(self.name, "no answer at a node that nobody works on", asked)
        elif status == 503 and not self._windows.overlap(asked.begun, asked.ended, self._node.name if mine else None):
            self.ledger.accuse(self.name, "503 while nobody works", asked)

    def turn(self):
        self._read_known()
        self._read_skewed()
        if self.turns % 4 == 0:
            self._read_discovery()

    def _read_known(self):
        path, right = self._known[self.turns % len(self._known)]
        asked = self._ask(path)
        if asked.answer.status in (0, 503):
            self._unavailable(asked, True)
        elif asked.answer.status != 200:
            self.ledger.accuse(self.name, "not 200", asked)
        elif asked.answer.body != right:
            self.ledger.accuse(self.name, "wrong bytes (%d, not %d)" % (len(asked.answer.body), len(right)), asked)

    def _read_skewed(self):
        path, before = self._skew.pick(self.turns)
        asked = self._ask(path)
        phases = self._skew.phases(before)
        if phases & {"absent", "leaving", "gone"}:
            self._served = False
        if asked.answer.status in (0, 503):
            self._unavailable(asked, False)
        elif asked.answer.status == 404:
            # Nobody has it; or nobody could have told this mvproxy yet.
            if not phases & {"absent", "leaving", "gone"} and (self._served or "appearing" not in phases):
                self.ledger.accuse(self.name, "false 404 (%s)" % ", ".join(sorted(phases)), asked)
        elif asked.answer.status == 200:
            if not phases & {"appearing", "served", "leaving"}:
                self.ledger.accuse(self.name, "served by nobody", asked)
            elif not self._skew.right(path, asked.answer.body):
                self.ledger.accuse(self.name, "wrong bytes", asked)
            self._served = True
        else:
            self.ledger.accuse(self.name, "neither 200, 404 nor 503", asked)

    def _read_discovery(self):
        before = self._skew.phase
        asked = self._ask("/apis", Accept=AGGREGATED)
        phases = self._skew.phases(before)
        if asked.answer.status in (0, 503):
            self._unavailable(asked, True)
            return
        if asked.answer.status != 200:
            self.ledger.accuse(self.name, "discovery: not 200", asked)
            return
        versions = {"%s/%s" % (g["metadata"]["name"], v["version"])
                    for g in json.loads(asked.answer.body)["items"] for v in g["versions"]}
        skewed = self._skew.group_version in versions
        others = versions - {self._skew.group_version}
        if not self._skew.everywhere <= others:
            self.ledger.accuse(self.name, "vanished from discovery", sorted(self._skew.everywhere - others))
        if phases & {"absent", "leaving", "gone"}:
            self._listed = False
        elif skewed:
            self._listed = True
        elif self._listed or "appearing" not in phases:
            self.ledger.accuse(self.name, "vanished from discovery", "%s (%s)" % (self._skew.group_version, phases))
        if skewed and not phases & {"appearing", "served", "leaving"}:
            self.ledger.accuse(self.name, "in discovery, and served by nobody", self._skew.group_version)


class SkewTruth:
    """In which phase the cluster is concerning the skewed resource, and what is right in it.

    absent     no server that has it was ever started: 404
    appearing  the first one is being started: each node goes from 404 to 200 once
    served     every node has found it: 200, 503 while somebody works, never 404
    leaving    the last one's successor, that does not have it, is being started: 200 not any more, then 404
    gone       404
    """

    def __init__(self, skew, group_versions):
        """group_versions: what every server of either version serves."""
        self.group_version = skew.group_version
        self.everywhere = set(group_versions) - {skew.group_version}
        self._collection = skew.collection
        self._lock = threading.Lock()
        self._things = {}
        self._history = ["absent"]

    @property
    def phase(self):
        """An index into the history."""
        with self._lock:
            return len(self._history) - 1

    def enter(self, phase):
        with self._lock:
            self._history.append(phase)

    def phases(self, since):
        """All phases from that index to now."""
        with self._lock:
            return set(self._history[since:])

    def also_everywhere(self, group_versions):
        """A server of the other version is there, and this is what it serves."""
        with self._lock:
            self.everywhere &= set(group_versions)

    def leave_with(self, node):
        """The phase is "leaving" from when the next kube-apiserver of this node is started."""
        node.before_start = lambda: self.enter("leaving")

    def set_things(self, things):
        """{path: bytes}: objects of it that exist and do not change."""
        with self._lock:
            self._things = dict(things)

    def pick(self, turn):
        with self._lock:
            paths = sorted(self._things) or [self._collection + "/none"]
            if self._history[-1] in ("absent", "gone", "appearing") or not self._things:
                paths = [self._collection]
            return paths[turn % len(paths)], len(self._history) - 1

    def right(self, path, body):
        with self._lock:
            return self._things.get(path, body) == body


class Writer(Worker):
    """Through the balancer: makes, reads, changes and deletes objects of its own, each with contents of its own, byte for byte.

    Excused is only: of a request that may not be repeated nobody knows whether it was carried out, while a node was being worked on.
    """

    def __init__(self, client, collection, make, windows, ledger):
        """make(name): a new object."""
        super().__init__("writer of " + collection.rsplit("/", 1)[1], ledger)
        self._client = client
        self._asker = Asker(client)
        self._collection = collection
        self._make = make
        self._windows = windows

    def _ask(self, method, path, body=None):
        """The last try."""
        for _ in range(TRIES):
            asked = self._asker.try_once(method, path, body)
            self.ledger.count(self.name, asked)
            if not ridden(asked):
                break
            after = asked.answer.header("Retry-After") if asked.answer.status else None
            time.sleep(min(float(after), LONGEST_WAIT) if after else 0.1)
        return asked

    def _expect(self, asked, *statuses):
        """Whether it is one of these; None if nobody knows what has become of it."""
        if asked.answer.status in statuses:
            return True
        # A create is never left in doubt by a server that stops in order; a PUT or DELETE was asked again before, and is looked at now.
        doubtful = asked.answer.status == 0 and asked.method != "GET" or in_hands(asked) and asked.method in ("PUT", "DELETE")
        if doubtful and self._windows.overlap(asked.begun, asked.ended):
            self.ledger.excuse(self.name, asked)
            return None
        self.ledger.accuse(self.name, "not %s" % "/".join(map(str, statuses)), asked)
        return False

    def turn(self):
        name = "raw-%06d" % self.turns
        path = "%s/%s" % (self._collection, name)
        made = self._ask("POST", self._collection, self._make(name))
        if not self._expect(made, 201):
            return
        self._compare(path, made.answer.body)
        thing = json.loads(made.answer.body)
        thing["metadata"]["labels"] = {"turn": str(self.turns)}
        changed = self._ask("PUT", path, thing)
        if not self._expect(changed, 200):
            return
        self._compare(path, changed.answer.body)
        if self._expect(self._ask("DELETE", path), 200):
            self._expect(self._ask("GET", path), 404)

    def _compare(self, path, right):
        read = self._ask("GET", path)
        if self._expect(read, 200) and read.answer.body != right:
            self.ledger.accuse(self.name, "wrong bytes, %r was written" % right[:300], read)
