// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strings"
)

// gzipThreshold: responses strictly larger are compressed when the client takes gzip.
const gzipThreshold = 128 * 1024

func writeJSON(w http.ResponseWriter, r *http.Request, code int, v interface{}) {
	writeEncoded(w, r, code, "application/json", mustJSON(v))
}

// writeEncoded sends one JSON document as kube-apiserver's writers do: indented for browsers
// and curl, compressed above the threshold, with the newline that Go's encoder adds.
func writeEncoded(w http.ResponseWriter, r *http.Request, code int, contentType string, text []byte) {
	if wantsPretty(r) {
		var out bytes.Buffer
		if json.Indent(&out, text, "", "  ") == nil {
			text = out.Bytes()
		}
	} else {
		text = append(append([]byte(nil), text...), '\n')
	}
	w.Header().Set("Content-Type", contentType)
	if len(text) > gzipThreshold && takesGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Add("Vary", "Accept-Encoding")
		w.WriteHeader(code)
		if r.Method != http.MethodHead {
			z, _ := gzip.NewWriterLevel(w, 1)
			z.Write(text)
			z.Close()
		}
		return
	}
	w.WriteHeader(code)
	if r.Method != http.MethodHead {
		w.Write(text)
	}
}

// takesGzip: only a token that is exactly "gzip" counts, so "gzip;q=1.0" does not.
func takesGzip(r *http.Request) bool {
	for _, token := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(token) == "gzip" {
			return true
		}
	}
	return false
}

func wantsPretty(r *http.Request) bool {
	if values, ok := r.URL.Query()["pretty"]; ok && len(values) > 0 {
		switch strings.ToLower(values[0]) {
		case "false", "0":
			return false
		}
		return true
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") ||
		strings.HasPrefix(agent, "Mozilla/5.0")
}
