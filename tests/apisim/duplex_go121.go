// SPDX-License-Identifier: Apache-2.0

//go:build go1.21

package main

import "net/http"

// enableFullDuplex lets an HTTP/1.1 handler answer while it still reads the body. Older Go reads
// the rest of the body (up to 256 KiB) before the first write, and then closes the connection.
func enableFullDuplex(w http.ResponseWriter) bool {
	for {
		switch inner := w.(type) {
		case *statusWriter:
			w = inner.ResponseWriter
			continue
		case *faultWriter:
			w = inner.ResponseWriter
			continue
		}
		break
	}
	// HTTP/2 is always full duplex and says so with an error.
	_ = http.NewResponseController(w).EnableFullDuplex()
	return true
}
