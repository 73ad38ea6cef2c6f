// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
)

// sim is the whole: one store, several servers, one control interface.
type sim struct {
	cfg     *simConfig
	store   *store
	records *recorder
	faults  *faultTable
	servers []*server
	verbose bool
	control *http.Server
	address string

	mu    sync.Mutex
	rules []rule
}

func newSim(cfg *simConfig, verbose bool) *sim {
	limit := cfg.Records
	if limit == 0 {
		limit = 100000
	}
	return &sim{cfg: cfg, store: newStore(), records: newRecorder(limit), faults: newFaultTable(),
		verbose: verbose, rules: cfg.Rules}
}

func (s *sim) start() error {
	if len(s.cfg.Servers) == 0 {
		return fmt.Errorf("no server is configured")
	}
	for _, o := range s.cfg.Objects {
		if err := s.seed(o); err != nil {
			return err
		}
	}
	for i := range s.cfg.Servers {
		if err := s.add(s.cfg.Servers[i]); err != nil {
			return err
		}
	}
	address := s.cfg.Control
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	s.address = listener.Addr().String()
	s.control = &http.Server{Handler: s.controlHandler()}
	go s.control.Serve(listener)
	return nil
}

// add makes and starts one more server.
func (s *sim) add(cfg serverConfig) error {
	if err := cfg.defaults(); err != nil {
		return err
	}
	if s.server(cfg.Name) != nil {
		return fmt.Errorf("server %s exists", cfg.Name)
	}
	srv := &server{sim: s, cfg: cfg}
	if err := srv.start(); err != nil {
		return fmt.Errorf("server %s: %v", cfg.Name, err)
	}
	s.mu.Lock()
	s.servers = append(s.servers, srv)
	s.mu.Unlock()
	s.store.mu.Lock()
	s.store.hooks = append(s.store.hooks, srv.catalogChanged)
	s.store.mu.Unlock()
	srv.catalogChanged()
	return nil
}

func (s *sim) all() []*server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*server(nil), s.servers...)
}

func (s *sim) server(name string) *server {
	for _, srv := range s.all() {
		if srv.cfg.Name == name {
			return srv
		}
	}
	return nil
}

func (s *sim) currentRules() []rule {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rules
}

func (s *sim) close() {
	for _, srv := range s.all() {
		srv.end(false)
	}
	if s.control != nil {
		s.control.Close()
	}
}

func (s *sim) logf(format string, args ...interface{}) {
	if s.verbose {
		log.Printf(format, args...)
	}
}

// summary is what the start line and GET /_sim/servers say.
func (s *sim) summary() object {
	servers := object{}
	for _, srv := range s.all() {
		servers[srv.cfg.Name] = srv.state()
	}
	return object{"control": s.address, "servers": servers}
}
