// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
)

// Each fault, seen by Go's strict client: what comes back and how it ends.
func TestFaults(t *testing.T) {
	w := newWorld(t)
	get := func(c *http.Client) (status int, body string, broken error) {
		r, err := c.Get(w.url("a", "/sim/bytes?n=1000"))
		if err != nil {
			return 0, "", err
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		return r.StatusCode, string(text), err
	}
	for _, row := range []struct {
		f      fault
		status int
		broken bool
	}{
		{fault{Action: "delay-head", MS: 1}, 200, false},
		{fault{Action: "delay-body", MS: 1, Bytes: 300}, 200, false},
		{fault{Action: "reset"}, 0, true},
		{fault{Action: "abort-body", Bytes: 100}, 200, true},
		{fault{Action: "abort-body", Bytes: 100, How: "fin"}, 200, true},
		{fault{Action: "abort-body", Bytes: 100, How: "close"}, 200, true},
		{fault{Action: "half-head"}, 0, true},
		{fault{Action: "half-head", How: "reset"}, 0, true},
		{fault{Action: "short-length"}, 200, true},
		{fault{Action: "short-length", How: "fin"}, 200, true},
		{fault{Action: "long-length"}, 200, false},
		{fault{Action: "bad-chunk"}, 200, true},
		{fault{Action: "garbage"}, 0, true},
		{fault{Action: "raw", Raw: "SFRUUC8xLjEgMjk5IE9kZA0KQ29udGVudC1MZW5ndGg6IDANCg0K"}, 299, false},
		{fault{Action: "status", Status: 429, Retry: 3}, 429, false},
		{fault{Action: "early"}, 413, false},
		{fault{Action: "close-after"}, 200, false},
		{fault{Action: "silent-close"}, 200, false},
		{fault{Action: "trailers"}, 200, false},
		{fault{Action: "headers", Headers: map[string]string{"X-Filter": "yes"}}, 200, false},
		{fault{Action: "tls-close"}, 0, true},
		{fault{Action: "tls-reset"}, 0, true},
		{fault{Action: "tls-garbage"}, 0, true},
	} {
		f := row.f
		f.Count = 1
		name := f.Action + " " + f.How
		if err := w.sim.faults.add(&f); err != nil {
			t.Fatal(err)
		}
		c := w.as("admin", false)
		c.Transport.(*http.Transport).DisableKeepAlives = true // so that Go does not try again by itself
		status, _, broken := get(c)
		if status != row.status || (broken != nil) != row.broken {
			t.Errorf("%s: %d %v", name, status, broken)
		}
		w.sim.faults.clear(0)
		if status, body, err := get(w.as("admin", false)); status != 200 || len(body) != 1000 || err != nil {
			t.Fatalf("after %s: %d %v", name, status, err)
		}
	}
	if err := w.sim.faults.add(&fault{Action: "nonsense"}); err == nil {
		t.Error("an unknown action is an error")
	}
}

func TestFaultMatching(t *testing.T) {
	w := newWorld(t)
	c := w.as("admin", false)
	f := &fault{Action: "status", Status: 500, Method: "GET", Path: "/sim/", Query: "n=7", Skip: 1, Count: 2}
	if err := w.sim.faults.add(f); err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, target := range []string{"/sim/bytes?n=7", "/sim/bytes?n=8", "/sim/bytes?n=7", "/healthz", "/sim/bytes?n=7", "/sim/bytes?n=7"} {
		r, _ := w.ask(c, "GET", w.url("a", target), "")
		got = append(got, r.StatusCode)
	}
	if want := "[200 200 500 200 500 200]"; fmt.Sprint(got) != want {
		t.Errorf("%v, wanted %v", got, want)
	}
}

func TestInformational(t *testing.T) {
	w := newWorld(t)
	for _, h2 := range []bool{false, true} {
		w.sim.faults.clear(0)
		w.sim.faults.add(&fault{Action: "informational", Codes: []int{103, 102}})
		var seen []int
		r, _ := http.NewRequest("GET", w.url("a", "/healthz"), nil)
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
				seen = append(seen, code)
				return nil
			}}))
		response, err := w.as("admin", h2).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if fmt.Sprint(seen) != "[103 102]" || response.StatusCode != 200 || response.Header.Get("X-Sim-Early") != "" {
			t.Errorf("%v %d", seen, response.StatusCode)
		}
	}
}

func TestBodies(t *testing.T) {
	w := newWorld(t)
	const n = 300000
	want := make([]byte, n)
	patternAt(want, 0)
	for _, h2 := range []bool{false, true} {
		c := w.as("admin", h2)
		for _, query := range []string{"n=300000", "n=300000&chunked=1", "n=300000&chunked=1&piece=7000"} {
			r, got := w.ask(c, "GET", w.url("a", "/sim/bytes?"+query), "")
			if !bytes.Equal(got, want) || (r.ContentLength == n) == strings.Contains(query, "chunked") {
				t.Errorf("%s: %d bytes, length %d", query, len(got), r.ContentLength)
			}
		}
		sum := sha256.Sum256(want)
		for _, path := range []string{"/sim/sink", "/api/v1/namespaces/default/pods?simbody=sink"} {
			r, got := w.ask(c, "POST", w.url("a", path), string(want))
			o := w.want(200, r, got)
			if o["sha256"] != hex.EncodeToString(sum[:]) || fmt.Sprint(o["bytes"]) != "300000" {
				t.Errorf("%s: %s", path, got)
			}
		}
		r, got := w.ask(c, "POST", w.url("a", "/sim/echo"), string(want))
		if w.want(200, r, nil); !bytes.Equal(got, want) {
			t.Errorf("echo: %d bytes", len(got))
		}
	}
	if r, _ := w.ask(w.as("admin", false), "HEAD", w.url("a", "/sim/bytes?n=5"), ""); r.ContentLength != 5 {
		t.Errorf("HEAD: %d", r.ContentLength)
	}
}

func TestRecords(t *testing.T) {
	w := newWorld(t)
	c := w.as("proxy", false)
	w.ask(c, "GET", w.url("a", "/sim/whoami?x=%2F"), "", "X-Remote-User: carol", "Authorization: Bearer good")
	w.ask(c, "POST", w.url("a", "/sim/sink"), "12345", "X-Remote-User: carol")
	list := w.sim.records.since(0, func(*record) bool { return true })
	if len(list) != 2 {
		t.Fatalf("%d requests", len(list))
	}
	one, two := list[0], list[1]
	if one.Target != "/sim/whoami?x=%2F" || one.CertCN != "front-proxy-client" || one.User.Name != "carol" || one.TLS != "1.3" ||
		one.ALPN != "http/1.1" || len(one.Headers["X-Remote-User"]) != 1 || len(one.Headers["Authorization"]) != 1 || !one.Done || one.Status != 200 {
		t.Errorf("%+v", one)
	}
	if two.Conn != one.Conn || two.Body != 5 || two.Seq != one.Seq+1 {
		t.Errorf("%+v", two)
	}
	// A client that leaves is seen.
	r, _ := http.NewRequest("GET", w.url("a", "/sim/bytes?n=1000&chunked=1&piece=1&delay-ms=5"), nil)
	response, err := w.as("admin", false).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	seen := errors.New("not yet")
	for i := 0; seen != nil && i < 2000; i++ {
		for _, rec := range w.sim.records.since(two.Seq, func(*record) bool { return true }) {
			if rec.Done && rec.Aborted {
				seen = nil
			}
		}
		flushPause()
	}
	if seen != nil {
		t.Error("the record does not tell that the client left")
	}
}
