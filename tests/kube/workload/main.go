// SPDX-License-Identifier: Apache-2.0

// Command workload is a client-go client that knows what it must see: it writes objects of one type, follows the same type with a shared
// informer, and compares. Everything goes through whatever the kubeconfig points at.
//
// On standard output it writes one JSON object per line: {"synced":true} when the informer has its first list, {"progress":...} now and
// then, and at the end, which is when standard input ends, {"verdict":...}. Exit status: 0 if nothing is wrong in the verdict.
//
// What is wrong, and what is only reported for others to judge, is told in judge.go.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

type options struct {
	kubeconfig, resource, namespace, object string
	http1                                   bool
	pause                                   time.Duration
}

func parse() options {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "whom to ask, and as whom")
	flag.StringVar(&o.resource, "resource", "configmaps.v1.", "RESOURCE.VERSION.GROUP")
	flag.StringVar(&o.namespace, "namespace", "", "empty: the type has none")
	flag.StringVar(&o.object, "object", `{"apiVersion":"v1","kind":"ConfigMap"}`, "what is created, as JSON without a name")
	flag.BoolVar(&o.http1, "http1", false, "HTTP/1.1, not HTTP/2")
	flag.DurationVar(&o.pause, "pause", 100*time.Millisecond, "between two writes")
	flag.Parse()
	return o
}

// connect makes the client that both the writer and the informer use: as client-go is when nothing is said, but not slowed down by itself.
func connect(o options) (dynamic.ResourceInterface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = -1, -1
	config.UserAgent = "mvproxy-tests-informer"
	if o.http1 {
		config.NextProtos = []string{"http/1.1"}
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	resource, _ := schema.ParseResourceArg(o.resource)
	if resource == nil {
		return nil, fmt.Errorf("-resource %q is not RESOURCE.VERSION.GROUP", o.resource)
	}
	if o.namespace == "" {
		return client.Resource(*resource), nil
	}
	return client.Resource(*resource).Namespace(o.namespace), nil
}

func say(what any) {
	line, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

// inputEnds is closed when standard input ends.
func inputEnds() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(done)
	}()
	return done
}

func run(o options) (*verdict, error) {
	client, err := connect(o)
	if err != nil {
		return nil, err
	}
	template := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(o.object), &template.Object); err != nil {
		return nil, fmt.Errorf("-object: %w", err)
	}
	ended := inputEnds()
	truth := newTruth()
	seen := newWitness()
	informer := follow(client, seen)
	stopInformer := make(chan struct{})
	defer close(stopInformer)
	go informer.Run(stopInformer)
	for !informer.HasSynced() {
		select {
		case <-ended:
			return nil, errors.New("ended before the informer had its first list")
		case <-time.After(20 * time.Millisecond):
		}
	}
	say(map[string]any{"synced": true})

	w := &writer{client: client, template: template, truth: truth, pause: o.pause}
	ctx, stopWriter := context.WithCancel(context.Background())
	written := make(chan struct{})
	go func() {
		w.run(ctx)
		close(written)
	}()
	for going := true; going; {
		select {
		case <-ended:
			going = false
		case <-time.After(300 * time.Millisecond):
			say(map[string]any{"progress": map[string]int{"writes": truth.count(), "events": seen.count()}})
		}
	}
	stopWriter()
	<-written
	return judge(client, informer.GetStore(), truth, seen), nil
}

func main() {
	v, err := run(parse())
	if err != nil {
		fmt.Fprintln(os.Stderr, "informer:", err)
		os.Exit(2)
	}
	say(map[string]any{"verdict": v})
	if len(v.Wrong) > 0 {
		os.Exit(1)
	}
}
