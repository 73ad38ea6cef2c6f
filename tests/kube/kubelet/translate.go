// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"encoding/hex"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/httpstream/wsstream"
	"k8s.io/apimachinery/pkg/util/proxy"
	translator "k8s.io/apiserver/pkg/util/proxy"
)

// plainCopy serves the same without TLS on a port of its own, below a path that nobody can guess: the translator's other end.
func plainCopy(handler http.Handler) *url.URL {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	var secret [16]byte
	if _, err := rand.Read(secret[:]); err != nil {
		log.Fatal(err)
	}
	prefix := "/" + hex.EncodeToString(secret[:])
	go http.Serve(listener, http.StripPrefix(prefix, handler))
	return &url.URL{Scheme: "http", Host: listener.Addr().String(), Path: prefix}
}

type responder struct{}

func (responder) Error(w http.ResponseWriter, _ *http.Request, err error) {
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

// translate handles the WebSocket protocols that kube-apiserver translates to SPDY before a kubelet sees them.
func translate(plain http.Handler, own *url.URL) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		location := *own
		location.Path += r.URL.Path
		location.RawQuery = r.URL.RawQuery
		query := r.URL.Query()
		set := func(name string) bool { return query.Get(name) == "1" || query.Get(name) == "true" }
		switch {
		case wsstream.IsWebSocketRequestWithStreamCloseProtocol(r):
			options := translator.Options{Stdin: set("input"), Stdout: set("output"), Stderr: set("error") && !set("tty"), Tty: set("tty")}
			translator.NewStreamTranslatorHandler(&location, nil, 0, options).ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, "/portForward/") && wsstream.IsWebSocketRequestWithTunnelingProtocol(r):
			upgrade := proxy.NewUpgradeAwareHandler(&location, nil, false, true, responder{})
			translator.NewTunnelingHandler(upgrade).ServeHTTP(w, r)
		default:
			plain.ServeHTTP(w, r)
		}
	})
}
