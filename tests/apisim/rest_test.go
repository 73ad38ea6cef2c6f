// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const maps = "/api/v1/namespaces/default/configmaps"

func TestCRUD(t *testing.T) {
	w := newWorld(t)
	admin := w.as("admin", false)
	do := func(status int, method, path, body string, headers ...string) object {
		t.Helper()
		r, out := w.ask(admin, method, w.url("a", path), body, headers...)
		return w.want(status, r, out)
	}
	o := do(201, "POST", maps, `{"metadata":{"name":"x","labels":{"k":"v"}},"data":{"a":"1"}}`)
	if metaString(o, "uid") == "" || o["kind"] != "ConfigMap" || o["apiVersion"] != "v1" {
		t.Errorf("%v", o)
	}
	if o := do(409, "POST", maps, `{"metadata":{"name":"x"}}`); o["reason"] != "AlreadyExists" {
		t.Errorf("%v", o)
	}
	do(404, "POST", "/api/v1/namespaces/nowhere/configmaps", `{"metadata":{"name":"x"}}`)
	do(422, "POST", maps, `{"metadata":{}}`)
	do(400, "POST", maps, `{"metadata":`)
	do(415, "POST", maps, `x`, "Content-Type: text/plain")
	do(406, "GET", maps, ``, "Accept: application/vnd.kubernetes.protobuf")
	if o := do(201, "POST", maps, `{"metadata":{"generateName":"g-"}}`); !strings.HasPrefix(metaString(o, "name"), "g-") {
		t.Errorf("%v", o)
	}
	old := metaString(o, "resourceVersion")
	o = do(200, "PATCH", maps+"/x", `{"data":{"a":"2","b":"3"}}`, "Content-Type: application/merge-patch+json")
	if text(o, "data", "a") != "2" || metaString(o, "resourceVersion") == old {
		t.Errorf("%v", o)
	}
	if o := do(409, "PUT", maps+"/x", `{"metadata":{"name":"x","resourceVersion":"`+old+`"}}`); o["reason"] != "Conflict" {
		t.Errorf("%v", o)
	}
	do(200, "PUT", maps+"/x", `{"metadata":{"name":"x"},"data":{"c":"4"}}`)
	if o := do(200, "GET", maps+"/x", ""); text(o, "data", "c") != "4" || text(o, "data", "a") != "" {
		t.Errorf("%v", o)
	}
	if o := do(200, "GET", maps+"?labelSelector=k%3Dv", ""); len(o["items"].([]interface{})) != 0 {
		t.Errorf("the update dropped the label: %v", o)
	}
	if o := do(200, "GET", "/api/v1/configmaps?fieldSelector=metadata.name%3Dx", ""); len(o["items"].([]interface{})) != 1 {
		t.Errorf("%v", o)
	}
	do(409, "DELETE", maps+"/x", `{"preconditions":{"uid":"wrong"}}`)
	if o := do(200, "DELETE", maps+"/x", ""); o["status"] != "Success" || text(o, "details", "kind") != "configmaps" {
		t.Errorf("%v", o)
	}
	do(404, "GET", maps+"/x", "")
	do(200, "DELETE", maps, "")
	if o := do(200, "GET", maps, ""); len(o["items"].([]interface{})) != 0 {
		t.Errorf("%v", o)
	}
	do(413, "POST", maps, `{"metadata":{"name":"x"},"data":{"a":"`+strings.Repeat("x", bodyLimit)+`"}}`)
}

func TestStatusAndFinalizers(t *testing.T) {
	w := newWorld(t)
	admin := w.as("admin", false)
	const path = "/apis/batch/v1/namespaces/default/jobs"
	do := func(status int, method, path, body string) object {
		t.Helper()
		r, out := w.ask(admin, method, w.url("a", path), body, "Content-Type: application/merge-patch+json")
		return w.want(status, r, out)
	}
	r, out := w.ask(admin, "POST", w.url("a", path), `{"metadata":{"name":"j","finalizers":["f/x"]},"spec":{"n":1}}`)
	w.want(201, r, out)
	do(200, "PATCH", path+"/j/status", `{"status":{"active":1},"spec":{"n":2}}`)
	o := do(200, "GET", path+"/j", "")
	if fmt.Sprint(o["spec"]) != "map[n:1]" || fmt.Sprint(o["status"]) != "map[active:1]" {
		t.Errorf("%v", o)
	}
	if o := do(200, "DELETE", path+"/j", ""); metaString(o, "deletionTimestamp") == "" {
		t.Errorf("%v", o)
	}
	do(200, "GET", path+"/j", "")
	do(200, "PATCH", path+"/j", `{"metadata":{"finalizers":null}}`)
	do(404, "GET", path+"/j", "")
}

func TestWatch(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		w := newWorld(t, serverConfig{Name: "a", Profile: "v1.33"}, serverConfig{Name: "b"})
		admin := w.as("admin", h2)
		post := func(server, name, labels string) {
			t.Helper()
			r, out := w.ask(admin, "POST", w.url(server, maps), `{"metadata":{"name":"`+name+`","labels":{`+labels+`}}}`)
			w.want(201, r, out)
		}
		post("a", "one", "")
		all := w.watch(admin, w.url("a", maps+"?watch=true"))
		all.expect("ADDED", "one")
		rv := fmt.Sprint(w.sim.store.version())
		resumed := w.watch(admin, w.url("b", "/api/v1/configmaps?watch=1&resourceVersion="+rv))
		labelled := w.watch(admin, w.url("a", "/api/v1/watch/namespaces/default/configmaps?labelSelector=a%3D1"))
		post("b", "two", `"a":"1"`) // through one server, seen at all
		for _, f := range []*frames{all, resumed, labelled} {
			f.expect("ADDED", "two")
		}
		r, out := w.ask(admin, "PATCH", w.url("a", maps+"/two"), `{"metadata":{"labels":{"a":"2"}}}`, "Content-Type: application/merge-patch+json")
		w.want(200, r, out)
		all.expect("MODIFIED", "two")
		labelled.expect("DELETED", "two")
		r, out = w.ask(admin, "DELETE", w.url("a", maps+"/two"), "")
		w.want(200, r, out)
		resumed.expect("MODIFIED", "two")
		resumed.expect("DELETED", "two")

		short := w.watch(admin, w.url("a", maps+"?watch=1&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion="+rv))
		for kind := ""; kind != "BOOKMARK"; {
			kind, _ = short.next()
			if kind == "" {
				t.Fatal("no bookmark before the end")
			}
		}
		if kind, _ := short.next(); kind != "" {
			t.Error("frames after the end")
		}
		listed := w.watch(admin, w.url("a", maps+"?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"))
		listed.expect("ADDED", "one")
		if o := listed.expect("BOOKMARK", ""); text(o, "metadata", "annotations", "k8s.io/initial-events-end") != "true" {
			t.Errorf("%v", o)
		}
		w.sim.store.compact("/configmaps")
		if o := listed.expect("ERROR", ""); o["reason"] != "Expired" || fmt.Sprint(o["code"]) != "410" {
			t.Errorf("%v", o)
		}
		old := w.watch(admin, w.url("a", maps+"?watch=1&resourceVersion=1"))
		old.expect("ERROR", "")
		fresh := w.watch(admin, w.url("a", maps+"?watch=1"))
		fresh.expect("ADDED", "one")
		w.sim.store.endWatches("/configmaps")
		if kind, _ := fresh.next(); kind != "" {
			t.Error("the watch did not end")
		}
	}
}

func TestLeases(t *testing.T) {
	w := newWorld(t, serverConfig{Name: "24", Profile: "v1.24"}, serverConfig{Name: "33", Profile: "v1.33", LeaseInterval: duration(20 * time.Millisecond)},
		serverConfig{Name: "35", Profile: "v1.35"}, serverConfig{Name: "36", Profile: "v1.36"})
	lease := func(name string) (object, bool) {
		return w.sim.store.get(leaseGroup, "leases", leaseNamespace, serverID(name))
	}
	if _, ok := lease("24"); ok {
		t.Error("1.24 publishes no Lease")
	}
	o, ok := lease("33")
	holder := text(o, "spec", "holderIdentity")
	if !ok || !strings.HasPrefix(holder, serverID("33")+"_") || text(o, "metadata", "labels", identityLabel) != "kube-apiserver" ||
		text(o, "metadata", "annotations", addressNote) != "" {
		t.Fatalf("%v", o)
	}
	first := text(o, "spec", "renewTime")
	for i := 0; ; i++ {
		if o, _ = lease("33"); text(o, "spec", "renewTime") != first {
			break
		}
		if i > 500 {
			t.Fatal("no renewal")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if o, _ = lease("36"); text(o, "metadata", "annotations", addressNote) != w.sim.server("36").address {
		t.Errorf("%v", o)
	}
	// Killed: the Lease stays. Back: up to 1.34 with the old holder, from 1.35 with a new one.
	new35, _ := lease("35")
	for _, name := range []string{"33", "35"} {
		w.sim.server(name).end(false)
		if _, ok := lease(name); !ok {
			t.Errorf("%s: the Lease of a killed server is gone", name)
		}
		if err := w.sim.server(name).start(); err != nil {
			t.Fatal(err)
		}
	}
	if o, _ = lease("33"); text(o, "spec", "holderIdentity") != holder {
		t.Error("1.33 changed its holder")
	}
	if o, _ = lease("35"); text(o, "spec", "holderIdentity") == text(new35, "spec", "holderIdentity") {
		t.Error("1.35 kept its holder")
	}
	for _, name := range []string{"33", "35"} {
		w.sim.server(name).end(true)
	}
	if _, ok = lease("33"); !ok {
		t.Error("1.33 does not delete its Lease")
	}
	if _, ok = lease("35"); ok {
		t.Error("1.35 deletes its Lease when it stops")
	}
}

func TestKillAndRestart(t *testing.T) {
	w := newWorld(t, serverConfig{Name: "a"}, serverConfig{Name: "b"})
	admin := w.as("admin", false)
	r, out := w.ask(admin, "POST", w.url("a", maps), `{"metadata":{"name":"kept"}}`)
	w.want(201, r, out)
	watch := w.watch(admin, w.url("a", maps+"?watch=1"))
	watch.expect("ADDED", "kept")
	address := w.sim.server("a").address
	w.sim.server("a").end(false)
	if kind, _ := watch.next(); kind != "" || watch.scan.Err() == nil {
		t.Error("the watch of a killed server must break, not end")
	}
	if _, err := admin.Get(w.url("a", "/healthz")); err == nil {
		t.Error("the port is open")
	}
	r, out = w.ask(admin, "GET", w.url("b", maps+"/kept"), "")
	w.want(200, r, out)
	if err := w.sim.server("a").start(); err != nil {
		t.Fatal(err)
	}
	if w.sim.server("a").address != address {
		t.Error("another address")
	}
	r, out = w.ask(admin, "GET", w.url("a", maps+"/kept"), "")
	w.want(200, r, out)
}

func TestLogs(t *testing.T) {
	w := newWorld(t)
	admin := w.as("admin", false)
	r, out := w.ask(admin, "POST", w.url("a", "/api/v1/namespaces/default/pods"),
		`{"metadata":{"name":"p","annotations":{"sim/log-lines":"2","sim/log-follow":"2","sim/log-interval-ms":"1"}}}`)
	w.want(201, r, out)
	for query, want := range map[string]string{"": "line 1\nline 2\n", "?follow=true": "line 1\nline 2\nline 3\nline 4\n", "?tailLines=1": "line 1\n"} {
		_, out := w.ask(admin, "GET", w.url("a", "/api/v1/namespaces/default/pods/p/log"+query), "")
		if string(out) != want {
			t.Errorf("%s: %q", query, out)
		}
	}
	if r, _ := w.ask(admin, "GET", w.url("a", "/api/v1/namespaces/default/pods/p/exec"), ""); r.StatusCode != http.StatusBadRequest {
		t.Errorf("exec without upgrade: %d", r.StatusCode)
	}
}
