// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// controlHandler is the plain-HTTP interface for tests, all of it below /_sim/.
func (s *sim) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/_sim/servers", s.controlServers)
	mux.HandleFunc("/_sim/servers/", s.controlServer)
	mux.HandleFunc("/_sim/requests", s.controlRequests)
	mux.HandleFunc("/_sim/faults", s.controlFaults)
	mux.HandleFunc("/_sim/rules", s.controlRules)
	mux.HandleFunc("/_sim/store", s.controlStore)
	mux.HandleFunc("/_sim/compact", func(w http.ResponseWriter, r *http.Request) {
		s.store.compact(keyOf(r))
		reply(w, object{})
	})
	mux.HandleFunc("/_sim/end-watches", func(w http.ResponseWriter, r *http.Request) {
		s.store.endWatches(keyOf(r))
		reply(w, object{})
	})
	mux.HandleFunc("/_sim/reset", func(w http.ResponseWriter, r *http.Request) {
		s.records.reset()
		s.faults.clear(0)
		reply(w, object{})
	})
	return mux
}

// keyOf reads ?resource=leases.coordination.k8s.io.
func keyOf(r *http.Request) string {
	resource, group, _ := strings.Cut(r.URL.Query().Get("resource"), ".")
	return storeKey(group, resource)
}

func reply(w http.ResponseWriter, v interface{}) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

func complain(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(object{"error": err.Error()})
}

func strictJSON(r *http.Request, into interface{}) error {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// controlServers: GET tells about all, POST adds one.
func (s *sim) controlServers(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		var cfg serverConfig
		err := strictJSON(r, &cfg)
		if err == nil {
			err = s.add(cfg)
		}
		if err != nil {
			complain(w, 400, err)
			return
		}
	}
	reply(w, s.summary())
}

// controlServer: POST /_sim/servers/NAME/COMMAND.
func (s *sim) controlServer(w http.ResponseWriter, r *http.Request) {
	name, command, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/_sim/servers/"), "/")
	srv := s.server(name)
	if srv == nil {
		complain(w, 404, fmt.Errorf("no server %q", name))
		return
	}
	if command != "" && r.Method != http.MethodPost {
		complain(w, 405, fmt.Errorf("POST is needed"))
		return
	}
	var err error
	switch command {
	case "":
	case "stop":
		srv.end(true)
	case "kill":
		srv.end(false)
	case "start":
		if srv.isRunning() && r.ContentLength == 0 {
			break // is what was asked for
		}
		if err = s.reconfigure(srv, r); err == nil {
			err = srv.start()
		}
	case "cut":
		reply(w, object{"connections": srv.cut()})
		return
	case "pause-lease", "resume-lease":
		err = srv.pauseLease(command == "pause-lease")
	case "ready", "not-ready":
		srv.mu.Lock()
		srv.ready, srv.loading = command == "ready", false
		if srv.ready && srv.catalog != nil && srv.catalog.lateCRDs {
			srv.catalog.lateCRDs = false
			srv.catalog = srv.catalog.refreshed(srv.sim.store)
		}
		srv.mu.Unlock()
	case "apis":
		var want struct {
			RuntimeConfig []string `json:"runtime-config"`
			Extra         []apiRow `json:"extra"`
		}
		if err = strictJSON(r, &want); err == nil {
			err = srv.switchAPIs(want.RuntimeConfig, want.Extra)
		}
	default:
		err = fmt.Errorf("unknown command %q", command)
	}
	if err != nil {
		complain(w, 400, err)
		return
	}
	reply(w, srv.state())
}

// reconfigure changes a stopped server's settings: a body of start names those that change.
func (s *sim) reconfigure(srv *server, r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.running {
		return fmt.Errorf("is running")
	}
	cfg := srv.cfg
	if err := strictJSON(r, &cfg); err != nil {
		return err
	}
	cfg.Name = srv.cfg.Name
	if err := cfg.defaults(); err != nil {
		return err
	}
	if cfg.Listen != srv.cfg.Listen {
		srv.address = "" // else it comes back where it was
	}
	srv.cfg = cfg
	return nil
}

func (s *server) pauseLease(pause bool) error {
	s.mu.Lock()
	lease := s.lease
	s.mu.Unlock()
	if lease == nil {
		return fmt.Errorf("publishes no Lease")
	}
	lease.pause <- pause
	return nil
}

// controlRequests: GET ?server=&path=&since=SEQ; path is a prefix.
func (s *sim) controlRequests(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	since, _ := strconv.ParseInt(query.Get("since"), 10, 64)
	reply(w, object{"requests": s.records.since(since, func(rec *record) bool {
		return (query.Get("server") == "" || query.Get("server") == rec.Server) &&
			strings.HasPrefix(rec.Path, query.Get("path"))
	})})
}

// controlFaults: GET lists, POST adds, DELETE (?id=) removes.
func (s *sim) controlFaults(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		f := &fault{}
		err := strictJSON(r, f)
		if err == nil {
			err = s.faults.add(f)
		}
		if err != nil {
			complain(w, 400, err)
			return
		}
		reply(w, object{"id": f.ID})
	case http.MethodDelete:
		id, _ := strconv.Atoi(r.URL.Query().Get("id"))
		reply(w, object{"removed": s.faults.clear(id)})
	default:
		reply(w, object{"faults": s.faults.all()})
	}
}

func (s *sim) controlRules(w http.ResponseWriter, r *http.Request) {
	var rules []rule
	if r.Method == http.MethodPut {
		if err := strictJSON(r, &rules); err != nil {
			complain(w, 400, err)
			return
		}
		s.mu.Lock()
		s.rules = rules
		s.mu.Unlock()
	}
	reply(w, object{"rules": s.currentRules()})
}

// controlStore looks into and changes the store without a server: GET ?resource=R lists, PUT
// with an object writes it (creating it if needed), DELETE ?resource=R&namespace=N&name=X.
func (s *sim) controlStore(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	group, resource := splitKey(keyOf(r))
	switch r.Method {
	case http.MethodPut:
		body, st := readBody(r)
		o := object{}
		if st == nil {
			if err := decodeJSON(body, &o); err != nil {
				st = badRequest(err.Error())
			}
		}
		if st == nil && meta(o) == nil {
			st = badRequest("metadata is needed")
		}
		if st == nil {
			st = s.put(group, resource, o)
		}
		if st != nil {
			complain(w, st.Code, fmt.Errorf("%s", st.Message))
			return
		}
		reply(w, object{})
	case http.MethodDelete:
		if _, _, st := s.store.remove(group, resource, query.Get("namespace"), query.Get("name"), preconditions{}); st != nil {
			complain(w, st.Code, fmt.Errorf("%s", st.Message))
			return
		}
		reply(w, object{})
	default:
		list, rv := s.store.list(group, resource, query.Get("namespace"))
		if list == nil {
			list = []object{}
		}
		reply(w, object{"resourceVersion": rv, "items": list})
	}
}

// put writes an object whatever was there.
func (s *sim) put(group, resource string, o object) *apiStatus {
	ns, name := metaString(o, "namespace"), metaString(o, "name")
	_, st := s.store.update(group, resource, ns, name, preconditions{},
		func(object) (object, *apiStatus) { return stored(o), nil })
	if st != nil && st.Code == 404 {
		_, st = s.store.create(group, resource, ns, name, stored(o))
	}
	return st
}

// seed stores an object of the configuration; its kind is looked up in the catalog.
func (s *sim) seed(o object) error {
	kind, _ := o["kind"].(string)
	group, _ := splitGV(fmt.Sprint(o["apiVersion"]))
	for _, row := range profileRows(99) {
		if row.Kind == kind && row.Group == group && meta(o) != nil {
			if st := s.put(group, row.Resource, o); st != nil {
				return fmt.Errorf("object %s: %s", metaString(o, "name"), st.Message)
			}
			return nil
		}
	}
	return fmt.Errorf("object %v %v: unknown kind", o["apiVersion"], kind)
}
