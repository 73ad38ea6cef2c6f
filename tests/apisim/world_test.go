// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority signs what the tests need.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	name string
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

func makePair(t *testing.T, dir, name string, template *x509.Certificate, by *authority) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := x509.ParseCertificate(der)
	keyDER, _ := x509.MarshalECPrivateKey(key)
	write := func(suffix, kind string, bytes []byte) {
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes})
		if err := os.WriteFile(filepath.Join(dir, name+suffix), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(".crt", "CERTIFICATE", der)
	write(".key", "EC PRIVATE KEY", keyDER)
	return &authority{t, dir, cert, key, name}
}

func newCA(t *testing.T, dir, name string) *authority {
	return makePair(t, dir, name, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}, nil)
}

func (a *authority) leaf(name, cn string, usage x509.ExtKeyUsage, orgs ...string) {
	makePair(a.t, a.dir, name, &x509.Certificate{Subject: pkix.Name{CommonName: cn, Organization: orgs},
		ExtKeyUsage: []x509.ExtKeyUsage{usage}, KeyUsage: x509.KeyUsageDigitalSignature,
		DNSNames: []string{"kubernetes.default.svc"}}, a)
}

// world is a running simulator with everybody who may call it.
type world struct {
	t   *testing.T
	sim *sim
	dir string
}

func newWorld(t *testing.T, servers ...serverConfig) *world {
	t.Helper()
	dir := t.TempDir()
	ca := newCA(t, dir, "ca")
	ca.leaf("server", "kube-apiserver", x509.ExtKeyUsageServerAuth)
	ca.leaf("admin", "admin", x509.ExtKeyUsageClientAuth, "system:masters")
	ca.leaf("alice", "alice", x509.ExtKeyUsageClientAuth, "dev", "qa")
	ca.leaf("wrong-eku", "alice", x509.ExtKeyUsageServerAuth)
	ca.leaf("proxy-by-ca", "front-proxy-client", x509.ExtKeyUsageClientAuth)
	front := newCA(t, dir, "front-proxy-ca")
	front.leaf("proxy", "front-proxy-client", x509.ExtKeyUsageClientAuth)
	front.leaf("other", "somebody-else", x509.ExtKeyUsageClientAuth)
	newCA(t, dir, "foreign-ca").leaf("foreign", "admin", x509.ExtKeyUsageClientAuth, "system:masters")
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte("good,bob,42,\"dev,ops\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if len(servers) == 0 {
		servers = []serverConfig{{Name: "a"}}
	}
	for i := range servers {
		c := &servers[i]
		c.CertFile, c.KeyFile = filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key")
		c.TokenCSV = tokens
		if c.ClientCA == "" {
			c.ClientCA = filepath.Join(dir, "ca.crt")
		}
		if c.ProxyCA == "" {
			c.ProxyCA = filepath.Join(dir, "front-proxy-ca.crt")
		}
		if c.ProxyNames == nil {
			c.ProxyNames = []string{"front-proxy-client"}
		}
	}
	w := &world{t: t, dir: dir, sim: newSim(&simConfig{Servers: servers}, false)}
	if err := w.sim.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.sim.close)
	return w
}

// as makes a client with a certificate ("" for none); h2 says whether it may speak HTTP/2.
func (w *world) as(name string, h2 bool) *http.Client {
	w.t.Helper()
	config := &tls.Config{InsecureSkipVerify: true}
	if name != "" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(w.dir, name+".crt"), filepath.Join(w.dir, name+".key"))
		if err != nil {
			w.t.Fatal(err)
		}
		// Presented whatever the server's hints say, as a front proxy's would be.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	if !h2 {
		config.NextProtos = []string{"http/1.1"}
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: h2, DisableCompression: true}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

func (w *world) url(server, path string) string {
	return "https://" + w.sim.server(server).address + path
}

// ask sends one request; headers are "Name: value".
func (w *world) ask(c *http.Client, method, url, body string, headers ...string) (*http.Response, []byte) {
	w.t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Content-Type" {
			r.Header.Set(name, value)
			continue
		}
		r.Header.Add(name, value)
	}
	response, err := c.Do(r)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, url, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, url, err)
	}
	return response, text
}

func (w *world) want(status int, r *http.Response, body []byte) object {
	w.t.Helper()
	if r.StatusCode != status {
		w.t.Fatalf("%s %s: %d, wanted %d: %s", r.Request.Method, r.Request.URL.Path, r.StatusCode, status, body)
	}
	o := object{}
	json.NewDecoder(bytes.NewReader(body)).Decode(&o)
	return o
}

// frames reads a watch.
type frames struct {
	t    *testing.T
	body io.ReadCloser
	scan *bufio.Scanner
}

func (w *world) watch(c *http.Client, url string) *frames {
	w.t.Helper()
	response, err := c.Get(url)
	if err != nil {
		w.t.Fatal(err)
	}
	if response.StatusCode != 200 {
		w.t.Fatalf("watch %s: %d", url, response.StatusCode)
	}
	w.t.Cleanup(func() { response.Body.Close() })
	scan := bufio.NewScanner(response.Body)
	scan.Buffer(nil, 1<<22)
	return &frames{w.t, response.Body, scan}
}

// next gives the type and object of the next frame; "" at the end.
func (f *frames) next() (string, object) {
	f.t.Helper()
	if !f.scan.Scan() {
		return "", nil
	}
	var frame struct {
		Type   string `json:"type"`
		Object object `json:"object"`
	}
	if err := json.Unmarshal(f.scan.Bytes(), &frame); err != nil {
		f.t.Fatalf("frame %q: %v", f.scan.Text(), err)
	}
	return frame.Type, frame.Object
}

func (f *frames) expect(kind, name string) object {
	f.t.Helper()
	got, o := f.next()
	if got != kind || (name != "" && metaString(o, "name") != name) {
		f.t.Fatalf("frame %s %v, wanted %s %s", got, o["metadata"], kind, name)
	}
	return o
}

func flushPause() { time.Sleep(5 * time.Millisecond) }
