// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// user is who a request comes from.
type user struct {
	Name   string              `json:"username"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

const (
	uidOID          = "1.3.6.1.4.1.57683.2"
	credentialID    = "authentication.kubernetes.io/credential-id"
	anonymousName   = "system:anonymous"
	authenticated   = "system:authenticated"
	unauthenticated = "system:unauthenticated"
	bearerProtocol  = "base64url.bearer.authorization.k8s.io."
)

// authenticator holds what a server was configured with.
type authenticator struct {
	cfg      *serverConfig
	minor    int
	clientCA *x509.CertPool
	proxyCA  *x509.CertPool
	tokens   map[string]*user
}

func newAuthenticator(cfg *serverConfig) (*authenticator, error) {
	a := &authenticator{cfg: cfg}
	a.minor, _ = minorOf(cfg.Profile)
	var err error
	if cfg.ClientCA != "" {
		if a.clientCA, err = loadPool(cfg.ClientCA); err != nil {
			return nil, err
		}
	}
	if cfg.ProxyCA != "" {
		if a.proxyCA, err = loadPool(cfg.ProxyCA); err != nil {
			return nil, err
		}
	}
	if cfg.TokenCSV != "" {
		if a.tokens, err = loadTokens(cfg.TokenCSV); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func loadPool(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: no certificate", path)
	}
	return pool, nil
}

func loadTokens(path string) (map[string]*user, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reader := csv.NewReader(file)
	reader.FieldsPerRecord = -1
	lines, err := reader.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %v", path, err)
	}
	tokens := map[string]*user{}
	for _, line := range lines {
		if len(line) < 3 {
			return nil, fmt.Errorf("%s: token, user and uid are needed", path)
		}
		u := &user{Name: line[1], UID: line[2]}
		if len(line) > 3 {
			u.Groups = splitList(line[3])
		}
		tokens[line[0]] = u
	}
	return tokens, nil
}

// authenticate asks request header, client certificate and tokens in this order. The first
// success wins and swallows errors; without a success an error blocks the anonymous user.
func (a *authenticator) authenticate(r *http.Request) (*user, error) {
	var failed error
	for _, method := range []func(*http.Request) (*user, error){a.byHeader, a.byCertificate, a.byToken} {
		u, err := method(r)
		if u != nil {
			a.forget(r)
			return withAuthenticated(u), nil
		}
		if err != nil {
			failed = err
		}
	}
	if failed != nil {
		return nil, failed
	}
	if a.cfg.NoAnonymous {
		return nil, errors.New("no credentials")
	}
	a.forget(r)
	return &user{Name: anonymousName, Groups: []string{unauthenticated}}, nil
}

func withAuthenticated(u *user) *user {
	if u.Name == anonymousName {
		return u
	}
	for _, g := range u.Groups {
		if g == authenticated || g == unauthenticated {
			return u
		}
	}
	out := *u
	out.Groups = append(append([]string(nil), u.Groups...), authenticated)
	return &out
}

// forget removes the credentials, so that they cannot travel on.
func (a *authenticator) forget(r *http.Request) {
	r.Header.Del("Authorization")
	for _, list := range [][]string{a.cfg.UsernameHeaders, a.cfg.UIDHeaders, a.cfg.GroupHeaders,
		{"X-Remote-User", "X-Remote-Uid", "X-Remote-Group"}} {
		for _, name := range list {
			r.Header.Del(name)
		}
	}
	for name := range r.Header {
		for _, prefix := range append([]string{"X-Remote-Extra-"}, a.cfg.ExtraPrefixes...) {
			if hasPrefixFold(name, prefix) {
				r.Header.Del(name)
			}
		}
	}
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// verify checks the connection's leaf certificate against one pool, for client authentication.
func verify(r *http.Request, pool *x509.CertPool) (*x509.Certificate, error) {
	certs := r.TLS.PeerCertificates
	options := x509.VerifyOptions{Roots: pool, Intermediates: x509.NewCertPool(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, c := range certs[1:] {
		options.Intermediates.AddCert(c)
	}
	if _, err := certs[0].Verify(options); err != nil {
		return nil, fmt.Errorf("verifying certificate SN=%d failed: %v", certs[0].SerialNumber, err)
	}
	return certs[0], nil
}

func hasCertificate(r *http.Request) bool {
	return r.TLS != nil && len(r.TLS.PeerCertificates) > 0
}

// byHeader: a verified front proxy may say who the user is. Without a user header it says
// nothing, and that is no error.
func (a *authenticator) byHeader(r *http.Request) (*user, error) {
	if a.proxyCA == nil || !hasCertificate(r) {
		return nil, nil
	}
	leaf, err := verify(r, a.proxyCA)
	if err != nil {
		return nil, err
	}
	if !allowedName(a.cfg.ProxyNames, leaf.Subject.CommonName) {
		return nil, fmt.Errorf("x509: subject with cn=%s is not in the allowed list", leaf.Subject.CommonName)
	}
	name := firstHeader(r, a.cfg.UsernameHeaders)
	if name == "" {
		return nil, nil
	}
	u := &user{Name: name, UID: firstHeader(r, a.cfg.UIDHeaders), Extra: a.extra(r)}
	for _, header := range a.cfg.GroupHeaders {
		for _, group := range r.Header.Values(header) {
			if group != "" {
				u.Groups = append(u.Groups, group)
			}
		}
	}
	return u, nil
}

func allowedName(names []string, cn string) bool {
	for _, name := range names {
		if name == cn {
			return true
		}
	}
	return len(names) == 0
}

func firstHeader(r *http.Request, names []string) string {
	for _, name := range names {
		if value := r.Header.Get(name); value != "" {
			return value
		}
	}
	return ""
}

func (a *authenticator) extra(r *http.Request) map[string][]string {
	var out map[string][]string
	for _, prefix := range a.cfg.ExtraPrefixes {
		for name, values := range r.Header {
			if !hasPrefixFold(name, prefix) {
				continue
			}
			key := strings.ToLower(name[len(prefix):])
			if plain, err := url.PathUnescape(key); err == nil {
				key = plain
			}
			if out == nil {
				out = map[string][]string{}
			}
			out[key] = append(out[key], values...)
		}
	}
	return out
}

// byCertificate: CN is the name, every O a group. A certificate that does not verify is an error.
func (a *authenticator) byCertificate(r *http.Request) (*user, error) {
	if a.clientCA == nil || !hasCertificate(r) {
		return nil, nil
	}
	leaf, err := verify(r, a.clientCA)
	if err != nil {
		return nil, err
	}
	if leaf.Subject.CommonName == "" {
		return nil, nil
	}
	u := &user{Name: leaf.Subject.CommonName, Groups: append([]string(nil), leaf.Subject.Organization...)}
	if a.minor >= 33 {
		for _, attribute := range leaf.Subject.Names {
			if value, ok := attribute.Value.(string); ok && attribute.Type.String() == uidOID {
				u.UID = value
			}
		}
	}
	if a.minor >= 32 {
		sum := sha256.Sum256(leaf.Raw)
		u.Extra = map[string][]string{credentialID: {"X509SHA256=" + hex.EncodeToString(sum[:])}}
	}
	return u, nil
}

func (a *authenticator) byToken(r *http.Request) (*user, error) {
	if a.tokens == nil {
		return nil, nil
	}
	token := bearerToken(r)
	if token == "" {
		token = webSocketToken(r)
	}
	if token == "" {
		return nil, nil
	}
	if u, ok := a.tokens[token]; ok {
		return u, nil
	}
	return nil, errors.New("invalid bearer token")
}

func bearerToken(r *http.Request) string {
	parts := strings.SplitN(strings.TrimSpace(r.Header.Get("Authorization")), " ", 3)
	if len(parts) < 2 || !strings.EqualFold(parts[0], "bearer") {
		return ""
	}
	return parts[1]
}

// webSocketToken reads the token that browsers carry as a sub-protocol.
func webSocketToken(r *http.Request) string {
	if !isUpgrade(r) || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return ""
	}
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for _, protocol := range strings.Split(line, ",") {
			protocol = strings.TrimSpace(protocol)
			if strings.HasPrefix(protocol, bearerProtocol) {
				text, err := base64.RawURLEncoding.DecodeString(protocol[len(bearerProtocol):])
				if err == nil {
					return string(text)
				}
			}
		}
	}
	return ""
}
