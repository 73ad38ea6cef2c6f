// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// The flow schema and priority level of everything: cluster objects, so the same on all servers.
const (
	flowSchemaUID    = "7f3ad2c1-5a0b-4c7e-9d3e-000000000001"
	priorityLevelUID = "7f3ad2c1-5a0b-4c7e-9d3e-000000000002"
)

// call is one request on its way through a server.
type call struct {
	server *server
	cat    *catalog
	who    *user
	info   *requestInfo
}

// serve is the chain of a kube-apiserver: audit, request info, authentication, impersonation,
// authorization, then the resource or path. Faults come after authentication, before any answer.
func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	audit := r.Header.Get("Audit-Id")
	if audit == "" {
		audit = newUID()
	}
	w.Header().Set("Audit-Id", audit)
	w.Header().Set("Cache-Control", "no-cache, private")
	rec := s.sim.records.begin(s, r)
	r, body := countBody(r, rec)
	info, infoErr := parseRequestInfo(r)
	who, authErr := s.auth.authenticate(r)
	s.sim.records.authenticated(rec, who, authErr)
	s.sim.logf("%s %s %s user=%v", s.cfg.Name, r.Method, r.RequestURI, userName(who))
	out := &statusWriter{ResponseWriter: w}
	defer func() { s.sim.records.end(rec, out.status, body.n, r.Context().Err() != nil) }()

	f := s.sim.faults.match(s.cfg.Name, r)
	var writer http.ResponseWriter = out
	if f != nil {
		wrapped, done := f.apply(out, r)
		if done {
			return
		}
		defer wrapped.finish()
		writer = wrapped
	}
	if infoErr != nil {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		http.Error(writer, fmt.Sprintf("Internal Server Error: %q: failed to create RequestInfo: %v", r.RequestURI, infoErr), 500)
		return
	}
	if s.authWatcher(r, who, authErr) {
		w.Header().Set("Connection", "close")
	}
	if authErr != nil {
		writeStatus(writer, r, failure(401, "Unauthorized", "Unauthorized", nil))
		return
	}
	c := &call{server: s, cat: s.currentCatalog(), who: who, info: info}
	c.run(writer, r)
}

// authWatcher: over HTTP/2 a request that failed to authenticate, or is anonymous, costs the
// client its connection (since 1.29).
func (s *server) authWatcher(r *http.Request, who *user, err error) bool {
	return r.ProtoMajor == 2 && s.minor >= 29 && (err != nil || who.Name == anonymousName)
}

func userName(u *user) string {
	if u == nil {
		return "-"
	}
	return u.Name
}

func (c *call) run(w http.ResponseWriter, r *http.Request) {
	rules := c.server.sim.currentRules()
	as, refused := impersonate(rules, c.who, r)
	if refused != nil {
		writeStatus(w, r, refused)
		return
	}
	c.who = as
	w.Header().Set("X-Kubernetes-Pf-Flowschema-Uid", flowSchemaUID)
	w.Header().Set("X-Kubernetes-Pf-Prioritylevel-Uid", priorityLevelUID)
	if !allowed(rules, c.who, c.info) || (c.server.isLoading() && !allowedUnread(c.who, c.info)) {
		writeStatus(w, r, forbidden(c.who, c.info))
		return
	}
	if strings.HasPrefix(r.URL.Path, "//") { // the director looks for prefixes, unlike requestInfo
		plainNotFound(w, r)
		return
	}
	if c.info.Resource {
		c.resource(w, r)
		return
	}
	c.path(w, r)
}

// path answers what is not a resource.
func (c *call) path(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	switch path {
	case "/api", "/api/":
		if !c.cat.serveAggregated(w, r) {
			c.cat.serveLegacyAPI(w, r, c.server.address)
		}
		return
	case "/apis":
		if !c.cat.serveAggregated(w, r) {
			c.cat.serveLegacyAPIs(w, r)
		}
		return
	case "/apis/":
		c.cat.serveLegacyAPIs(w, r)
		return
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) == 2:
		c.cat.serveLegacyVersion(w, r, "", parts[1])
	case parts[0] == "apis" && len(parts) == 2:
		c.cat.serveLegacyGroup(w, r, parts[1])
	case parts[0] == "apis" && len(parts) == 3:
		c.cat.serveLegacyVersion(w, r, parts[1], parts[2])
	case parts[0] == "openapi" && len(parts) >= 2 && parts[1] == "v3":
		c.openAPI(w, r, parts[2:])
	case parts[0] == "sim":
		c.simPath(w, r, strings.Join(parts[1:], "/"))
	default:
		c.wellKnown(w, r, path)
	}
}

func (c *call) wellKnown(w http.ResponseWriter, r *http.Request, path string) {
	switch strings.TrimSuffix(path, "/") {
	case "":
		writeJSON(w, r, 200, object{"paths": []string{"/api", "/api/v1", "/apis", "/healthz", "/livez",
			"/openapi/v3", "/readyz", "/version"}})
	case "/version":
		version := c.server.cfg.Profile
		if strings.Count(version, ".") == 1 {
			version += ".0"
		}
		writeJSON(w, r, 200, object{"major": "1", "minor": fmt.Sprint(c.server.minor), "gitVersion": version,
			"gitTreeState": "clean", "platform": "linux/amd64"})
	case "/openapi/v2":
		writeJSON(w, r, 200, object{"swagger": "2.0", "info": object{"title": "apisim", "version": fmt.Sprintf("v1.%d.0", c.server.minor)}})
	case "/healthz", "/livez", "/readyz":
		c.health(w, r)
	default:
		plainNotFound(w, r)
	}
}

func (c *call) health(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	name := strings.Trim(r.URL.Path, "/")
	if name == "readyz" && !c.server.isReady() {
		failed := "shutdown"
		if c.server.isLoading() {
			failed = "informer-sync"
		}
		w.WriteHeader(500)
		fmt.Fprintf(w, "[+]ping ok\n[-]%s failed: reason withheld\n%s check failed\n", failed, name)
		return
	}
	if _, verbose := r.URL.Query()["verbose"]; verbose {
		fmt.Fprintf(w, "[+]ping ok\n[+]log ok\n%s check passed\n", name)
		return
	}
	fmt.Fprint(w, "ok")
}

// openAPI serves the index and one document for each group/version: paths only, with the
// parameter by which kubectl learns that the server validates fields.
func (c *call) openAPI(w http.ResponseWriter, r *http.Request, rest []string) {
	if len(rest) == 0 {
		paths := object{}
		for gv := range c.cat.byGV {
			at := "apis/" + gv
			if !strings.Contains(gv, "/") {
				at = "api/" + gv
			}
			paths[at] = object{"serverRelativeURL": "/openapi/v3/" + at + "?hash=" + strings.Trim(hashTag(mustJSON(c.cat.openAPIDocument(gv))), `"`)}
		}
		text := mustJSON(object{"paths": paths})
		w.Header().Set("ETag", hashTag(text))
		if r.Header.Get("If-None-Match") == hashTag(text) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		writeBytes(w, r, "application/json", text)
		return
	}
	gv := strings.Join(rest[1:], "/")
	if !c.cat.knowsGV(splitGV(gv)) {
		plainNotFound(w, r)
		return
	}
	text := mustJSON(c.cat.openAPIDocument(gv))
	tag := hashTag(text)
	if hash := r.URL.Query().Get("hash"); hash != "" && hash != strings.Trim(tag, `"`) {
		http.Redirect(w, r, r.URL.Path+"?hash="+strings.Trim(tag, `"`), http.StatusMovedPermanently)
		return
	}
	w.Header().Set("ETag", tag)
	w.Header().Set("Vary", "Accept")
	if r.URL.Query().Get("hash") != "" {
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if !jsonAcceptable(r.Header.Values("Accept")) {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	writeBytes(w, r, "application/json", text)
}

func (c *catalog) openAPIDocument(gv string) object {
	paths := object{}
	for _, row := range c.byGV[gv] {
		at := "/apis/" + gv + "/"
		if row.Group == "" {
			at = "/api/" + gv + "/"
		}
		if row.Namespaced {
			at += "namespaces/{namespace}/"
		}
		paths[at+row.Resource+"/{name}"] = object{"patch": object{
			"parameters":                      []interface{}{object{"name": "fieldValidation", "in": "query"}},
			"x-kubernetes-group-version-kind": object{"group": row.Group, "version": row.Version, "kind": row.Kind}}}
	}
	return object{"openapi": "3.0.0", "info": object{"title": "apisim", "version": fmt.Sprintf("v1.%d.0", c.minor)}, "paths": paths}
}
