// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// record is one request as it arrived.
type record struct {
	Seq     int64               `json:"seq"`
	Time    string              `json:"time"`
	Server  string              `json:"server"`
	Conn    int64               `json:"conn"`
	Remote  string              `json:"remote"`
	Method  string              `json:"method"`
	Target  string              `json:"target"` // the request target, byte for byte
	Path    string              `json:"path"`
	Proto   string              `json:"proto"`
	Host    string              `json:"host"`
	Headers map[string][]string `json:"headers"`
	Trailer map[string][]string `json:"trailers,omitempty"`
	User    *user               `json:"user"`
	AuthErr string              `json:"authError,omitempty"`
	TLS     string              `json:"tls"`
	ALPN    string              `json:"alpn"`
	SNI     string              `json:"sni"`
	Resumed bool                `json:"resumed"`
	CertCN  string              `json:"certCN,omitempty"`
	Body    int64               `json:"body"`   // bytes of the body that were read
	Status  int                 `json:"status"` // 0 while it runs
	Done    bool                `json:"done"`
	Aborted bool                `json:"aborted"` // the client went away before the end
}

// recorder remembers the last requests, up to a limit.
type recorder struct {
	mu    sync.Mutex
	limit int
	seq   int64
	list  []*record
	conns int64
}

func newRecorder(limit int) *recorder { return &recorder{limit: limit} }

func (c *recorder) nextConn() int64 { return atomic.AddInt64(&c.conns, 1) }

var tlsNames = map[uint16]string{tls.VersionTLS12: "1.2", tls.VersionTLS13: "1.3"}

// begin must come before authentication, which removes credentials from the headers.
func (c *recorder) begin(s *server, r *http.Request) *record {
	if c.limit < 0 {
		return nil
	}
	rec := &record{Time: microTime(time.Now()), Server: s.cfg.Name, Remote: r.RemoteAddr, Method: r.Method,
		Target: r.RequestURI, Path: r.URL.Path, Proto: r.Proto, Host: r.Host, Headers: r.Header.Clone()}
	if conn := connOf(r); conn != nil {
		rec.Conn = conn.id
	}
	if r.TLS != nil {
		rec.TLS, rec.ALPN, rec.SNI = tlsNames[r.TLS.Version], r.TLS.NegotiatedProtocol, r.TLS.ServerName
		rec.Resumed = r.TLS.DidResume
		if len(r.TLS.PeerCertificates) > 0 {
			rec.CertCN = r.TLS.PeerCertificates[0].Subject.CommonName
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	rec.Seq = c.seq
	if len(c.list) >= c.limit {
		c.list = append([]*record(nil), c.list[len(c.list)/2:]...)
	}
	c.list = append(c.list, rec)
	return rec
}

func (c *recorder) authenticated(rec *record, who *user, err error) {
	if rec == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	rec.User = who
	if err != nil {
		rec.AuthErr = err.Error()
	}
}

func (c *recorder) end(rec *record, status int, body int64, aborted bool) {
	if rec == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	rec.Status, rec.Body, rec.Done, rec.Aborted = status, body, true, aborted
}

// since returns copies, so that they can be encoded while requests go on.
func (c *recorder) since(seq int64, keep func(*record) bool) []record {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := []record{}
	for _, rec := range c.list {
		if rec.Seq > seq && keep(rec) {
			out = append(out, *rec)
		}
	}
	return out
}

func (c *recorder) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = nil
}

// countedBody counts what was read of a request's body.
type countedBody struct {
	io.ReadCloser
	n                 int64
	original, handled *http.Request
	rec               *record
	c                 *recorder
}

// countBody also returns the request to handle: net/http looks into the original's Body to see
// whether it has answered Expect: 100-continue, and puts trailers into the original.
func countBody(r *http.Request, rec *record) (*http.Request, *countedBody) {
	counted := r.WithContext(r.Context())
	b := &countedBody{ReadCloser: r.Body, original: r, handled: counted, rec: rec}
	counted.Body = b
	return counted, b
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	if err == io.EOF {
		b.handled.Trailer = b.original.Trailer
	}
	if err == io.EOF && b.rec != nil && len(b.original.Trailer) > 0 {
		b.rec.Trailer = b.original.Trailer.Clone()
	}
	return n, err
}

// statusWriter remembers the status of the response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(code int) {
	if code >= 200 || code == 101 {
		w.status = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = 200
	}
	return w.ResponseWriter.Write(p)
}

func (w *statusWriter) Flush() {
	if w.status == 0 {
		w.status = 200
	}
	flush(w.ResponseWriter)
}

func flush(w http.ResponseWriter) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

// hijackable finds the connection's hijacker below our wrappers.
func hijackable(w http.ResponseWriter) (http.Hijacker, bool) {
	for {
		switch inner := w.(type) {
		case *statusWriter:
			w = inner.ResponseWriter
		case *faultWriter:
			w = inner.ResponseWriter
		default:
			h, ok := w.(http.Hijacker)
			return h, ok
		}
	}
}
