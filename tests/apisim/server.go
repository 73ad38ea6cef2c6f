// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// server is one kube-apiserver: its listener, its users, what it serves, its Lease.
type server struct {
	sim *sim
	cfg serverConfig

	mu      sync.Mutex
	minor   int
	address string
	auth    *authenticator
	http    *http.Server
	lease   *leaseKeeper
	conns   map[*conn]struct{}
	running bool
	ready   bool
	loading bool // started, and knows nobody's rights yet
	catalog *catalog

	accepted int64 // connections since the start of the simulator
}

// conn is a TCP connection that can be cut, and that is numbered.
type conn struct {
	net.Conn
	id     int64
	server *server
	tls    *tls.Conn
	closed int32

	whenIdle atomic.Value // *fault: ends the connection once the answer is out
}

func (c *conn) Close() error {
	if atomic.SwapInt32(&c.closed, 1) == 0 {
		c.server.mu.Lock()
		delete(c.server.conns, c)
		c.server.mu.Unlock()
	}
	return c.Conn.Close()
}

// idle is told by net/http when an answer is out and the connection waits for the next request.
func (c *conn) idle() {
	f, _ := c.whenIdle.Load().(*fault)
	if f == nil {
		return
	}
	go func() {
		f.wait(nil, time.Duration(f.MS)*time.Millisecond)
		if f.How == "reset" {
			c.reset()
		} else {
			c.Close()
		}
	}()
}

// reset closes the connection with a TCP RST.
func (c *conn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}

// start binds (to the same address as before, if there was one) and serves.
func (s *server) start() error {
	if err := s.bindAndServe(); err != nil {
		return err
	}
	s.currentCatalog().register(s.sim.store)
	return nil
}

func (s *server) bindAndServe() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return fmt.Errorf("is running")
	}
	minor, err := minorOf(s.cfg.Profile)
	if err != nil {
		return err
	}
	config, err := s.tlsConfig()
	if err != nil {
		return err
	}
	auth, err := newAuthenticator(&s.cfg)
	if err != nil {
		return err
	}
	cat, err := newCatalog(&s.cfg, minor, s.sim.store)
	if err != nil {
		return err
	}
	address := s.address
	if address == "" {
		address = s.cfg.Listen
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	s.address = listener.Addr().String()
	s.minor, s.auth, s.catalog = minor, auth, cat
	s.conns = map[*conn]struct{}{}
	s.http = s.httpServer(config)
	s.running, s.ready, s.loading = true, !s.cfg.StartsUnready, s.cfg.StartsUnready
	if s.cfg.publishes(minor) {
		s.lease = startLease(s.sim.store, s.cfg, minor, s.address)
	}
	go s.http.Serve(&tlsListener{Listener: listener, server: s, config: config})
	return nil
}

func (s *server) httpServer(config *tls.Config) *http.Server {
	sink := io.Discard
	if s.sim.verbose {
		sink = os.Stderr
	}
	return &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		TLSConfig:         config,
		ReadHeaderTimeout: 32 * time.Second,
		IdleTimeout:       90 * time.Second,
		MaxHeaderBytes:    1 << 20,
		ErrorLog:          log.New(sink, "apisim http ", 0),
		ConnState: func(c net.Conn, state http.ConnState) {
			if t, ok := c.(*tls.Conn); ok && state == http.StateIdle {
				if own, ok := t.NetConn().(*conn); ok {
					own.idle()
				}
			}
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if t, ok := c.(*tls.Conn); ok {
				return context.WithValue(ctx, connKey{}, t.NetConn())
			}
			return ctx
		},
	}
}

type connKey struct{}

func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// tlsConfig asks for a client certificate without requiring or checking it, and names both CAs.
func (s *server) tlsConfig() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(s.cfg.CertFile, s.cfg.KeyFile)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2", "http/1.1"}}
	if s.cfg.HTTP1Only {
		config.NextProtos = []string{"http/1.1"}
	}
	hints := x509.NewCertPool()
	for _, path := range []string{s.cfg.ClientCA, s.cfg.ProxyCA} {
		if path == "" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		hints.AppendCertsFromPEM(text)
		config.ClientCAs = hints
	}
	return config, nil
}

// tlsListener numbers connections and applies the faults that come before a request.
type tlsListener struct {
	net.Listener
	server *server
	config *tls.Config
}

func (l *tlsListener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		s := l.server
		c := &conn{Conn: raw, id: s.sim.records.nextConn(), server: s}
		s.mu.Lock()
		if !s.running {
			s.mu.Unlock()
			raw.Close()
			continue
		}
		s.accepted++
		s.conns[c] = struct{}{}
		s.mu.Unlock()
		if f := s.sim.faults.onAccept(s.cfg.Name); f != nil {
			go f.atHandshake(c)
			continue
		}
		c.tls = tls.Server(c, l.config)
		return c.tls, nil
	}
}

// end closes the server's port. A graceful end lets short requests finish and removes the
// Lease where the version does so; otherwise every connection is reset and the Lease stays.
func (s *server) end(graceful bool) {
	s.mu.Lock()
	if !s.running {
		s.mu.Unlock()
		return
	}
	s.ready = false
	lease, web := s.lease, s.http
	s.lease = nil
	s.mu.Unlock()
	if lease != nil {
		lease.end(graceful)
	}
	if graceful {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		web.Shutdown(ctx)
		cancel()
	}
	s.mu.Lock()
	s.running = false
	open := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		open = append(open, c)
	}
	s.mu.Unlock()
	for _, c := range open {
		if graceful {
			c.Close()
		} else {
			c.reset()
		}
	}
	web.Close()
}

// cut resets all open connections and goes on serving.
func (s *server) cut() int {
	s.mu.Lock()
	open := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		open = append(open, c)
	}
	s.mu.Unlock()
	for _, c := range open {
		c.reset()
	}
	return len(open)
}

func (s *server) state() object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return object{"address": s.address, "id": serverID(s.cfg.Hostname), "hostname": s.cfg.Hostname,
		"profile": s.cfg.Profile, "running": s.running, "accepted": s.accepted, "open": len(s.conns)}
}

func (s *server) isRunning() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

func (s *server) isReady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

func (s *server) isLoading() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loading
}

func (s *server) currentCatalog() *catalog {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.catalog
}

// catalogChanged looks again at what the store's CRDs and APIServices add.
func (s *server) catalogChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.catalog != nil {
		s.catalog = s.catalog.refreshed(s.sim.store)
	}
}

// switchAPIs applies --runtime-config like settings to the running server.
func (s *server) switchAPIs(settings []string, extra []apiRow) error {
	s.mu.Lock()
	cfg := s.cfg
	cfg.RuntimeConfig = settings
	cfg.Extra = extra
	cat, err := newCatalog(&cfg, s.minor, s.sim.store)
	if err == nil {
		s.cfg, s.catalog = cfg, cat
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	cat.register(s.sim.store)
	return nil
}
