// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

const (
	sequence = "mvproxy.example/sequence" // an annotation: counts the writes of one object
	lifetime = 5                          // an object is deleted after so many others were made; every tenth is left
)

// failure is a request that client-go did not bring to its end.
type failure struct {
	Begun time.Time `json:"begun"`
	Ended time.Time `json:"ended"`
	Verb  string    `json:"verb"`
	Name  string    `json:"name"`
	Text  string    `json:"text"`
	// Code is the status of the answer, 0 if there was none, and RetryAfter what its Status asked for, 0 if for nothing.
	Code       int32 `json:"code"`
	RetryAfter int32 `json:"retryAfter"`
}

func failureOf(begun time.Time, verb, name string, err error) failure {
	f := failure{Begun: begun, Ended: time.Now(), Verb: verb, Name: name, Text: err.Error()}
	if status, ok := err.(apierrors.APIStatus); ok {
		f.Code = status.Status().Code
		if details := status.Status().Details; details != nil {
			f.RetryAfter = details.RetryAfterSeconds
		}
	}
	return f
}

// write is one that was confirmed: the object as it was then.
type write struct {
	name     string
	version  uint64
	sequence string
}

// truth is what is known to be stored.
type truth struct {
	mu        sync.Mutex
	writes    []write
	living    map[string]*unstructured.Unstructured
	deleted   map[string]bool
	uncertain map[string]bool // a request about it got no answer: nobody knows
	failures  []failure
	wrong     []string
}

func newTruth() *truth {
	return &truth{living: map[string]*unstructured.Unstructured{}, deleted: map[string]bool{}, uncertain: map[string]bool{}}
}

func (t *truth) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.writes) + len(t.deleted)
}

func (t *truth) stored(object *unstructured.Unstructured) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.living[object.GetName()] = object
	t.writes = append(t.writes, write{object.GetName(), versionOf(object), object.GetAnnotations()[sequence]})
}

func (t *truth) failed(f failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures = append(t.failures, f)
	if f.Verb != "get" {
		t.uncertain[f.Name] = true
		delete(t.living, f.Name)
	}
}

func (t *truth) removed(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.living, name)
	t.deleted[name] = true
}

func (t *truth) isWrong(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrong = append(t.wrong, fmt.Sprintf(format, args...))
}

func (t *truth) now(name string) *unstructured.Unstructured {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.living[name]
}

// writer makes, changes, reads and deletes objects, one request after the other.
type writer struct {
	client   dynamic.ResourceInterface
	template *unstructured.Unstructured
	truth    *truth
	pause    time.Duration
}

func nameOf(number int) string { return fmt.Sprintf("seq-%06d", number) }

// run goes on until the context ends. Requests have one of their own, so that the last one is not broken off.
func (w *writer) run(ctx context.Context) {
	for number := 0; ; number++ {
		steps := []func(string){w.create, w.update, w.patch, w.read}
		names := []string{nameOf(number), nameOf(number), nameOf(number - 1), nameOf(number - 2)}
		if old := number - lifetime; old >= 0 && old%10 != 0 {
			steps, names = append(steps, w.remove, w.readNothing), append(names, nameOf(old), nameOf(old))
		}
		for i, step := range steps {
			select {
			case <-ctx.Done():
				return
			case <-time.After(w.pause):
			}
			step(names[i])
		}
	}
}

func (w *writer) create(name string) {
	object := w.template.DeepCopy()
	object.SetName(name)
	object.SetAnnotations(map[string]string{sequence: "1"})
	begun := time.Now()
	w.outcome(begun, "create", name)(w.client.Create(context.Background(), object, metav1.CreateOptions{}))
}

func (w *writer) update(name string) {
	before := w.truth.now(name)
	if before == nil {
		return
	}
	object := before.DeepCopy()
	object.SetAnnotations(map[string]string{sequence: next(before)})
	begun := time.Now()
	w.outcome(begun, "update", name)(w.client.Update(context.Background(), object, metav1.UpdateOptions{}))
}

func (w *writer) patch(name string) {
	before := w.truth.now(name)
	if before == nil {
		return
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{sequence: next(before)}}})
	if err != nil {
		panic(err)
	}
	begun := time.Now()
	w.outcome(begun, "patch", name)(w.client.Patch(context.Background(), name, types.MergePatchType, patch, metav1.PatchOptions{}))
}

// outcome takes the two results of a request that stores something.
func (w *writer) outcome(begun time.Time, verb, name string) func(*unstructured.Unstructured, error) {
	return func(object *unstructured.Unstructured, err error) {
		if err != nil {
			w.truth.failed(failureOf(begun, verb, name, err))
			return
		}
		w.truth.stored(object)
	}
}

func (w *writer) read(name string) {
	expected := w.truth.now(name)
	if expected == nil {
		return
	}
	begun := time.Now()
	object, err := w.client.Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		w.truth.failed(failureOf(begun, "get", name, err))
		return
	}
	if one, other := text(expected), text(object); one != other {
		w.truth.isWrong("read %s, written %s", other, one)
	}
}

func (w *writer) remove(name string) {
	if w.truth.now(name) == nil {
		return
	}
	begun := time.Now()
	if err := w.client.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		w.truth.failed(failureOf(begun, "delete", name, err))
		return
	}
	w.truth.removed(name)
}

// readNothing asks for what has just been deleted.
func (w *writer) readNothing(name string) {
	w.truth.mu.Lock()
	gone := w.truth.deleted[name]
	w.truth.mu.Unlock()
	if !gone {
		return
	}
	begun := time.Now()
	object, err := w.client.Get(context.Background(), name, metav1.GetOptions{})
	switch {
	case err == nil:
		w.truth.isWrong("%s is deleted, and still read: %s", name, text(object))
	case !apierrors.IsNotFound(err):
		w.truth.failed(failureOf(begun, "get", name, err))
	}
}

func next(object *unstructured.Unstructured) string {
	number, err := strconv.Atoi(object.GetAnnotations()[sequence])
	if err != nil {
		panic(err)
	}
	return strconv.Itoa(number + 1)
}

func text(object *unstructured.Unstructured) string {
	data, err := json.Marshal(object.Object)
	if err != nil {
		panic(err)
	}
	return string(data)
}
