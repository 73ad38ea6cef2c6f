// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
)

const acceptV2 = "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
const acceptAll = acceptV2 + ",application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"

func TestDiscoveryForms(t *testing.T) {
	w := newWorld(t, serverConfig{Name: "24", Profile: "v1.24"}, serverConfig{Name: "28", Profile: "v1.28"},
		serverConfig{Name: "31", Profile: "v1.31"}, serverConfig{Name: "33", Profile: "v1.33"},
		serverConfig{Name: "33b", Profile: "v1.33", V2Beta1: true}, serverConfig{Name: "36", Profile: "v1.36"})
	admin := w.as("admin", false)
	const suffix = ";as=APIGroupDiscoveryList"
	for server, want := range map[string][2]string{
		"24":  {"application/json", "application/json"},
		"28":  {"application/json;g=apidiscovery.k8s.io;v=v2beta1" + suffix, "application/json"},
		"31":  {"application/json;g=apidiscovery.k8s.io;v=v2" + suffix, "application/json;g=apidiscovery.k8s.io;v=v2" + suffix},
		"33":  {"application/json;g=apidiscovery.k8s.io;v=v2" + suffix, "application/json;g=apidiscovery.k8s.io;v=v2" + suffix},
		"33b": {"application/json;g=apidiscovery.k8s.io;v=v2" + suffix, "application/json;g=apidiscovery.k8s.io;v=v2" + suffix},
		"36":  {"application/json;g=apidiscovery.k8s.io;v=v2" + suffix, "application/json;g=apidiscovery.k8s.io;v=v2" + suffix},
	} {
		for _, path := range []string{"/api", "/apis"} {
			for i, accept := range []string{acceptAll, acceptV2} {
				r, body := w.ask(admin, "GET", w.url(server, path), "", accept)
				w.want(200, r, body)
				if got := r.Header.Get("Content-Type"); got != want[i] {
					t.Errorf("%s %s %d: %s, wanted %s", server, path, i, got, want[i])
				}
				aggregated := strings.Contains(want[i], suffix)
				if aggregated != (r.Header.Get("ETag") != "") || aggregated != (r.Header.Get("Cache-Control") == "public") ||
					aggregated != (r.Header.Get("Vary") == "Accept") {
					t.Errorf("%s %s: %v", server, path, r.Header)
				}
				if bytes.Contains(body, []byte("creationTimestamp")) != (aggregated && server != "36") {
					t.Errorf("%s %s: creationTimestamp", server, path)
				}
			}
		}
		r, body := w.ask(admin, "GET", w.url(server, "/apis/"), "", acceptAll)
		if o := w.want(200, r, body); o["kind"] != "APIGroupList" {
			t.Errorf("%s: /apis/ is %v", server, o["kind"])
		}
	}
}

func TestConditionalAndCompressed(t *testing.T) {
	var extra []apiRow
	for i := 0; i < 700; i++ {
		extra = append(extra, apiRow{Group: "many.example.com", Version: "v1", Resource: fmt.Sprintf("things%d", i), Kind: "Thing"})
	}
	w := newWorld(t, serverConfig{Name: "a"}, serverConfig{Name: "big", Extra: extra})
	admin := w.as("admin", false)
	r, body := w.ask(admin, "GET", w.url("a", "/apis"), "", acceptV2)
	w.want(200, r, body)
	tag := r.Header.Get("ETag")
	if len(tag) != 130 || strings.ToUpper(tag) != tag || tag[0] != '"' {
		t.Fatalf("ETag %q", tag)
	}
	var list discoveryList
	if err := json.Unmarshal(body, &struct{ Items interface{} }{}); err != nil {
		t.Fatal(err)
	}
	_ = list
	r, body = w.ask(admin, "GET", w.url("a", "/apis"), "", acceptV2, "If-None-Match: "+tag)
	if r.StatusCode != 304 || len(body) != 0 || r.Header.Get("ETag") != tag || r.Header.Get("Vary") != "Accept" {
		t.Errorf("%d %v", r.StatusCode, r.Header)
	}
	for _, other := range []string{"W/" + tag, tag + ", " + tag, "*", `"x"`} {
		if r, _ := w.ask(admin, "GET", w.url("a", "/apis"), "", acceptV2, "If-None-Match: "+other); r.StatusCode != 200 {
			t.Errorf("%s: %d", other, r.StatusCode)
		}
	}
	if r, _ := w.ask(admin, "GET", w.url("a", "/apis"), "", acceptV2, "Accept-Encoding: gzip"); r.Header.Get("Content-Encoding") != "" {
		t.Error("a small document was compressed")
	}
	r, body = w.ask(admin, "GET", w.url("big", "/apis"), "", acceptV2, "Accept-Encoding: deflate, gzip")
	if r.Header.Get("Content-Encoding") != "gzip" || len(r.Header.Values("Vary")) != 2 {
		t.Fatalf("%v", r.Header)
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	plain, _ := io.ReadAll(z)
	r, body = w.ask(admin, "GET", w.url("big", "/apis"), "", acceptV2, "Accept-Encoding: gzip;q=1.0")
	if r.Header.Get("Content-Encoding") != "" || !bytes.Equal(plain, body) {
		t.Error("gzip;q=1.0 does not count as gzip")
	}
	if tag == r.Header.Get("ETag") {
		t.Error("different documents, one ETag")
	}
}

func TestSkewAndNotFound(t *testing.T) {
	w := newWorld(t, serverConfig{Name: "a", Profile: "v1.33"}, serverConfig{Name: "b", Profile: "v1.34"})
	admin := w.as("admin", false)
	const classes = "/apis/resource.k8s.io/v1/deviceclasses"
	r, body := w.ask(admin, "POST", w.url("b", classes), `{"metadata":{"name":"x"}}`)
	w.want(201, r, body)
	r, body = w.ask(admin, "GET", w.url("a", classes+"/x"), "")
	if r.StatusCode != 404 || string(body) != "404 page not found\n" || r.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%d %s", r.StatusCode, body)
	}
	for path, message := range map[string]string{
		"/api/v1/nothings":                         "the server could not find the requested resource",
		"/api/v1/namespaces/default/pods/p/wings":  "the server could not find the requested resource",
		"/apis/apps/v1/namespaces/n/deployments/d": `deployments.apps "d" not found`,
	} {
		r, body := w.ask(admin, "GET", w.url("a", path), "")
		if o := w.want(404, r, body); o["message"] != message || o["reason"] != "NotFound" {
			t.Errorf("%s: %s", path, body)
		}
	}
	r, body = w.ask(admin, "PUT", w.url("a", "/api/v1/componentstatuses/x"), "{}")
	w.want(405, r, body)
	r, body = w.ask(admin, "POST", w.url("b", "/apis/resource.k8s.io/v1"), "{}")
	w.want(405, r, body)
	if r, body = w.ask(admin, "POST", w.url("a", "/apis/resource.k8s.io/v1"), "{}"); r.StatusCode != 404 {
		t.Errorf("%d %s", r.StatusCode, body)
	}
	// The old server's legacy /apis names the new group, whose version it cannot serve.
	r, body = w.ask(admin, "GET", w.url("a", "/apis"), "")
	if w.want(200, r, body); !strings.Contains(string(body), "resource.k8s.io/v1") {
		t.Error("legacy /apis does not follow the APIService objects")
	}
	r, body = w.ask(admin, "GET", w.url("a", "/apis/resource.k8s.io/v1"), "")
	w.want(404, r, body)
	r, body = w.ask(admin, "GET", w.url("b", "/apis/resource.k8s.io/v1"), "")
	w.want(200, r, body)
	r, body = w.ask(admin, "GET", w.url("a", "/apis"), "", acceptV2)
	if strings.Contains(string(body), "resource.k8s.io") {
		t.Error("the aggregated document holds what the server lacks")
	}
}

func TestCRDsAndServices(t *testing.T) {
	w := newWorld(t, serverConfig{Name: "a", Profile: "v1.33"}, serverConfig{Name: "b", Profile: "v1.34"})
	admin := w.as("admin", false)
	crd := `{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
	 "names":{"plural":"widgets","kind":"Widget","shortNames":["wd"]},
	 "versions":[{"name":"v1","served":true,"subresources":{"status":{}}},{"name":"v1beta1","served":false}]}}`
	r, body := w.ask(admin, "POST", w.url("a", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"), crd)
	w.want(201, r, body)
	service := `{"metadata":{"name":"v1.metrics.example.com"},"spec":{"group":"metrics.example.com","version":"v1",
	 "groupPriorityMinimum":100,"service":{"name":"m","namespace":"default"}}}`
	r, body = w.ask(admin, "POST", w.url("b", "/apis/apiregistration.k8s.io/v1/apiservices"), service)
	w.want(201, r, body)
	for _, server := range []string{"a", "b"} {
		r, body = w.ask(admin, "POST", w.url(server, "/apis/example.com/v1/namespaces/default/widgets"),
			`{"metadata":{"name":"`+server+`"}}`)
		w.want(201, r, body)
		_, body = w.ask(admin, "GET", w.url(server, "/apis"), "", acceptV2)
		for _, part := range []string{`"name":"example.com"`, `"resource":"widgets"`, `"freshness":"Stale"`} {
			if !strings.Contains(string(body), part) {
				t.Errorf("%s: no %s in /apis", server, part)
			}
		}
	}
	r, body = w.ask(admin, "GET", w.url("a", "/apis/example.com/v1beta1/namespaces/default/widgets"), "")
	w.want(404, r, body)
	r, body = w.ask(admin, "DELETE", w.url("b", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"), "")
	w.want(200, r, body)
	r, body = w.ask(admin, "GET", w.url("a", "/apis/example.com/v1/namespaces/default/widgets"), "")
	w.want(404, r, body)
}

func TestRuntimeConfig(t *testing.T) {
	w := newWorld(t, serverConfig{Name: "a", RuntimeConfig: []string{"batch/v1=false", "v1/pods/resize=false",
		"apps/v1/deployments:deletecollection=false", "apps/v1/daemonsets=false"}})
	admin := w.as("admin", false)
	for _, row := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/apis/batch/v1/jobs", 404},
		{"GET", "/apis/apps/v1/daemonsets", 404},
		{"DELETE", "/apis/apps/v1/namespaces/default/deployments", 405},
		{"PATCH", "/api/v1/namespaces/default/pods/p/resize", 404},
		{"GET", "/apis/apps/v1/deployments", 200},
	} {
		r, body := w.ask(admin, row.method, w.url("a", row.path), "")
		w.want(row.status, r, body)
	}
	if err := w.sim.server("a").switchAPIs(nil, nil); err != nil {
		t.Fatal(err)
	}
	r, body := w.ask(admin, "GET", w.url("a", "/apis/batch/v1/jobs"), "")
	w.want(200, r, body)
}

func TestProtobufDocument(t *testing.T) {
	w := newWorld(t)
	r, body := w.ask(w.as("admin", false), "GET", w.url("a", "/apis"), "", strings.Replace(acceptV2, "json", "vnd.kubernetes.protobuf", 1))
	w.want(200, r, body)
	if !bytes.HasPrefix(body, []byte("k8s\x00\x0a")) || !bytes.Contains(body, []byte("deviceclasses")) {
		t.Errorf("%q", body[:40])
	}
	if want := "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"; r.Header.Get("Content-Type") != want {
		t.Errorf("%s", r.Header.Get("Content-Type"))
	}
}
