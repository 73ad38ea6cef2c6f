// SPDX-License-Identifier: Apache-2.0

// An informer of client-go as controllers have it: what it sees, one JSON line per event, until SIGTERM.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

type line struct {
	Event string `json:"event"`
	Name  string `json:"name,omitempty"`
	RV    string `json:"rv,omitempty"`
	Note  string `json:"note,omitempty"` // the annotation "n"
	Text  string `json:"text,omitempty"`
}

var out sync.Mutex

func say(l line) {
	out.Lock()
	defer out.Unlock()
	json.NewEncoder(os.Stdout).Encode(l)
}

func told(kind string, obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	o := obj.(*unstructured.Unstructured)
	say(line{Event: kind, Name: o.GetName(), RV: o.GetResourceVersion(), Note: o.GetAnnotations()["n"]})
}

func main() {
	config := flag.String("kubeconfig", "", "")
	resource := flag.String("resource", "", "GROUP/VERSION/RESOURCE; VERSION/RESOURCE for the core group")
	namespace := flag.String("namespace", "", "")
	flag.Parse()
	rest, err := clientcmd.BuildConfigFromFlags("", *config)
	if err != nil {
		log.Fatal(err)
	}
	parts := strings.Split("/"+*resource, "/")
	parts = parts[len(parts)-3:]
	gvr := schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	client, err := dynamic.NewForConfig(rest)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	informer := dynamicinformer.NewFilteredDynamicInformer(client, gvr, *namespace, 0, cache.Indexers{}, nil).Informer()
	informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { say(line{Event: "error", Text: err.Error()}) })
	informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { told("ADDED", obj) },
		UpdateFunc: func(_, obj any) { told("MODIFIED", obj) },
		DeleteFunc: func(obj any) { told("DELETED", obj) },
	})
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			say(line{Event: "synced"})
		}
	}()
	informer.Run(ctx.Done())
}
