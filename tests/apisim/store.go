// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"fmt"
	"sort"
	"strconv"
	"sync"
	"time"
)

// object is a Kubernetes object as JSON. Once in the store it is never changed, only replaced.
type object = map[string]interface{}

// event is one change of one object, with what it was before.
type event struct {
	rv   uint64
	kind string // ADDED, MODIFIED, DELETED
	ns   string
	name string
	obj  object
	prev object
}

// keptEvents bounds the history of one resource; older watches get 410.
const keptEvents = 20000

// store is the "etcd" that the servers share.
type store struct {
	mu        sync.Mutex
	rv        uint64
	objects   map[string]map[string]object // "group/resource" -> "ns/name" -> object
	events    map[string][]event
	compacted map[string]uint64 // events up to this version are forgotten
	wake      map[string]chan struct{}
	broken    map[string]uint64 // generation of "end all watches" commands
	hooks     []func()          // called after a change of CRDs or APIServices
}

func newStore() *store {
	s := &store{rv: 1, objects: map[string]map[string]object{}, events: map[string][]event{},
		compacted: map[string]uint64{}, wake: map[string]chan struct{}{}, broken: map[string]uint64{}}
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		s.create("", "namespaces", "", name, object{
			"metadata": object{"name": name, "labels": object{"kubernetes.io/metadata.name": name}},
			"spec":     object{"finalizers": []interface{}{"kubernetes"}},
			"status":   object{"phase": "Active"}})
	}
	return s
}

func storeKey(group, resource string) string { return group + "/" + resource }

func meta(o object) object {
	m, _ := o["metadata"].(object)
	return m
}

func metaString(o object, field string) string {
	s, _ := meta(o)[field].(string)
	return s
}

func copyObject(o object) object {
	out := make(object, len(o))
	for k, v := range o {
		out[k] = v
	}
	m := make(object, len(meta(o))+4)
	for k, v := range meta(o) {
		m[k] = v
	}
	out["metadata"] = m
	return out
}

func newUID() string {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err)
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// publish gives the object its resourceVersion, stores or deletes it, and wakes watchers.
// The lock is held.
func (s *store) publish(key, kind, ns, name string, o, prev object) object {
	s.rv++
	meta(o)["resourceVersion"] = strconv.FormatUint(s.rv, 10)
	if s.objects[key] == nil {
		s.objects[key] = map[string]object{}
	}
	if kind == "DELETED" {
		delete(s.objects[key], ns+"/"+name)
	} else {
		s.objects[key][ns+"/"+name] = o
	}
	log := append(s.events[key], event{s.rv, kind, ns, name, o, prev})
	if len(log) > keptEvents {
		s.compacted[key] = log[len(log)/2-1].rv
		log = append([]event(nil), log[len(log)/2:]...)
	}
	s.events[key] = log
	s.signal(key)
	return o
}

func (s *store) signal(key string) {
	if c := s.wake[key]; c != nil {
		close(c)
		delete(s.wake, key)
	}
}

func (s *store) runHooks(group, resource string) {
	if resource != "customresourcedefinitions" && resource != "apiservices" {
		return
	}
	s.mu.Lock()
	hooks := append([]func(){}, s.hooks...)
	s.mu.Unlock()
	for _, hook := range hooks {
		hook()
	}
}

func (s *store) get(group, resource, ns, name string) (object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[storeKey(group, resource)][ns+"/"+name]
	return o, ok
}

// list returns the objects of a namespace ("" for all) by key, and the store's version.
func (s *store) list(group, resource, ns string) ([]object, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.objects[storeKey(group, resource)]
	keys := make([]string, 0, len(all))
	for key, o := range all {
		if ns == "" || metaString(o, "namespace") == ns {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	out := make([]object, len(keys))
	for i, key := range keys {
		out[i] = all[key]
	}
	return out, s.rv
}

func (s *store) create(group, resource, ns, name string, o object) (object, *apiStatus) {
	key := storeKey(group, resource)
	s.mu.Lock()
	if _, there := s.objects[key][ns+"/"+name]; there {
		s.mu.Unlock()
		return nil, alreadyExists(group, resource, name)
	}
	o = copyObject(o)
	m := meta(o)
	m["name"] = name
	if ns != "" {
		m["namespace"] = ns
	}
	m["uid"] = newUID()
	m["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	delete(m, "deletionTimestamp")
	if _, hasSpec := o["spec"]; hasSpec {
		m["generation"] = 1
	}
	o = s.publish(key, "ADDED", ns, name, o, nil)
	s.mu.Unlock()
	s.runHooks(group, resource)
	return o, nil
}

// preconditions of an update or delete; zero values mean none.
type preconditions struct {
	uid, resourceVersion string
}

func (p preconditions) check(group, resource, name string, o object) *apiStatus {
	if p.uid != "" && p.uid != metaString(o, "uid") {
		return conflict(group, resource, name, fmt.Sprintf(
			"Precondition failed: UID in precondition: %s, UID in object meta: %s", p.uid, metaString(o, "uid")))
	}
	if p.resourceVersion != "" && p.resourceVersion != metaString(o, "resourceVersion") {
		return conflict(group, resource, name,
			"the object has been modified; please apply your changes to the latest version and try again")
	}
	return nil
}

// update replaces an object with what change makes of a copy of it, atomically.
func (s *store) update(group, resource, ns, name string, pre preconditions,
	change func(object) (object, *apiStatus)) (object, *apiStatus) {
	key := storeKey(group, resource)
	s.mu.Lock()
	old, there := s.objects[key][ns+"/"+name]
	if !there {
		s.mu.Unlock()
		return nil, notFound(group, resource, name)
	}
	if st := pre.check(group, resource, name, old); st != nil {
		s.mu.Unlock()
		return nil, st
	}
	o, st := change(copyObject(old))
	if st != nil {
		s.mu.Unlock()
		return nil, st
	}
	o = copyObject(o)
	m := meta(o)
	for _, field := range []string{"uid", "creationTimestamp", "name", "namespace", "resourceVersion"} {
		if v, ok := meta(old)[field]; ok {
			m[field] = v
		}
	}
	if sameJSON(o, old) {
		s.mu.Unlock()
		return old, nil // an update that changes nothing writes nothing
	}
	kind := "MODIFIED"
	if metaString(o, "deletionTimestamp") != "" && len(finalizers(o)) == 0 {
		kind = "DELETED" // the last finalizer went away
	}
	o = s.publish(key, kind, ns, name, o, old)
	s.mu.Unlock()
	s.runHooks(group, resource)
	return o, nil
}

func sameJSON(a, b object) bool {
	return string(mustJSON(a)) == string(mustJSON(b))
}

func finalizers(o object) []interface{} {
	list, _ := meta(o)["finalizers"].([]interface{})
	return list
}

// remove deletes an object, or marks it when finalizers hold it. gone tells which.
func (s *store) remove(group, resource, ns, name string, pre preconditions) (o object, gone bool, st *apiStatus) {
	key := storeKey(group, resource)
	s.mu.Lock()
	old, there := s.objects[key][ns+"/"+name]
	if !there {
		s.mu.Unlock()
		return nil, false, notFound(group, resource, name)
	}
	if st := pre.check(group, resource, name, old); st != nil {
		s.mu.Unlock()
		return nil, false, st
	}
	o = copyObject(old)
	if gone = len(finalizers(old)) == 0; gone {
		o = s.publish(key, "DELETED", ns, name, o, old)
	} else if metaString(old, "deletionTimestamp") == "" {
		meta(o)["deletionTimestamp"] = time.Now().UTC().Format(time.RFC3339)
		o = s.publish(key, "MODIFIED", ns, name, o, old)
	}
	s.mu.Unlock()
	s.runHooks(group, resource)
	return o, gone, nil
}

// since returns the events of a resource after rv, or the channel that closes with the next one.
// expired means that some of them are forgotten; generation changes when watches must end.
func (s *store) since(key string, rv uint64) (events []event, wake chan struct{}, expired bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rv < s.compacted[key] {
		return nil, nil, true
	}
	log := s.events[key]
	at := sort.Search(len(log), func(i int) bool { return log[i].rv > rv })
	if at < len(log) {
		return log[at:len(log):len(log)], nil, false
	}
	if s.wake[key] == nil {
		s.wake[key] = make(chan struct{})
	}
	return nil, s.wake[key], false
}

func (s *store) version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rv
}

func (s *store) oldest(key string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.compacted[key] + 1
}

// compact forgets history: watches that ask for an older version get 410. rv 0: all up to now.
func (s *store) compact(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv++ // so that even a watcher that has seen everything is behind
	s.compacted[key] = s.rv
	s.events[key] = nil
	s.signal(key)
}

func (s *store) generation(key string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken[key]
}

// endWatches makes every watch of the resource end cleanly, as a timeout would.
func (s *store) endWatches(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken[key]++
	s.signal(key)
}

// purge removes everything in a namespace that is being deleted.
func (s *store) purge(ns string) {
	s.mu.Lock()
	type victim struct{ key, name string }
	var victims []victim
	for key, all := range s.objects {
		for _, o := range all {
			if metaString(o, "namespace") == ns {
				victims = append(victims, victim{key, metaString(o, "name")})
			}
		}
	}
	s.mu.Unlock()
	for _, v := range victims {
		group, resource := splitKey(v.key)
		s.remove(group, resource, ns, v.name, preconditions{})
	}
}

func splitKey(key string) (group, resource string) {
	for i := len(key) - 1; i >= 0; i-- {
		if key[i] == '/' {
			return key[:i], key[i+1:]
		}
	}
	return "", key
}
