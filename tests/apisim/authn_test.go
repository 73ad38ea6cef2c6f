// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"reflect"
	"testing"
)

// The answers to "who am I" for each connection and each set of headers; "" is a 401.
func TestWho(t *testing.T) {
	w := newWorld(t, serverConfig{Name: "a"}, serverConfig{Name: "strict", NoAnonymous: true})
	const tok, bad, remote = "Authorization: Bearer good", "Authorization: Bearer bad", "X-Remote-User: carol"
	for _, row := range []struct {
		server, cert string
		headers      []string
		want         string
	}{
		{"a", "", nil, "system:anonymous"},
		{"a", "", []string{tok}, "bob"},
		{"a", "", []string{"Authorization: bearer good"}, "bob"},
		{"a", "", []string{bad}, ""},
		{"a", "", []string{"Authorization: Basic Zm9v"}, "system:anonymous"},
		{"a", "", []string{remote}, "system:anonymous"},
		{"strict", "", nil, ""},
		{"strict", "", []string{tok}, "bob"},
		{"a", "alice", nil, "alice"},
		{"a", "alice", []string{tok}, "alice"},
		{"a", "alice", []string{bad}, "alice"},
		{"a", "alice", []string{remote}, "alice"},
		{"a", "wrong-eku", nil, ""},
		{"a", "wrong-eku", []string{tok}, "bob"},
		{"a", "foreign", nil, ""},
		{"a", "foreign", []string{tok}, "bob"},
		{"a", "proxy", []string{remote}, "carol"},
		{"a", "proxy", []string{remote, tok}, "carol"},
		{"a", "proxy", []string{tok}, "bob"},
		{"a", "proxy", []string{bad}, ""},
		{"a", "proxy", nil, ""},
		{"a", "proxy", []string{"X-Remote-User: "}, ""},
		{"a", "other", []string{remote}, ""},
		{"a", "other", []string{remote, tok}, "bob"},
		{"a", "proxy", []string{"X-Remote-User: system:anonymous", "X-Remote-Group: system:unauthenticated"}, "system:anonymous"},
	} {
		r, body := w.ask(w.as(row.cert, false), "GET", w.url(row.server, "/sim/whoami"), "", row.headers...)
		if row.want == "" {
			o := w.want(401, r, body)
			if o["reason"] != "Unauthorized" || o["kind"] != "Status" {
				t.Errorf("%+v: %s", row, body)
			}
			continue
		}
		o := w.want(200, r, body)
		if got := text(o, "user", "username"); got != row.want {
			t.Errorf("%+v: %s", row, got)
		}
		for name := range o["headers"].(object) {
			if name == "Authorization" || hasPrefixFold(name, "X-Remote-") {
				t.Errorf("%+v: %s was not removed", row, name)
			}
		}
	}
}

// A front proxy of the same CA as the users: without a user header it is a user itself.
func TestSharedCA(t *testing.T) {
	w := newWorld(t, serverConfig{Name: "a"})
	cfg := w.sim.server("a").cfg
	cfg.Name, cfg.Listen, cfg.ProxyCA = "b", "127.0.0.1:0", cfg.ClientCA
	if err := w.sim.add(cfg); err != nil {
		t.Fatal(err)
	}
	proxy := w.as("proxy-by-ca", false)
	for _, row := range []struct {
		cert *http.Client
		head []string
		want string
	}{
		{proxy, nil, "front-proxy-client"},
		{proxy, []string{"Authorization: Bearer good"}, "front-proxy-client"},
		{proxy, []string{"X-Remote-User: carol"}, "carol"},
		{w.as("alice", false), []string{"X-Remote-User: carol"}, "alice"},
	} {
		r, body := w.ask(row.cert, "GET", w.url("b", "/sim/whoami"), "", row.head...)
		if got := text(w.want(200, r, body), "user", "username"); got != row.want {
			t.Errorf("%v: %s, wanted %s", row.head, got, row.want)
		}
	}
}

func TestUserDetails(t *testing.T) {
	w := newWorld(t, serverConfig{Name: "a", UIDHeaders: []string{"X-Remote-Uid"}})
	who := func(cert string, headers ...string) user {
		r, body := w.ask(w.as(cert, false), "GET", w.url("a", "/sim/whoami"), "", headers...)
		o := w.want(200, r, body)
		var out struct{ User user }
		if err := decodeJSON(mustJSON(o), &out); err != nil {
			t.Fatal(err)
		}
		return out.User
	}
	u := who("proxy", "X-Remote-User: carol", "X-Remote-Group: a,b", "X-Remote-Group: c", "X-Remote-Uid: 7",
		"X-Remote-Extra-acme.com%2Fx%25y: 1", "X-Remote-Extra-Acme.com%2Fx%25y: 2")
	if !reflect.DeepEqual(u.Groups, []string{"a,b", "c", "system:authenticated"}) || u.UID != "7" ||
		len(u.Extra["acme.com/x%y"]) != 2 {
		t.Errorf("%+v", u)
	}
	if u = who("alice"); len(u.Groups) != 3 || !contains(u.Groups, "dev") || !contains(u.Groups, "qa") ||
		len(u.Extra[credentialID]) != 1 {
		t.Errorf("%+v", u)
	}
	if u = who("", "Authorization: Bearer good"); u.UID != "42" || len(u.Groups) != 3 {
		t.Errorf("%+v", u)
	}
	if u = who("admin", "Impersonate-User: dave", "Impersonate-Group: g"); u.Name != "dave" || u.Groups[0] != "g" {
		t.Errorf("%+v", u)
	}
	r, body := w.ask(w.as("alice", false), "GET", w.url("a", "/sim/whoami"), "", "Impersonate-User: dave")
	w.want(403, r, body)
}

func TestAuthorization(t *testing.T) {
	w := newWorld(t)
	w.sim.rules = []rule{{Users: []string{"alice"}, Verbs: []string{"get", "list"}, APIGroups: []string{""},
		Resources: []string{"pods"}, Namespace: "default"}}
	alice, nobody := w.as("alice", false), w.as("", false)
	for _, row := range []struct {
		c            *http.Client
		method, path string
		status       int
		message      string
	}{
		{alice, "GET", "/apis", 200, ""},
		{alice, "GET", "/api/v1/namespaces/default/pods", 200, ""},
		{alice, "GET", "/api/v1/namespaces/kube-system/pods", 403,
			`pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "kube-system"`},
		{alice, "DELETE", "/apis/apps/v1/namespaces/default/deployments/x", 403,
			`deployments.apps "x" is forbidden: User "alice" cannot delete resource "deployments" in API group "apps" in the namespace "default"`},
		{alice, "GET", "/apis/nobody.has/v1/things", 403,
			`things.nobody.has is forbidden: User "alice" cannot list resource "things" in API group "nobody.has" at the cluster scope`},
		{alice, "GET", "/metrics", 403, `forbidden: User "alice" cannot get path "/metrics"`},
		{nobody, "GET", "/healthz", 200, ""},
		{nobody, "GET", "/version", 200, ""},
		{nobody, "GET", "/apis", 403, `forbidden: User "system:anonymous" cannot get path "/apis"`},
	} {
		r, body := w.ask(row.c, row.method, w.url("a", row.path), "")
		o := w.want(row.status, r, body)
		if row.message != "" && (o["message"] != row.message || o["reason"] != "Forbidden") {
			t.Errorf("%s: %s", row.path, body)
		}
		if r.Header.Get("Audit-Id") == "" || r.Header.Get("Cache-Control") == "" {
			t.Errorf("%s: headers %v", row.path, r.Header)
		}
	}
	r, body := w.ask(alice, "POST", w.url("a", "/apis/authentication.k8s.io/v1/selfsubjectreviews"), "{}")
	if got := text(w.want(201, r, body), "status", "userInfo", "username"); got != "alice" {
		t.Errorf("who: %s", body)
	}
}

// Over HTTP/2 an anonymous request costs the connection.
func TestAnonymousHTTP2(t *testing.T) {
	w := newWorld(t)
	c := w.as("", true)
	for i := 0; i < 2; i++ {
		r, body := w.ask(c, "GET", w.url("a", "/healthz"), "")
		w.want(200, r, body)
		if r.ProtoMajor != 2 {
			t.Fatalf("%s", r.Proto)
		}
	}
	list := w.sim.records.since(0, func(*record) bool { return true })
	if len(list) != 2 || list[0].Conn == list[1].Conn {
		t.Errorf("one connection for both: %+v", list)
	}
}
