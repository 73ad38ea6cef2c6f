// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// The pattern: blocks of 64 KiB, each beginning with its number (8 bytes, big endian), the rest a
// chain of SHA-256 sums, so that lost, doubled or exchanged pieces change a hash.
const patternBlock = 64 * 1024

var patternBase = func() []byte {
	base := make([]byte, 0, patternBlock)
	for k := 0; len(base) < patternBlock; k++ {
		sum := sha256.Sum256([]byte(fmt.Sprintf("apisim %d", k)))
		base = append(base, sum[:]...)
	}
	return base
}()

// patternAt fills p with the pattern from offset on.
func patternAt(p []byte, offset int64) {
	for len(p) > 0 {
		at := offset % patternBlock
		var number [8]byte
		binary.BigEndian.PutUint64(number[:], uint64(offset/patternBlock))
		n := 0
		if at < 8 {
			n = copy(p, number[at:])
		} else {
			n = copy(p, patternBase[at:])
		}
		p = p[n:]
		offset += int64(n)
	}
}

func writePattern(w io.Writer, n int64) (int64, error) {
	buf := make([]byte, patternBlock)
	for sent := int64(0); sent < n; {
		piece := buf
		if left := n - sent; left < int64(len(piece)) {
			piece = piece[:left]
		}
		patternAt(piece, sent)
		m, err := w.Write(piece)
		sent += int64(m)
		if err != nil {
			return sent, err
		}
	}
	return n, nil
}

// simBody lets a served resource answer with generated bodies: ?simbody=bytes|sink|echo.
func (c *call) simBody(w http.ResponseWriter, r *http.Request) bool {
	kind := r.URL.Query().Get("simbody")
	if kind == "" {
		return false
	}
	c.simPath(w, r, kind)
	return true
}

// simPath serves /sim/NAME.
func (c *call) simPath(w http.ResponseWriter, r *http.Request, name string) {
	switch name {
	case "bytes":
		simBytes(w, r)
	case "sink":
		sum := sha256.New()
		n, err := io.Copy(sum, r.Body)
		if err != nil {
			return // the sender went away: there is nobody to tell
		}
		writeJSON(w, r, 200, object{"bytes": n, "sha256": hex.EncodeToString(sum.Sum(nil)),
			"trailers": r.Trailer, "contentLength": r.ContentLength})
	case "echo":
		simEcho(w, r)
	case "whoami":
		writeJSON(w, r, 200, object{"user": c.who, "server": c.server.cfg.Name, "method": r.Method,
			"target": r.RequestURI, "host": r.Host, "headers": r.Header})
	case "headers":
		n := intOf(r, "n", 1)
		for i := 0; i < n; i++ {
			w.Header().Add(fmt.Sprintf("X-Sim-%d", i), "value")
		}
		w.WriteHeader(int(intOf(r, "status", 200)))
	case "nobody": // answers that have no body: 204, 304
		w.WriteHeader(int(intOf(r, "status", 204)))
	default:
		plainNotFound(w, r)
	}
}

func intOf(r *http.Request, name string, fallback int) int {
	if n, err := strconv.Atoi(r.URL.Query().Get(name)); err == nil {
		return n
	}
	return fallback
}

// simBytes sends n bytes of the pattern: with Content-Length, or chunked=1; in pieces of piece
// bytes, each flushed, with delay-ms between them.
func simBytes(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
	w.Header().Set("Content-Type", "application/octet-stream")
	chunked := r.URL.Query().Get("chunked") == "1"
	if !chunked {
		w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	}
	w.WriteHeader(intOf(r, "status", 200))
	if r.Method == http.MethodHead {
		return
	}
	if chunked {
		flush(w)
	}
	piece := intOf(r, "piece", 0)
	if piece <= 0 {
		writePattern(w, n)
		return
	}
	delay := time.Duration(intOf(r, "delay-ms", 0)) * time.Millisecond
	buf := make([]byte, piece)
	for sent := int64(0); sent < n; sent += int64(piece) {
		if left := n - sent; left < int64(piece) {
			buf = buf[:left]
		}
		patternAt(buf, sent)
		if _, err := w.Write(buf); err != nil {
			return
		}
		flush(w)
		select {
		case <-r.Context().Done():
			return
		case <-time.After(delay):
		}
	}
}

// simEcho sends the body back while it arrives.
func simEcho(w http.ResponseWriter, r *http.Request) {
	source := io.Reader(r.Body)
	if !enableFullDuplex(w) && r.ProtoMajor == 1 {
		whole, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		source = bytes.NewReader(whole)
	}
	if text := r.Header.Get("Content-Type"); text != "" {
		w.Header().Set("Content-Type", text)
	}
	w.Header().Set("X-Sim-Content-Length", strconv.FormatInt(r.ContentLength, 10))
	w.WriteHeader(200)
	flush(w)
	buf := make([]byte, 32*1024)
	for {
		n, err := source.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return
			}
			flush(w)
		}
		if err != nil {
			if err != io.EOF {
				panic(http.ErrAbortHandler) // never make half a body look whole
			}
			for name, values := range r.Trailer {
				for _, v := range values {
					w.Header().Add(http.TrailerPrefix+name, v)
				}
			}
			return
		}
	}
}
