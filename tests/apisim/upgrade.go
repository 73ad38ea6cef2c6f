// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// isUpgrade uses kube-apiserver's loose test of the Connection header.
func isUpgrade(r *http.Request) bool {
	for _, line := range r.Header.Values("Connection") {
		if strings.Contains(strings.ToLower(line), "upgrade") {
			return true
		}
	}
	return false
}

// webSocketGUID is the constant of RFC 6455, section 1.3.
const webSocketGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// upgrade accepts SPDY/3.1 and WebSocket, and from then on echoes bytes as they come. With
// ?sim-send=N it sends N bytes of the pattern first. The head is the kubelet's, so none of the
// API server's own fields is in it: no Audit-Id (k8s.io/apiserver pkg/endpoints/filters/audit_init.go).
func (t *target) upgrade(w http.ResponseWriter, r *http.Request) {
	protocol := r.Header.Get("Upgrade")
	if !isUpgrade(r) || protocol == "" {
		writeStatus(w, r, badRequest("Upgrade request required"))
		return
	}
	hijacker, ok := hijackable(w)
	if !ok {
		writeStatus(w, r, badRequest("unable to upgrade: HTTP/2"))
		return
	}
	var head strings.Builder
	fmt.Fprintf(&head, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n", protocol)
	if strings.EqualFold(protocol, "websocket") {
		sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + webSocketGUID))
		fmt.Fprintf(&head, "Sec-WebSocket-Accept: %s\r\n", base64.StdEncoding.EncodeToString(sum[:]))
		if offers := r.Header.Values("Sec-WebSocket-Protocol"); len(offers) > 0 {
			for _, offer := range splitList(strings.Join(offers, ",")) {
				if !strings.HasPrefix(offer, bearerProtocol) {
					fmt.Fprintf(&head, "Sec-WebSocket-Protocol: %s\r\n", offer)
					break
				}
			}
		}
	} else if offers := r.Header.Values("X-Stream-Protocol-Version"); len(offers) > 0 {
		fmt.Fprintf(&head, "X-Stream-Protocol-Version: %s\r\n", offers[0])
	}
	head.WriteString("\r\n")
	raw, buffered, err := hijacker.Hijack()
	if err != nil {
		return
	}
	defer raw.Close()
	if s, ok := w.(*statusWriter); ok {
		s.status = 101
	}
	if _, err := io.WriteString(raw, head.String()); err != nil {
		return
	}
	if n, err := strconv.ParseInt(r.URL.Query().Get("sim-send"), 10, 64); err == nil {
		if _, err := writePattern(raw, n); err != nil {
			return
		}
	}
	echo(raw, buffered)
}

type closeWriter interface{ CloseWrite() error }

// echo copies what comes back to where it came from, and passes on the end of the input.
func echo(raw net.Conn, buffered *bufio.ReadWriter) {
	buf := make([]byte, 32*1024)
	for {
		n, err := buffered.Read(buf)
		if n > 0 {
			if _, err := raw.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			break
		}
	}
	if c, ok := raw.(closeWriter); ok {
		c.CloseWrite()
	}
}
