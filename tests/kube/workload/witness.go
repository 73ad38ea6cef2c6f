// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// event is one of a watch, as it came.
type event struct {
	kind     watch.EventType
	name     string
	version  uint64
	sequence string
}

// session is one watch: what it was to begin after, and what came. Bookmarks are events without a name.
type session struct {
	after  uint64
	events []event
}

// witness writes down what the informer's requests gave, and what its handlers were told.
type witness struct {
	mu       sync.Mutex
	sessions []*session
	lists    int
	handled  int
	failures []failure
	wrong    []string
	cached   map[string]uint64 // what the handlers were told to exist, and in which version
	added    map[string]bool
}

func newWitness() *witness {
	return &witness{cached: map[string]uint64{}, added: map[string]bool{}}
}

func (s *witness) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handled
}

func (s *witness) failed(begun time.Time, verb string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, failureOf(begun, verb, "", err))
}

func versionOf(object metav1.Object) uint64 {
	number, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("resourceVersion %q of %s", object.GetResourceVersion(), object.GetName()))
	}
	return number
}

// follow makes the informer. Its requests are client-go's own; they are only written down.
func follow(client dynamic.ResourceInterface, seen *witness) cache.SharedIndexInformer {
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			begun := time.Now()
			list, err := client.List(ctx, o)
			if err != nil {
				seen.failed(begun, "list", err)
				return nil, err
			}
			seen.mu.Lock()
			seen.lists++
			seen.mu.Unlock()
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			begun := time.Now()
			stream, err := client.Watch(ctx, o)
			if err != nil {
				seen.failed(begun, "watch", err)
				return nil, err
			}
			return seen.session(o.ResourceVersion, stream), nil
		},
	}
	informer := cache.NewSharedIndexInformer(source, &unstructured.Unstructured{}, 0, cache.Indexers{})
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(one any) { seen.add(one.(*unstructured.Unstructured)) },
		UpdateFunc: func(_, one any) { seen.update(one.(*unstructured.Unstructured)) },
		DeleteFunc: func(one any) {
			if last, ok := one.(cache.DeletedFinalStateUnknown); ok {
				one = last.Obj // it went while the informer did not look
			}
			seen.delete(one.(*unstructured.Unstructured))
		},
	})
	if err != nil {
		panic(err)
	}
	return informer
}

func (s *witness) session(after string, stream watch.Interface) watch.Interface {
	number, err := strconv.ParseUint(after, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("a watch after resourceVersion %q", after))
	}
	one := &session{after: number}
	s.mu.Lock()
	s.sessions = append(s.sessions, one)
	s.mu.Unlock()
	return watch.Filter(stream, func(e watch.Event) (watch.Event, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		object, ok := e.Object.(*unstructured.Unstructured)
		switch {
		case e.Type == watch.Bookmark && ok:
			one.events = append(one.events, event{kind: e.Type, version: versionOf(object)})
		case e.Type != watch.Error && ok:
			one.events = append(one.events, event{e.Type, object.GetName(), versionOf(object), object.GetAnnotations()[sequence]})
		case e.Type == watch.Error:
			if status, isStatus := e.Object.(*metav1.Status); !isStatus || status.Code != 410 {
				s.wrong = append(s.wrong, fmt.Sprintf("a watch ended with %v", e.Object))
			}
		}
		return e, true
	})
}

func (s *witness) add(one *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handled++
	name := one.GetName()
	if s.added[name] {
		s.wrong = append(s.wrong, "added twice: "+name)
	}
	s.added[name] = true
	s.cached[name] = versionOf(one)
}

func (s *witness) update(one *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handled++
	name := one.GetName()
	before, known := s.cached[name]
	// After a list the handlers are told of all that is in it, whether it changed or not.
	if !known || versionOf(one) < before || (versionOf(one) == before && s.lists < 2) {
		s.wrong = append(s.wrong, fmt.Sprintf("%s: version %d after %d (known: %t)", name, versionOf(one), before, known))
	}
	s.cached[name] = versionOf(one)
}

func (s *witness) delete(one *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handled++
	if _, known := s.cached[one.GetName()]; !known {
		s.wrong = append(s.wrong, "deleted twice, or never there: "+one.GetName())
	}
	delete(s.cached, one.GetName())
}
