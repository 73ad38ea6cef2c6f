// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/url"
	"reflect"
	"testing"
)

func TestServerID(t *testing.T) {
	for host, id := range map[string]string{
		"test-server-a":      "apiserver-tcwjsvs6hjq4qbwzx5rvp5fsqe",
		"test-server-b":      "apiserver-scg43bmblmfhqplxpiyqlziyzi",
		"master-1":           "apiserver-wj467rbl25eeviqacfhvg2yvnm",
		"localhost":          "apiserver-l2yubf4cvcl5c7a3wrubrwqdve",
		"kind-control-plane": "apiserver-c7uylvfxlbqccnk6myfkwetzze",
	} {
		if got := serverID(host); got != id {
			t.Errorf("%s: %s, wanted %s", host, got, id)
		}
	}
}

func TestNegotiation(t *testing.T) {
	const v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	const beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
	both := map[string]bool{"v2": true, "v2beta1": true}
	js := "application/json"
	for _, row := range []struct {
		accept   []string
		versions map[string]bool
		want     discoveryChoice
	}{
		{nil, both, discoveryChoice{}},
		{[]string{""}, both, discoveryChoice{}},
		{[]string{"application/json"}, both, discoveryChoice{}},
		{[]string{"*/*"}, both, discoveryChoice{}},
		{[]string{v2}, both, discoveryChoice{js, "v2", ""}},
		{[]string{v2 + "," + beta + ",application/json"}, both, discoveryChoice{js, "v2", ""}},
		{[]string{v2 + "," + beta + ",application/json"}, map[string]bool{"v2beta1": true}, discoveryChoice{js, "v2beta1", ""}},
		{[]string{v2 + "," + beta + ",application/json"}, nil, discoveryChoice{}},
		// plain JSON is skipped, whatever its place and q
		{[]string{"application/json," + v2 + ";q=0.1"}, both, discoveryChoice{js, "v2", ""}},
		{[]string{beta + ";q=0.9," + v2 + ";q=0.8"}, both, discoveryChoice{js, "v2beta1", ""}},
		{[]string{beta + ";q=x," + v2 + ";q=0.8"}, both, discoveryChoice{js, "v2", ""}},
		{[]string{v2 + ";q=0"}, both, discoveryChoice{js, "v2", ""}},
		// the first line only
		{[]string{"application/json", v2}, both, discoveryChoice{}},
		{[]string{v2 + ";profile=nopeer"}, both, discoveryChoice{js, "v2", "nopeer"}},
		{[]string{v2 + "," + v2 + ";profile=nopeer"}, both, discoveryChoice{js, "v2", ""}},
		{[]string{"*/*;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}, both, discoveryChoice{js, "v2", ""}},
		{[]string{"*;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io"}, both, discoveryChoice{js, "v2", ""}},
		{[]string{"application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}, both,
			discoveryChoice{"application/vnd.kubernetes.protobuf", "v2", ""}},
		// case and quotes count; more than one = drops the parameter; two slashes drop the clause
		{[]string{"application/json;g=apidiscovery.k8s.io;v=V2;as=APIGroupDiscoveryList"}, both, discoveryChoice{}},
		{[]string{`application/json;g="apidiscovery.k8s.io";v=v2;as=APIGroupDiscoveryList`}, both, discoveryChoice{}},
		{[]string{"application/json;g=apidiscovery.k8s.io;v==v2;as=APIGroupDiscoveryList"}, both, discoveryChoice{}},
		{[]string{"application/json/x;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}, both, discoveryChoice{}},
		{[]string{"text/html;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}, both, discoveryChoice{}},
		{[]string{"application/json; g=apidiscovery.k8s.io; v=v2; as=APIGroupDiscoveryList"}, both, discoveryChoice{js, "v2", ""}},
	} {
		if got := negotiateDiscovery(row.accept, row.versions); got != row.want {
			t.Errorf("%q: %+v, wanted %+v", row.accept, got, row.want)
		}
	}
}

func TestRequestInfo(t *testing.T) {
	type want struct {
		resource                                bool
		verb, group, version, ns, kind, s, name string
	}
	for _, row := range []struct {
		method, target string
		want           want
	}{
		{"GET", "/", want{verb: "get"}},
		{"GET", "/api/v1", want{verb: "get"}},
		{"GET", "/apis/apps/v1", want{verb: "get"}},
		{"POST", "/version", want{verb: "post"}},
		{"GET", "/api/v1/pods", want{true, "list", "", "v1", "", "pods", "", ""}},
		{"GET", "/api/v1//pods", want{true, "get", "", "v1", "", "", "", "pods"}},
		{"HEAD", "/api/v1/pods", want{true, "list", "", "v1", "", "pods", "", ""}},
		{"GET", "/api/v1/pods?watch=1", want{true, "watch", "", "v1", "", "pods", "", ""}},
		{"GET", "/api/v1/pods?watch", want{true, "watch", "", "v1", "", "pods", "", ""}},
		{"GET", "/api/v1/pods?watch=false", want{true, "list", "", "v1", "", "pods", "", ""}},
		{"GET", "/api/v1/watch/pods", want{true, "watch", "", "v1", "", "pods", "", ""}},
		{"DELETE", "/apis/batch/v1/namespaces/n/jobs", want{true, "deletecollection", "batch", "v1", "n", "jobs", "", ""}},
		{"GET", "/api/v1/namespaces", want{true, "list", "", "v1", "", "namespaces", "", ""}},
		{"GET", "/api/v1/namespaces/n", want{true, "get", "", "v1", "n", "namespaces", "", "n"}},
		{"PUT", "/api/v1/namespaces/n/finalize", want{true, "update", "", "v1", "n", "namespaces", "finalize", "n"}},
		{"GET", "/api/v1/namespaces/n/pods/p/log", want{true, "get", "", "v1", "n", "pods", "log", "p"}},
		{"GET", "/api/v1/proxy/nodes/n/x", want{true, "proxy", "", "v1", "", "nodes", "", "n"}},
		{"GET", "/api/v1/pods?fieldSelector=metadata.name%3Dx", want{true, "list", "", "v1", "", "pods", "", "x"}},
		{"BREW", "/api/v1/pods", want{true, "", "", "v1", "", "pods", "", ""}},
	} {
		u, err := url.Parse(row.target)
		if err != nil {
			t.Fatal(err)
		}
		i, err := parseRequestInfo(&http.Request{Method: row.method, URL: u})
		got := want{i.Resource, i.Verb, i.Group, i.Version, i.Namespace, i.Kind, i.Subresource, i.Name}
		if err != nil || got != row.want {
			t.Errorf("%s %s: %+v %v, wanted %+v", row.method, row.target, got, err, row.want)
		}
	}
	u, _ := url.Parse("/api/v1/watch/")
	if _, err := parseRequestInfo(&http.Request{Method: "GET", URL: u}); err == nil {
		t.Error("a verb in the path with nothing after it is an error")
	}
}

func TestMergePatch(t *testing.T) {
	for _, row := range [][3]string{ // RFC 7386, appendix A
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
	} {
		var target, patch interface{}
		if decodeJSON([]byte(row[0]), &target) != nil || decodeJSON([]byte(row[1]), &patch) != nil {
			t.Fatal(row)
		}
		if got := string(mustJSON(mergePatch(target, patch))); got != row[2] {
			t.Errorf("%s + %s: %s, wanted %s", row[0], row[1], got, row[2])
		}
	}
}

func TestJSONPatch(t *testing.T) {
	for _, row := range [][3]string{
		{`{"a":1}`, `[{"op":"add","path":"/b","value":2}]`, `{"a":1,"b":2}`},
		{`{"a":[1,3]}`, `[{"op":"add","path":"/a/1","value":2}]`, `{"a":[1,2,3]}`},
		{`{"a":[1]}`, `[{"op":"add","path":"/a/-","value":2}]`, `{"a":[1,2]}`},
		{`{"a":[1,2]}`, `[{"op":"remove","path":"/a/0"}]`, `{"a":[2]}`},
		{`{"a/b":1}`, `[{"op":"replace","path":"/a~1b","value":2}]`, `{"a/b":2}`},
		{`{"a":1}`, `[{"op":"test","path":"/a","value":1},{"op":"remove","path":"/a"}]`, `{}`},
		{`{"a":1}`, `[{"op":"test","path":"/a","value":2}]`, ``},
		{`{"a":1}`, `[{"op":"replace","path":"/b","value":2}]`, ``},
		{`{"a":[1]}`, `[{"op":"replace","path":"/a/1","value":2}]`, ``},
	} {
		var target interface{}
		if err := decodeJSON([]byte(row[0]), &target); err != nil {
			t.Fatal(err)
		}
		out, err := jsonPatch(target, []byte(row[1]))
		if row[2] == "" {
			if err == nil {
				t.Errorf("%s %s: no error", row[0], row[1])
			}
			continue
		}
		if err != nil || string(mustJSON(out)) != row[2] {
			t.Errorf("%s %s: %s %v, wanted %s", row[0], row[1], mustJSON(out), err, row[2])
		}
	}
}

func TestSelectors(t *testing.T) {
	o := object{"metadata": object{"name": "n", "labels": object{"a": "1", "b": "2"}}}
	for text, want := range map[string]bool{
		"": true, "a=1": true, "a==1": true, "a=2": false, "a!=2": true, "c!=2": true, "a=1,b=2": true,
		"a=1,b=3": false, "a": true, "c": false, "!c": true, "!a": false, "a in (1,3)": true, "a in (2)": false,
		"a notin (2)": true, "c notin (2)": true,
	} {
		s, err := parseSelector(url.Values{"labelSelector": {text}})
		if err != nil || s.matches(o) != want {
			t.Errorf("%q: wanted %v (%v)", text, want, err)
		}
	}
	if _, err := parseSelector(url.Values{"labelSelector": {"a b"}}); err == nil {
		t.Error("a selector that does not parse is an error")
	}
}

func TestVersionOrder(t *testing.T) {
	rows := groupedRows([]apiRow{{Group: "g", Version: "v1beta1"}, {Group: "g", Version: "v2alpha1"},
		{Group: "g", Version: "v1"}, {Group: "g", Version: "v2"}, {Group: "g", Version: "foo"},
		{Group: "apps", Version: "v1"}, {Group: "apiregistration.k8s.io", Version: "v1"}})
	var got []string
	for _, row := range rows {
		got = append(got, joinGV(row.Group, row.Version))
	}
	want := []string{"apiregistration.k8s.io/v1", "apps/v1", "g/v2", "g/v1", "g/v1beta1", "g/v2alpha1", "g/foo"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, wanted %v", got, want)
	}
}

func TestPattern(t *testing.T) {
	whole := make([]byte, 200000)
	patternAt(whole, 0)
	for _, offset := range []int64{0, 1, 7, 8, 65535, 65536, 65537, 131072 + 5} {
		part := make([]byte, 1000)
		patternAt(part, offset)
		if string(part) != string(whole[offset:offset+1000]) {
			t.Errorf("offset %d differs", offset)
		}
	}
}
