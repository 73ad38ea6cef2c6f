#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes real mvproxies: every query of the dashboard has an answer, and no alert fires in a healthy hour."""

import json
import os
import re
import shutil
import subprocess
import urllib.parse
import urllib.request

from yaml import safe_load

import fixture
from fixture import PATIENCE, Failure, Process, Skip, World, check, equal, free_port, until, yaml

FOLDER = os.path.join(fixture.TREE, "contrib", "prometheus")
PEERS = "/apis/resource.k8s.io/v1/deviceclasses"  # 1.34 has it, 1.33 has not
# What has nothing to show while nothing is wrong; test_selectors makes it go wrong.
QUIET = ("mvproxy_retries_total", "mvproxy_local_failover_requests_total", "mvproxy_back_failures_total", "apiserver_peer_proxy_errors_total")
# How long turns take is this machine's matter, which has much else to do.
TIMED = ("MvproxyEventLoopSlow",)
# Upstream's names are what they are.
UPSTREAM = re.compile(r"^apiserver_egress_dialer_dial_failure_count |^$")
# There only where an etcd is configured.
UNCONFIGURED = ("mvproxy_etcd_working",)
SELECTOR = re.compile(r"[a-z][a-z0-9_]*\{[^}]*\}|\b(?:mvproxy|apiserver|aggregator|process)_[a-z0-9_]+\b(?!\{)")
SAMPLE = re.compile(r"^([a-z_:]+)(\{.*\})? (\S+)$")


class Prometheus(Process):
    """On a port of its own, with a fresh store, scraping what this job names every half second."""

    def __init__(self, scratch, job, name="prometheus"):
        self.port = free_port()
        config = os.path.join(scratch, name + ".json")  # which is YAML
        with open(config, "w", encoding="utf-8") as out:
            json.dump({"global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
                       "scrape_configs": [job],
                       "rule_files": [os.path.join(FOLDER, "mvproxy.rules.yaml")]}, out)
        super().__init__(name, ["prometheus", "--config.file=" + config, "--storage.tsdb.path=" + os.path.join(scratch, name + ".tsdb"),
                                "--web.listen-address=127.0.0.1:%d" % self.port, "--log.level=warn"], scratch)

    def ask(self, path, **parameters):
        url = "http://127.0.0.1:%d/api/v1/%s?%s" % (self.port, path, urllib.parse.urlencode(parameters))
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise Failure("%s: %s" % (parameters, error.read().decode(errors="replace"))) from error

    def query(self, text):
        return self.ask("query", query=text)["result"]


class Watched(World):
    """The usual world, and Prometheus."""

    def start(self):
        super().start()
        self.prometheus = Prometheus(self.scratch, {"job_name": "mvproxy", "static_configs": [{"targets": [p.admin for p in self.proxies.values()]}]})
        self.prometheus.spawn()
        return self

    def close(self):
        self.prometheus.destroy()
        super().close()


def setup():
    for program in ("prometheus", "promtool"):
        if not shutil.which(program):
            raise Skip("no %s (Debian: prometheus)" % program)
    return Watched().start()


def as_shipped(world, proxy):
    """contrib/prometheus/prometheus.yaml for that proxy, with the pair of this world's CA that docs/operate.md makes."""
    with open(os.path.join(fixture.TREE, "docs", "operate.md"), encoding="utf-8") as page:
        command = re.search(r"^```sh step=monitoring\n(.*?)^```", page.read(), re.M | re.S).group(1)
    for file, path in (("ca.crt", world.certs.crt("ca")), ("ca.key", world.certs.key("ca"))):
        command = command.replace("/etc/kubernetes/pki/" + file, path)
    subprocess.run(["sh", "-ec", command], cwd=world.scratch, check=True, capture_output=True, timeout=PATIENCE)
    with open(os.path.join(FOLDER, "prometheus.yaml"), encoding="utf-8") as shipped:
        job = safe_load(shipped)["scrape_configs"][0]
    equal({os.path.basename(job["tls_config"][name]) for name in ("cert_file", "key_file")}, {"monitoring.crt", "monitoring.key"}, "its pair")
    job["tls_config"].update(ca_file=world.certs.crt("ca"), cert_file=os.path.join(world.scratch, "monitoring.crt"),
                             key_file=os.path.join(world.scratch, "monitoring.key"))
    job["static_configs"] = [{"targets": [proxy.admin.replace("0.0.0.0", "127.0.0.1")]}]
    return job


def traffic(world):
    """Something of each kind, a part of it answered by the peer."""
    for node in world.proxies:
        with world.client(node, "admin") as client:
            for path in ("/api/v1/namespaces", PEERS, "/version", "/apis/nobody.has.it/v1/things"):
                client.ask("GET", path)
            for accept in ("", ";profile=nopeer"):
                client.ask("GET", "/apis", headers={"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList" + accept})


def dashboard():
    with open(os.path.join(FOLDER, "mvproxy.dashboard.json"), encoding="utf-8") as board:
        return json.load(board)


def targets():
    """(panel, expression, legend) of the dashboard, as Grafana would send them."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            text = target["expr"].replace("$__rate_interval", "20s").replace("$job", "mvproxy").replace("$instance", ".*")
            check("$" not in text, text)
            yield panel["title"], text, target.get("legendFormat") or ""


def queries():
    return [(panel, text) for panel, text, _ in targets()]


def test_scraped(world):
    """both are scraped, compressed, without a complaint"""
    until(lambda: len(world.prometheus.query('up{job="mvproxy"} == 1')) == len(world.proxies), "the first scrapes", patience=120)


def test_dashboard(world):
    """every query of the dashboard succeeds, and has data where there was traffic"""
    found = list(queries())
    check(len(found) > 30, len(found))

    def empty():
        traffic(world)
        missing = [q for q in found if not world.prometheus.query(q[1])]
        return [q for q in missing if not any(name in q[1] for name in QUIET)]

    last = []
    try:
        until(lambda: not last.append(empty()) and not last[-1], "data for each panel", patience=120, pause=0.5)
    except Failure as error:
        raise Failure("no data: %s" % last[-1:]) from error
    for what, text in found:
        for sample in world.prometheus.query(text):
            check(sample["value"][1] != "NaN" or "histogram_quantile" in text, what, sample)


SCHEMA = """import type { Dashboard } from "%s/@grafana/schema/dist/types/index";
// JSON has the values of enums, not their members.
type Plain<T> = T extends string ? `${T}` : T extends (infer U)[] ? Plain<U>[] : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
export const board: Plain<Dashboard> = %s;
"""


def test_schema(world):
    """the dashboard is what Grafana's own schema says that one is: @grafana/schema, judged by the TypeScript compiler"""
    parts = subprocess.run([os.path.join(fixture.TREE, "contrib", "lib", "build-node-parts"), "--built"], capture_output=True, text=True, check=False)
    if parts.returncode != 0:
        raise Skip("contrib/lib/build-node-parts was not run")
    modules = parts.stdout.strip()

    def judged(board):
        project = os.path.join(world.scratch, "tsconfig.json")
        with open(os.path.join(world.scratch, "board.ts"), "w", encoding="utf-8") as out:
            out.write(SCHEMA % (modules, json.dumps(board, indent=1)))
        with open(project, "w", encoding="utf-8") as out:
            json.dump({"files": ["board.ts"], "compilerOptions": {"noEmit": True, "strict": True, "skipLibCheck": True, "types": [],
                                                                  "module": "esnext", "moduleResolution": "bundler"}}, out)
        told = subprocess.run(["node", os.path.join(modules, "typescript", "bin", "tsc"), "--project", project], capture_output=True, text=True, check=False)
        check((told.returncode == 0) == (told.stdout + told.stderr == ""), "the compiler", told)
        return told.stdout + told.stderr

    with open(os.path.join(FOLDER, "mvproxy.dashboard.json"), encoding="utf-8") as file:
        board = json.load(file)
    equal(judged(board), "", "what the schema has against it")
    board["panels"][1]["gridPos"]["w"] = "4"
    board["panels"][2]["nonsense"] = 1
    told = judged(board)
    check("not assignable to type 'number'" in told and '"nonsense"' in told, "and mistakes are found", told)


def test_servers_join(world):
    """mvproxy_server_info joins with every family that names a server"""
    joined = world.prometheus.query("mvproxy_discovery_age_seconds * on (instance, server) group_left (version, address) mvproxy_server_info")
    names = {(s["metric"]["server"], s["metric"].get("version")) for s in joined}
    equal(names, {("test-server-a", "v1.33.0"), ("test-server-b", "v1.34.0")}, "joined")


def test_rules(world):
    """the alerts are evaluated without an error, and none fires"""
    def evaluated():
        rules = [r for g in world.prometheus.ask("rules")["groups"] for r in g["rules"]]
        return rules and all(r["health"] != "unknown" for r in rules) and rules

    rules = until(evaluated, "every rule to be evaluated", patience=120)
    equal([(r["name"], r.get("lastError")) for r in rules if r["health"] != "ok"], [], "failed rules")
    equal([a["labels"] for a in world.prometheus.ask("alerts")["alerts"] if a["state"] == "firing"], [], "alerts")


def test_exposition(world):
    """promtool finds nothing wrong with the exposition"""
    text = world.proxies["a"].get("/metrics")[1]
    told = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    equal([line for line in (told.stdout + told.stderr).splitlines() if not UPSTREAM.match(line)], [], "promtool check metrics")


def series(proxy):
    """({series: value}, {family: kind})"""
    values, kinds = {}, {}
    for line in proxy.get("/metrics")[1].splitlines():
        if line.startswith("# TYPE "):
            kinds[line.split()[2]] = line.split()[3]
        elif not line.startswith("#"):
            name, labels, value = SAMPLE.match(line).groups()
            values[name, labels or "{}"] = float(value)
    return values, kinds


def an_hour(rounds, kinds, now):
    """What was seen in some rounds, drawn out to an hour: gauges come again and again, counters go on as they went."""
    for (name, labels), last in rounds[-1].items():
        seen = [r.get((name, labels), 0) for r in rounds]
        if name == "mvproxy_certificate_not_after_seconds":
            seen = [value - now for value in seen]  # the hour begins at 0
        kind = kinds.get(name) or kinds.get(re.sub("_(bucket|sum|count)$", "", name))
        if kind == "gauge":
            values = " ".join("%r" % seen[i % len(seen)] for i in range(61))
        else:
            values = "%r+%rx60" % (last, max(last - seen[0], 0))
        yield {"series": name + (labels[:-1] + "," if labels != "{}" else "{") + 'job="mvproxy",instance="a"}', "values": values}


def test_healthy_hour(world):
    """an hour like the last moments, evaluated by promtool minute by minute: no alert fires"""
    rounds = []
    for _ in range(5):
        traffic(world)
        values, kinds = series(world.proxies["a"])
        rounds.append(values)
    with open(os.path.join(FOLDER, "mvproxy.rules.yaml"), encoding="utf-8") as rules:
        alerts = [name for name in re.findall(r"- alert: (\w+)", rules.read()) if name not in TIMED]
    check(len(alerts) > 10, alerts)
    up = {"series": 'up{job="mvproxy",instance="a"}', "values": "1x60"}
    recorded = [up, *an_hour(rounds, kinds, fixture.time.time())]
    test = {"rule_files": [os.path.join(FOLDER, "mvproxy.rules.yaml")], "evaluation_interval": "1m", "tests": [
        {"interval": "1m", "input_series": recorded, "alert_rule_test": [
            {"eval_time": "%dm" % minute, "alertname": alert, "exp_alerts": []} for alert in alerts for minute in range(5, 61, 5)]}]}
    path = os.path.join(world.scratch, "hour.json")

    def judged():
        with open(path, "w", encoding="utf-8") as out:
            out.write(yaml(test))
        return subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, check=False)

    told = judged()
    equal(told.returncode, 0, told.stdout[-2000:] + told.stderr[-2000:])
    up["values"] = "1x20 0x40"  # and if it is no healthy one, it is noticed
    told = judged()
    check(told.returncode == 1 and "MvproxyDown" in told.stdout + told.stderr, told)


def unlike(world, expression, legend):
    """What of an expression Prometheus knows nothing of: a selector without series, a label to sum by or to show that its series have not."""
    named = set(re.findall(r"\w+", " ".join(re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)))) | set(re.findall(r"\{\{(\w+)\}\}", legend))
    selectors = SELECTOR.findall(expression)
    check(selectors, "no selector in", expression)
    for selector in selectors:
        seen = world.prometheus.query(selector)
        if not seen:
            yield "no series: " + selector
        for name in named - {"le"}:
            if seen and not any(name in s["metric"] for s in seen):
                yield "no label %s: %s" % (name, selector)


def test_selectors(world):
    """each selector of dashboard and alerts, also those behind "or vector(0)" and of what goes wrong, has series with the labels that are named"""
    with open(os.path.join(FOLDER, "mvproxy.rules.yaml"), encoding="utf-8") as rules:
        alerts = [(r["expr"], " ".join(re.findall(r"\{\{ *\$labels\.\w+ *\}\}", str(r["annotations"]))).replace("$labels.", "").replace(" ", ""))
                  for g in safe_load(rules)["groups"] for r in g["rules"]]
    asked = [(text, legend) for _, text, legend in targets()] + [(text, legend) for text, legend in alerts]
    equal(list(unlike(world, 'sum by (nonsense) (rate(mvproxy_peers{job="mvproxy"}[5m]))', "{{state}}")),
          ['no label nonsense: mvproxy_peers{job="mvproxy"}'], "a wrong label is found")

    a, b = world.proxies["a"], world.proxies["b"]
    b.stop()  # nobody answers there
    until(lambda: world.ask("GET", PEERS).status == 503 and a.metric("apiserver_peer_proxy_errors_total", type="proxy_transport"), "an error on the way to it")
    b.start()
    until(b.ready, "it to be back")

    def missing():
        traffic(world)
        with fixture.killed(world, "b"):  # the peer does not answer, then the local server
            world.ask("GET", PEERS)
        with fixture.killed(world, "a"):
            world.ask("GET", "/api/v1/namespaces")
        left = [fault for text, legend in asked for fault in unlike(world, text, legend)]
        return [fault for fault in left if not any(name in fault for name in UNCONFIGURED)]

    last = []
    try:
        until(lambda: not last.append(missing()) and not last[-1], "series for each selector", patience=120, pause=0.5)
    except Failure as error:
        raise Failure("%s" % sorted(set(last[-1]))) from error


def probed(world):
    """The exit statuses of the liveness and the readiness probe of contrib/kubeadm's static pod, asking a's mvproxy."""
    with open(os.path.join(fixture.TREE, "contrib", "kubeadm", "mvproxy-static-pod.yaml"), encoding="utf-8") as manifest:
        container = safe_load(manifest)["spec"]["containers"][0]
    statuses = []
    for probe in ("livenessProbe", "readinessProbe"):
        command = container[probe]["exec"]["command"]
        equal(command[0], "/usr/bin/mvproxyctl", "it is in the image")
        statuses.append(fixture.ctl(world, *command[1:])[0])
    return statuses


def test_elsewhere(world):
    """the admin listener where others reach it: the shipped scrape configuration has its metrics, with the pair that the guide
    makes, and the static pod's probes say what there is to say"""
    a = world.proxies["a"]
    before = a.options["admin-bind-address"]
    a.stop()
    a.options["admin-bind-address"] = "0.0.0.0:%d" % free_port()
    a.start(ready=False)
    until(lambda: probed(world) == [0, 0], "it to be ready")
    other = Prometheus(world.scratch, as_shipped(world, a), "prometheus-elsewhere")
    other.spawn()
    try:
        until(lambda: len(other.query('up{job="mvproxy"} == 1')) == 1, "the first scrape", patience=120)
        check(other.query("mvproxy_ready == 1"), "metrics")
    finally:
        other.destroy()
    world.sim.stop_server("a")
    until(lambda: probed(world) == [0, 1], "it to be alive and not ready")
    a.stop()
    equal(probed(world), [2, 2], "when it is gone")
    a.options["admin-bind-address"] = before
    world.sim.start_server("a")
    a.start()


if __name__ == "__main__":
    fixture.main(globals())
