// SPDX-License-Identifier: Apache-2.0

//go:build !go1.21

package main

import "net/http"

// enableFullDuplex is not possible over HTTP/1.1 before Go 1.21.
func enableFullDuplex(http.ResponseWriter) bool { return false }
