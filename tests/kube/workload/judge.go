// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// verdict is what there is to say in the end. Wrong is wrong in any case:
//   - an object is read, listed or cached otherwise than it was written;
//   - within what one watch covers (from where it began to the last version it told of) a write is missing, comes twice or out of order;
//   - a handler is told of an object twice, of an older version, or of a deletion of what is not there;
//   - the cache does not become what is stored.
//
// Failures of the writer's requests are what client-go did not ride through; which of them may happen the caller knows. The informer's own
// failed requests (Ridden) client-go repeats for ever.
type verdict struct {
	Writes   int       `json:"writes"`
	Events   int       `json:"events"`
	Handled  int       `json:"handled"`
	Lists    int       `json:"lists"`
	Watches  int       `json:"watches"`
	Wrong    []string  `json:"wrong"`
	Failures []failure `json:"failures"`
	Ridden   []failure `json:"ridden"`
}

const settleLimit = 90 * time.Second // for broken things, not a measurement

func judge(client dynamic.ResourceInterface, store cache.Store, t *truth, seen *witness) *verdict {
	stored, err := list(client)
	if err != nil {
		t.isWrong("the last list: %v", err)
	}
	difference := cacheDiffers(store, stored)
	for end := time.Now().Add(settleLimit); difference != "" && time.Now().Before(end); difference = cacheDiffers(store, stored) {
		time.Sleep(50 * time.Millisecond)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	seen.mu.Lock()
	defer seen.mu.Unlock()
	v := &verdict{Writes: len(t.writes) + len(t.deleted), Handled: seen.handled, Lists: seen.lists, Watches: len(seen.sessions),
		Wrong: append(append([]string{}, t.wrong...), seen.wrong...), Failures: append([]failure{}, t.failures...),
		Ridden: append([]failure{}, seen.failures...)}
	if difference != "" {
		v.Wrong = append(v.Wrong, "the cache in the end: "+difference)
	}
	v.Wrong = append(v.Wrong, storeDiffers(stored, t)...)
	v.Wrong = append(v.Wrong, orderOf(t.writes)...)
	for _, s := range seen.sessions {
		v.Events += len(s.events)
		v.Wrong = append(v.Wrong, sessionDiffers(s, t)...)
	}
	return v
}

// list asks until it is answered.
func list(client dynamic.ResourceInterface) (map[string]*unstructured.Unstructured, error) {
	var err error
	for end := time.Now().Add(settleLimit); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		var found *unstructured.UnstructuredList
		found, err = client.List(context.Background(), metav1.ListOptions{})
		if err == nil {
			all := map[string]*unstructured.Unstructured{}
			for i := range found.Items {
				all[found.Items[i].GetName()] = &found.Items[i]
			}
			return all, nil
		}
	}
	return nil, err
}

// cacheDiffers says how; empty if it does not.
func cacheDiffers(store cache.Store, stored map[string]*unstructured.Unstructured) string {
	objects := store.List()
	if len(objects) != len(stored) {
		return fmt.Sprintf("%d objects, stored are %d", len(objects), len(stored))
	}
	for _, one := range objects {
		cached := one.(*unstructured.Unstructured)
		there := stored[cached.GetName()]
		if there == nil || text(there) != text(cached) {
			return fmt.Sprintf("%s is not as it is stored", cached.GetName())
		}
	}
	return ""
}

// storeDiffers compares what is stored with what was written. Objects that others made are none of our business.
func storeDiffers(stored map[string]*unstructured.Unstructured, t *truth) []string {
	var wrong []string
	for name, written := range t.living {
		if t.uncertain[name] {
			continue
		}
		if there := stored[name]; there == nil {
			wrong = append(wrong, "lost: "+name)
		} else if text(there) != text(written) {
			wrong = append(wrong, "stored otherwise than written: "+name)
		}
	}
	for name := range t.deleted {
		if stored[name] != nil {
			wrong = append(wrong, "deleted and still stored: "+name)
		}
	}
	return wrong
}

// orderOf: one writer's writes have rising versions; all else below counts on that.
func orderOf(writes []write) []string {
	for i := 1; i < len(writes); i++ {
		if writes[i].version <= writes[i-1].version {
			return []string{fmt.Sprintf("written %v after %v", writes[i], writes[i-1])}
		}
	}
	return nil
}

// sessionDiffers compares the events of one watch with the writes in the range that it covered.
func sessionDiffers(s *session, t *truth) []string {
	var wrong []string
	last := s.after
	var told []event
	for _, e := range s.events {
		// A bookmark may repeat the version of the event before it.
		if e.version < last || (e.version == last && e.kind != watch.Bookmark) {
			wrong = append(wrong, fmt.Sprintf("in a watch from %d: version %d (%s %s) after %d", s.after, e.version, e.kind, e.name, last))
		}
		last = e.version
		if (e.kind == watch.Added || e.kind == watch.Modified) && t.isOurs(e.name) {
			told = append(told, e)
		}
	}
	var due []write
	for _, w := range t.writes {
		if w.version > s.after && w.version <= last && !t.uncertain[w.name] {
			due = append(due, w)
		}
	}
	for i := 0; i < len(told) || i < len(due); i++ {
		if i >= len(told) {
			return append(wrong, fmt.Sprintf("a watch from %d to %d lost %v", s.after, last, due[i]))
		}
		if i >= len(due) || told[i].name != due[i].name || told[i].version != due[i].version || told[i].sequence != due[i].sequence {
			return append(wrong, fmt.Sprintf("a watch from %d to %d told %v out of place", s.after, last, told[i]))
		}
	}
	return wrong
}

// isOurs: made by the writer, and no request about it went unanswered.
func (t *truth) isOurs(name string) bool {
	return len(name) == len(nameOf(0)) && name[:4] == "seq-" && !t.uncertain[name]
}
