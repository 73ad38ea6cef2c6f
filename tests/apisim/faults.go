// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// fault is one thing that goes wrong, for requests that match.
type fault struct {
	ID     int    `json:"id"`
	Server string `json:"server,omitempty"` // "": every server
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`   // prefix of the path
	Exact  bool   `json:"exact,omitempty"`  // the path is the whole path
	Query  string `json:"query,omitempty"`  // part of the query
	Header string `json:"header,omitempty"` // "Name: value" that the request must have
	Skip   int    `json:"skip,omitempty"`   // so many matches pass unharmed first
	Count  int    `json:"count,omitempty"`  // so many are hit; 0: all

	Action string `json:"action"`
	MS     int    `json:"ms,omitempty"`
	Bytes  int    `json:"bytes,omitempty"`
	Status int    `json:"status,omitempty"`
	Codes  []int  `json:"codes,omitempty"` // of informational
	Retry  int    `json:"retryAfter,omitempty"`
	Body   string `json:"body,omitempty"`
	Type   string `json:"contentType,omitempty"`
	Raw    string `json:"raw,omitempty"` // base64
	How    string `json:"how,omitempty"` // how the connection ends: reset, fin, close, keep

	Headers map[string]string `json:"headers,omitempty"` // of headers

	Hits int `json:"hits"`

	raw     []byte
	release chan struct{}
}

// requestActions say what a fault may do to a request; true: it needs HTTP/1.1's raw connection.
var requestActions = map[string]bool{
	"delay-head": false, "delay-body": false, "reset": false, "abort-body": false, "hang": false,
	"informational": false, "status": false, "close-after": false, "trailers": false, "headers": false, "early": false,
	"silent-close": false, "half-head": true, "short-length": true, "long-length": true, "bad-chunk": true,
	"garbage": true, "raw": true,
}

var handshakeActions = map[string]bool{"tls-close": true, "tls-reset": true, "tls-hang": true, "tls-garbage": true}

// faultTable holds the faults in the order in which they were set; the first match is applied.
type faultTable struct {
	mu   sync.Mutex
	last int
	list []*fault
}

func newFaultTable() *faultTable { return &faultTable{} }

func (t *faultTable) add(f *fault) error {
	if _, ok := requestActions[f.Action]; !ok && !handshakeActions[f.Action] {
		return fmt.Errorf("unknown action %q", f.Action)
	}
	var err error
	if f.raw, err = base64.StdEncoding.DecodeString(f.Raw); err != nil {
		return fmt.Errorf("raw: %v", err)
	}
	switch f.How {
	case "", "reset", "fin", "close", "keep":
	default:
		return fmt.Errorf("how: unknown %q", f.How)
	}
	f.release = make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	f.ID = t.last
	t.list = append(t.list, f)
	return nil
}

// clear removes one fault (id > 0) or all, and lets go what hangs on them.
func (t *faultTable) clear(id int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	var kept []*fault
	removed := 0
	for _, f := range t.list {
		if id == 0 || f.ID == id {
			close(f.release)
			removed++
		} else {
			kept = append(kept, f)
		}
	}
	t.list = kept
	return removed
}

func (t *faultTable) all() []fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := []fault{}
	for _, f := range t.list {
		out = append(out, *f)
	}
	return out
}

// take finds the first fault that fits and is not used up, and counts it.
func (t *faultTable) take(fits func(*fault) bool) *fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.list {
		if !fits(f) {
			continue
		}
		f.Hits++
		if f.Hits > f.Skip && (f.Count == 0 || f.Hits <= f.Skip+f.Count) {
			return f
		}
	}
	return nil
}

func (t *faultTable) onAccept(server string) *fault {
	return t.take(func(f *fault) bool {
		return handshakeActions[f.Action] && (f.Server == "" || f.Server == server)
	})
}

func (t *faultTable) match(server string, r *http.Request) *fault {
	return t.take(func(f *fault) bool {
		if handshakeActions[f.Action] || (f.Server != "" && f.Server != server) ||
			(f.Method != "" && f.Method != r.Method) || !strings.Contains(r.URL.RawQuery, f.Query) {
			return false
		}
		if f.Exact && r.URL.Path != f.Path || !strings.HasPrefix(r.URL.Path, f.Path) {
			return false
		}
		if name, value, ok := strings.Cut(f.Header, ":"); ok && r.Header.Get(name) != strings.TrimSpace(value) {
			return false
		}
		return true
	})
}

// atHandshake spoils a connection before TLS is up.
func (f *fault) atHandshake(c *conn) {
	defer c.Close()
	switch f.Action {
	case "tls-reset":
		c.reset()
	case "tls-garbage":
		buf := make([]byte, 4096)
		c.Read(buf)
		c.Write([]byte("HTTP/1.0 400 this is not TLS\r\n\r\n"))
	case "tls-close": // in the middle: after the client's first flight
		buf := make([]byte, 4096)
		c.Read(buf)
	case "tls-hang":
		f.wait(nil, time.Hour)
	}
}

// wait sleeps until the time is over, the request's client leaves, or the fault is cleared.
func (f *fault) wait(r *http.Request, d time.Duration) {
	var left <-chan struct{}
	if r != nil {
		left = r.Context().Done()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.release:
	case <-left:
	}
}
