// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"time"
)

// subresource answers below a named object.
func (t *target) subresource(w http.ResponseWriter, r *http.Request) {
	st := t.server.sim.store
	o, ok := st.get(t.row.Group, t.row.Resource, t.ns, t.info.Name)
	if !ok {
		writeStatus(w, r, notFound(t.row.Group, t.row.Resource, t.info.Name))
		return
	}
	if t.server.cfg.Kubelet != "" && t.atKubelet(w, r) {
		return
	}
	switch t.info.Subresource {
	case "log":
		t.logs(w, r, o)
	case "exec", "attach", "portforward", "proxy":
		t.upgrade(w, r)
	case "binding", "eviction", "token":
		body, bad := readObject(r)
		if bad != nil {
			writeStatus(w, r, bad)
			return
		}
		writeJSON(w, r, 201, body)
	default:
		t.part(w, r, o)
	}
}

// part serves subresources that show or change a piece of the object (status, resize, scale ...):
// a status write changes the status only, any other one everything but the status.
func (t *target) part(w http.ResponseWriter, r *http.Request, o object) {
	if t.info.Verb == "get" {
		t.reply(w, r, 200, o, nil)
		return
	}
	body, st := readBody(r)
	if st != nil {
		writeStatus(w, r, st)
		return
	}
	contentType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	pre := preconditions{}
	updated, st := t.server.sim.store.update(t.row.Group, t.row.Resource, t.ns, t.info.Name, pre,
		func(old object) (object, *apiStatus) {
			var next object
			if t.info.Verb == "patch" {
				var bad *apiStatus
				if next, bad = patched(old, contentType, body); bad != nil {
					return nil, bad
				}
			} else {
				next = object{}
				if err := decodeJSON(body, &next); err != nil {
					return nil, badRequest(err.Error())
				}
				if next = stored(next); metaString(next, "resourceVersion") != "" &&
					metaString(next, "resourceVersion") != metaString(old, "resourceVersion") {
					return nil, conflict(t.row.Group, t.row.Resource, t.info.Name,
						"the object has been modified; please apply your changes to the latest version and try again")
				}
			}
			if t.info.Subresource == "status" {
				out := copyObject(old)
				out["status"] = next["status"]
				return out, nil
			}
			if status, ok := old["status"]; ok {
				next["status"] = status
			}
			return stored(next), nil
		})
	t.reply(w, r, 200, updated, st)
}

func note(o object, name string, fallback int) int {
	notes, _ := meta(o)["annotations"].(object)
	if text, ok := notes[name].(string); ok {
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
	}
	return fallback
}

// logs streams numbered lines: sim/log-lines of them at once (10), and with follow one more
// every sim/log-interval-ms (100) until the client leaves or sim/log-follow of them are out.
func (t *target) logs(w http.ResponseWriter, r *http.Request, o object) {
	lines := note(o, "sim/log-lines", 10)
	w.Header().Set("Content-Type", "text/plain")
	if tail, err := strconv.Atoi(r.URL.Query().Get("tailLines")); err == nil && tail < lines {
		lines = tail
	}
	for n := 1; n <= lines; n++ {
		fmt.Fprintf(w, "line %d\n", n)
	}
	if follow := r.URL.Query().Get("follow"); follow != "true" && follow != "1" {
		return
	}
	flush(w)
	ticker := time.NewTicker(time.Duration(note(o, "sim/log-interval-ms", 100)) * time.Millisecond)
	defer ticker.Stop()
	limit := note(o, "sim/log-follow", 1<<30)
	for n := 1; n <= limit; n++ {
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
			fmt.Fprintf(w, "line %d\n", lines+n)
			flush(w)
		}
	}
}

// review answers the resources that only know create.
func (t *target) review(w http.ResponseWriter, r *http.Request, o object) {
	o["kind"], o["apiVersion"] = t.row.Kind, joinGV(t.row.Group, t.row.Version)
	switch t.row.Resource {
	case "selfsubjectreviews":
		o["metadata"] = object{"creationTimestamp": nil}
		o["status"] = object{"userInfo": t.who}
	case "selfsubjectaccessreviews", "subjectaccessreviews", "localsubjectaccessreviews":
		o["status"] = object{"allowed": t.reviewed(o)}
	}
	writeJSON(w, r, 201, o)
}

func (t *target) reviewed(o object) bool {
	spec, _ := o["spec"].(object)
	who := t.who
	if name := text(spec, "user"); name != "" {
		who = withAuthenticated(&user{Name: name, Groups: texts(spec["groups"])})
	}
	info := &requestInfo{}
	if attributes, ok := spec["resourceAttributes"].(object); ok {
		info.Resource, info.Verb, info.Group = true, text(attributes, "verb"), text(attributes, "group")
		info.Kind, info.Subresource = text(attributes, "resource"), text(attributes, "subresource")
		info.Namespace, info.Name = text(attributes, "namespace"), text(attributes, "name")
	} else if attributes, ok := spec["nonResourceAttributes"].(object); ok {
		info.Verb, info.Path = text(attributes, "verb"), text(attributes, "path")
	}
	return allowed(t.server.sim.currentRules(), who, info)
}
