// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// faultWriter spoils an answer on its way out.
type faultWriter struct {
	http.ResponseWriter
	f       *fault
	r       *http.Request
	written int
	cut     bool
}

// apply does what comes before an answer. done means that nothing more is to be written.
func (f *fault) apply(w http.ResponseWriter, r *http.Request) (*faultWriter, bool) {
	out := &faultWriter{ResponseWriter: w, f: f, r: r}
	pause := time.Duration(f.MS) * time.Millisecond
	if requestActions[f.Action] {
		return out, f.onRawConnection(w, r)
	}
	switch f.Action {
	case "delay-head":
		f.wait(r, pause)
	case "headers":
		for name, value := range f.Headers {
			w.Header().Set(name, value)
		}
	case "hang":
		f.wait(r, time.Hour)
		if r.Context().Err() != nil {
			return out, true
		}
	case "reset":
		cutConnection(r)
		return out, true
	case "informational":
		for _, code := range f.Codes {
			w.Header().Set("X-Sim-Early", strconv.Itoa(code))
			w.WriteHeader(code)
			f.wait(r, pause)
		}
		w.Header().Del("X-Sim-Early")
	case "status":
		f.answer(w, r)
		return out, true
	case "early": // answered without the body being read
		w.Header().Set("Connection", "close")
		f.answer(w, r)
		return out, true
	case "close-after":
		w.Header().Set("Connection", "close")
	case "trailers":
		w.Header().Add("Trailer", "X-Sim-Checksum")
		if f.Body != "" {
			f.Status = 200
			f.answer(w, r)
			out.finish()
			return out, true
		}
	}
	return out, false
}

// cutConnection resets the TCP connection of a request, and ends the handler.
func cutConnection(r *http.Request) {
	if c := connOf(r); c != nil {
		c.reset()
	}
	panic(http.ErrAbortHandler)
}

// answer is the response of "status" and "early": a Status unless a body is given.
func (f *fault) answer(w http.ResponseWriter, r *http.Request) {
	code := f.Status
	if code == 0 {
		code = 503
		if f.Action == "early" {
			code = 413
		}
	}
	if f.Retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.Retry))
	}
	if f.Body != "" {
		if f.Type != "" {
			w.Header().Set("Content-Type", f.Type)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(f.Body)))
		w.WriteHeader(code)
		io.WriteString(w, f.Body)
		return
	}
	if code == 204 || code == 304 {
		w.WriteHeader(code)
		return
	}
	if code == 401 { // as the authentication filter says it
		writeJSON(w, r, code, failure(code, reasonOf(code), "Unauthorized", nil))
		return
	}
	writeJSON(w, r, code, failure(code, reasonOf(code), "injected by apisim", &statusDetails{RetryAfter: f.Retry}))
}

func reasonOf(code int) string {
	switch code {
	case 401:
		return "Unauthorized"
	case 403:
		return "Forbidden"
	case 404:
		return "NotFound"
	case 410:
		return "Expired"
	case 413:
		return "RequestEntityTooLarge"
	case 429:
		return "TooManyRequests"
	case 503:
		return "ServiceUnavailable"
	case 504:
		return "Timeout"
	}
	return "InternalError"
}

// onRawConnection writes bytes that net/http would never write. Over HTTP/2 it can only reset.
func (f *fault) onRawConnection(w http.ResponseWriter, r *http.Request) bool {
	hijacker, ok := hijackable(w)
	if !ok {
		cutConnection(r)
	}
	raw, _, err := hijacker.Hijack()
	if err != nil {
		return true
	}
	if s, ok := w.(*statusWriter); ok {
		s.status = f.Status
	}
	raw.Write(f.bytes())
	f.wait(nil, time.Duration(f.MS)*time.Millisecond)
	switch f.How {
	case "reset":
		if c := connOf(r); c != nil {
			c.reset()
		}
	case "fin": // a TCP end without TLS's close_notify
		if c := connOf(r); c != nil {
			c.Close()
		}
	case "keep": // says nothing more, and stays
		f.wait(nil, time.Hour)
		raw.Close()
	default:
		raw.Close()
	}
	return true
}

// bytes of the raw actions. Content-Length of short-length announces Bytes (default 100) more
// than comes; long-length announces Bytes (default 5) less.
func (f *fault) bytes() []byte {
	body := f.Body
	if body == "" {
		body = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":200}`
	}
	head := func(lines string) string {
		return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + lines + "\r\n"
	}
	switch f.Action {
	case "half-head":
		return []byte("HTTP/1.1 200 OK\r\nContent-Type: applica")
	case "short-length":
		return []byte(head(fmt.Sprintf("Content-Length: %d\r\n", len(body)+orDefault(f.Bytes, 100))) + body)
	case "long-length":
		return []byte(head(fmt.Sprintf("Content-Length: %d\r\n", len(body)-orDefault(f.Bytes, 5))) + body)
	case "bad-chunk":
		return []byte(head("Transfer-Encoding: chunked\r\n") + fmt.Sprintf("%x\r\n%s\r\nzz\r\nwrong\r\n0\r\n\r\n", len(body), body))
	case "garbage":
		return []byte("\x00\x01\x02 this is not HTTP\r\n\r\n")
	}
	return f.raw
}

func orDefault(n, fallback int) int {
	if n == 0 {
		return fallback
	}
	return n
}

func (w *faultWriter) Flush() { flush(w.ResponseWriter) }

func (w *faultWriter) Write(p []byte) (int, error) {
	switch w.f.Action {
	case "delay-body":
		return w.slowly(p)
	case "abort-body":
		left := w.f.Bytes - w.written
		if len(p) < left {
			n, err := w.ResponseWriter.Write(p)
			w.written += n
			return n, err
		}
		if left > 0 {
			w.ResponseWriter.Write(p[:left])
		}
		w.Flush()
		w.f.wait(w.r, time.Duration(w.f.MS)*time.Millisecond)
		w.end()
	}
	return w.ResponseWriter.Write(p)
}

// end breaks a response in the middle of its body.
func (w *faultWriter) end() {
	c := connOf(w.r)
	switch {
	case c != nil && w.f.How == "fin":
		c.Close()
	case c != nil && w.f.How == "close" && w.r.ProtoMajor == 1: // with TLS's goodbye
		c.tls.Close()
	case c != nil && w.f.How != "keep":
		c.reset()
	default:
		w.f.wait(w.r, time.Hour)
	}
	panic(http.ErrAbortHandler)
}

func (w *faultWriter) slowly(p []byte) (int, error) {
	piece := orDefault(w.f.Bytes, 1024)
	for done := 0; done < len(p); done += piece {
		end := done + piece
		if end > len(p) {
			end = len(p)
		}
		if n, err := w.ResponseWriter.Write(p[done:end]); err != nil {
			return done + n, err
		}
		w.Flush()
		w.f.wait(w.r, time.Duration(w.f.MS)*time.Millisecond)
		if err := w.r.Context().Err(); err != nil {
			return end, err
		}
	}
	return len(p), nil
}

// finish does what comes after an answer.
func (w *faultWriter) finish() {
	switch w.f.Action {
	case "trailers":
		w.Flush()
		w.Header().Set("X-Sim-Checksum", "12345")
	case "silent-close":
		// The whole answer, as keep-alive, and then, when the connection is idle, an end that was not announced.
		if c := connOf(w.r); c != nil {
			c.whenIdle.Store(w.f)
		}
	}
}
