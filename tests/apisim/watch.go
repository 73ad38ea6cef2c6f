// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// watcher is one watch while it runs.
type watcher struct {
	t         *target
	sel       *selector
	rv        uint64
	gen       uint64 // of "end all watches" when it began
	bookmarks bool
	send      func(kind string, o interface{}) error
	w         http.ResponseWriter
}

type watchFrame struct {
	Type   string      `json:"type"`
	Object interface{} `json:"object"`
}

// watch streams changes; each event leaves in a write of its own, flushed.
func (t *target) watch(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	sel, err := parseSelector(query)
	if err != nil {
		writeStatus(w, r, badRequest(err.Error()))
		return
	}
	from, err := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
	if text := query.Get("resourceVersion"); text != "" && err != nil {
		writeStatus(w, r, badRequest("Invalid value: \""+text+"\": strconv.ParseUint: parsing: invalid syntax"))
		return
	}
	if t.info.Name != "" {
		sel.terms = append(sel.terms, term{field: true, key: "metadata.name", op: "=", values: []string{t.info.Name}})
	}
	watch := &watcher{t: t, sel: sel, rv: from, bookmarks: isTrue(query.Get("allowWatchBookmarks")), w: w,
		gen: t.server.sim.store.generation(storeKey(t.row.Group, t.row.Resource))}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(200)
	flush(w)
	encoder := json.NewEncoder(w)
	watch.send = func(kind string, o interface{}) error {
		if err := encoder.Encode(watchFrame{kind, o}); err != nil {
			return err
		}
		flush(w)
		return nil
	}
	initial := isTrue(query.Get("sendInitialEvents"))
	if from == 0 || initial {
		if !watch.existing(initial) {
			return
		}
	}
	watch.run(r, timeoutOf(query.Get("timeoutSeconds")))
}

func isTrue(text string) bool { return text == "true" || text == "1" }

func timeoutOf(text string) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	return 30 * time.Minute
}

// existing sends what is there already; announce closes it with the bookmark that says so.
func (w *watcher) existing(announce bool) bool {
	all, rv := w.t.server.sim.store.list(w.t.row.Group, w.t.row.Resource, w.t.ns)
	w.rv = rv
	for _, o := range all {
		if w.sel.matches(o) && w.send("ADDED", w.t.shown(o)) != nil {
			return false
		}
	}
	return !announce || w.bookmark(object{"k8s.io/initial-events-end": "true"}) == nil
}

func (w *watcher) bookmark(notes object) error {
	m := object{"resourceVersion": strconv.FormatUint(w.rv, 10), "creationTimestamp": nil}
	if notes != nil {
		m["annotations"] = notes
	}
	return w.send("BOOKMARK", w.t.shown(object{"metadata": m}))
}

func (w *watcher) run(r *http.Request, limit time.Duration) {
	st := w.t.server.sim.store
	key := storeKey(w.t.row.Group, w.t.row.Resource)
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	ticker := time.NewTicker(time.Duration(w.t.server.cfg.Bookmarks))
	defer ticker.Stop()
	for {
		events, wake, expired := st.since(key, w.rv)
		if expired {
			w.send("ERROR", gone(w.rv, st.oldest(key)))
			return
		}
		for i := range events {
			if w.deliver(&events[i]) != nil {
				return
			}
		}
		// Looked at after the wake channel was taken: a command cannot fall between the two.
		if st.generation(key) != w.gen {
			return
		}
		if wake == nil {
			continue
		}
		select {
		case <-wake:
		case <-ticker.C:
			w.caughtUp(st, key)
			if w.bookmarks && w.bookmark(nil) != nil {
				return
			}
		case <-deadline.C:
			if w.caughtUp(st, key); w.bookmarks {
				w.bookmark(nil)
			}
			return
		case <-r.Context().Done():
			return
		}
	}
}

// caughtUp moves the watch's version to the store's when nothing of this resource is pending,
// so that a bookmark spares the client from a later 410.
func (w *watcher) caughtUp(st *store, key string) {
	now := st.version()
	if events, _, expired := st.since(key, w.rv); len(events) == 0 && !expired && now > w.rv {
		w.rv = now
	}
}

// deliver sends one event, in the words that fit the watch's selector: an object that begins to
// match is ADDED, one that ceases to is DELETED.
func (w *watcher) deliver(e *event) error {
	w.rv = e.rv
	if w.t.ns != "" && e.ns != w.t.ns {
		return nil
	}
	now := e.kind != "DELETED" && w.sel.matches(e.obj)
	before := e.prev != nil && w.sel.matches(e.prev)
	switch {
	case now && before:
		return w.send("MODIFIED", w.t.shown(e.obj))
	case now:
		return w.send("ADDED", w.t.shown(e.obj))
	case before:
		return w.send("DELETED", w.t.shown(e.obj))
	}
	return nil
}
