// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
)

// atKubelet passes what belongs to a pod's kubelet on to it, upgrades too; false: it is no such request.
func (t *target) atKubelet(w http.ResponseWriter, r *http.Request) bool {
	paths := map[string]string{"exec": "/exec/", "attach": "/attach/", "portforward": "/portForward/", "log": "/containerLogs/"}
	at, ok := paths[t.info.Subresource]
	if !ok {
		return false
	}
	transport, err := t.server.cfg.kubeletTransport()
	if err != nil {
		writeStatus(w, r, badRequest(err.Error()))
		return true
	}
	path := at + t.ns + "/" + t.info.Name
	if t.info.Subresource != "portforward" {
		path += "/" + r.URL.Query().Get("container")
	}
	director := func(out *http.Request) {
		out.URL = &url.URL{Scheme: "https", Host: t.server.cfg.Kubelet, Path: path, RawQuery: kubeletQuery(r.URL.Query()).Encode()}
		// WebSocket clients' own credentials have been looked at; a kubelet has no use for them.
		offers := splitList(strings.Join(out.Header.Values("Sec-Websocket-Protocol"), ","))
		out.Header.Del("Sec-Websocket-Protocol")
		for _, offer := range offers {
			if !strings.HasPrefix(offer, bearerProtocol) {
				out.Header.Add("Sec-Websocket-Protocol", offer)
			}
		}
	}
	noted := func(answer *http.Response) error {
		if s, ok := w.(*statusWriter); ok && answer.StatusCode == http.StatusSwitchingProtocols {
			s.status = answer.StatusCode // it is written past the statusWriter
		}
		return nil
	}
	hijacker, _ := hijackable(w)
	proxy := &httputil.ReverseProxy{Director: director, Transport: transport, FlushInterval: -1, ModifyResponse: noted}
	proxy.ServeHTTP(throughWriter{w, hijacker}, r)
	return true
}

// throughWriter is a ResponseWriter with all that a ReverseProxy looks for.
type throughWriter struct {
	http.ResponseWriter
	http.Hijacker
}

func (w throughWriter) Flush() { flush(w.ResponseWriter) }

// kubeletQuery has the options of a pod's stream in a kubelet's words.
func kubeletQuery(query url.Values) url.Values {
	for ours, theirs := range map[string]string{"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"} {
		set := isTrue(query.Get(ours))
		query.Del(ours)
		if set {
			query.Set(theirs, "1")
		}
	}
	return query
}

func (c *serverConfig) kubeletTransport() (http.RoundTripper, error) {
	pair, err := tls.LoadX509KeyPair(c.KubeletCert, c.KubeletKey)
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(c.KubeletCA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool},
		DisableKeepAlives: true}, nil
}
