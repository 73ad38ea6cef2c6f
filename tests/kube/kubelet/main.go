// SPDX-License-Identifier: Apache-2.0

// A stand-in for a kubelet's streaming port, made of the kubelet's own library: exec runs commands in a folder of
// this machine, attach echoes, port-forward connects to 127.0.0.1, logs count lines. Only who has a certificate of
// the CA gets in.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	remotecommandconsts "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/kubelet/pkg/cri/streaming/portforward"
	"k8s.io/kubelet/pkg/cri/streaming/remotecommand"
)

const (
	idleTimeout     = 4 * time.Hour
	creationTimeout = remotecommandconsts.DefaultStreamCreationTimeout
)

type kubelet struct {
	runtime *runtime
}

// parts of a path such as /exec/NAMESPACE/POD/CONTAINER after the first.
func parts(r *http.Request) []string {
	return append(strings.Split(strings.Trim(r.URL.Path, "/"), "/")[1:], "", "", "")
}

func (k *kubelet) exec(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p := parts(r)
	remotecommand.ServeExec(w, r, k.runtime, p[1], types.UID(""), p[2], r.URL.Query()["command"], options,
		idleTimeout, creationTimeout, remotecommandconsts.SupportedStreamingProtocols)
}

func (k *kubelet) attach(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p := parts(r)
	remotecommand.ServeAttach(w, r, k.runtime, p[1], types.UID(""), p[2], options, idleTimeout, creationTimeout,
		remotecommandconsts.SupportedStreamingProtocols)
}

func (k *kubelet) portForward(w http.ResponseWriter, r *http.Request) {
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, k.runtime, parts(r)[1], types.UID(""), options, idleTimeout, creationTimeout,
		portforward.SupportedProtocols)
}

// logs: ten numbered lines; with follow one more every 20 ms until the reader leaves.
func (k *kubelet) logs(w http.ResponseWriter, r *http.Request) {
	const existing = 10
	w.Header().Set("Content-Type", "text/plain")
	n := 1
	for ; n <= existing; n++ {
		fmt.Fprintf(w, "line %d\n", n)
	}
	if r.URL.Query().Get("follow") != "true" {
		return
	}
	flusher := w.(http.Flusher)
	flusher.Flush()
	for ticker := time.NewTicker(20 * time.Millisecond); ; n++ {
		select {
		case <-r.Context().Done():
			ticker.Stop()
			return
		case <-ticker.C:
			fmt.Fprintf(w, "line %d\n", n)
			flusher.Flush()
		}
	}
}

func tlsConfig(ca string) (*tls.Config, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", ca)
	}
	// Without h2: upgrades are HTTP/1.1's.
	return &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, NextProtos: []string{"http/1.1"}}, nil
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address")
	cert := flag.String("tls-cert-file", "", "")
	key := flag.String("tls-private-key-file", "", "")
	ca := flag.String("client-ca-file", "", "who may connect")
	root := flag.String("root", "", "folder in which commands are run")
	tunnels := flag.Bool("translate", false,
		"do what kube-apiserver does for WebSocket clients, for callers that pass their requests on as they are")
	flag.Parse()
	config, err := tlsConfig(*ca)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	k := &kubelet{&runtime{root: *root}}
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/", k.exec)
	mux.HandleFunc("/attach/", k.attach)
	mux.HandleFunc("/portForward/", k.portForward)
	mux.HandleFunc("/containerLogs/", k.logs)
	var handler http.Handler = mux
	if *tunnels {
		handler = translate(mux, plainCopy(mux))
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	number, _ := strconv.Atoi(port)
	json.NewEncoder(os.Stdout).Encode(map[string]int{"port": number})
	server := &http.Server{Handler: handler, TLSConfig: config}
	log.Fatal(server.ServeTLS(listener, *cert, *key))
}
