// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"strings"
)

// requestInfo is what kube-apiserver makes of a request's method, path and query.
type requestInfo struct {
	Resource    bool
	Verb        string
	Group       string
	Version     string
	Namespace   string
	Kind        string // the plural: "pods"
	Subresource string
	Name        string
	Path        string
}

var methodVerbs = map[string]string{
	"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete",
}

func parseRequestInfo(r *http.Request) (*requestInfo, error) {
	info := &requestInfo{Path: r.URL.Path, Verb: strings.ToLower(r.Method)}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) < 3 || (parts[0] != "api" && parts[0] != "apis") {
		return info, nil
	}
	grouped := parts[0] == "apis"
	parts = parts[1:]
	if grouped {
		if len(parts) < 3 {
			return info, nil
		}
		info.Group, parts = parts[0], parts[1:]
	}
	info.Version, parts = parts[0], parts[1:]
	info.Resource = true
	if parts[0] == "proxy" || parts[0] == "watch" {
		if len(parts) < 2 {
			return info, fmt.Errorf("unable to determine kind and namespace from url, %v", r.URL)
		}
		info.Verb, parts = parts[0], parts[1:]
	} else {
		info.Verb = methodVerbs[r.Method]
	}
	info.fill(parts)
	info.refine(r)
	return info, nil
}

// fill takes what stands after the version (and after a verb in the path).
func (info *requestInfo) fill(parts []string) {
	if parts[0] == "namespaces" {
		if len(parts) > 1 {
			info.Namespace = parts[1]
			if len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
				parts = parts[2:]
			}
		}
	}
	info.Kind = parts[0]
	if len(parts) > 1 {
		info.Name = parts[1]
	}
	if len(parts) > 2 && info.Verb != "proxy" {
		info.Subresource = parts[2]
	}
}

// refine turns a nameless get into list or watch and a nameless delete into deletecollection.
func (info *requestInfo) refine(r *http.Request) {
	if info.Name != "" {
		return
	}
	switch info.Verb {
	case "get":
		info.Verb = "list"
		query := r.URL.Query()
		if values, ok := query["watch"]; ok && len(values) > 0 {
			if v := strings.ToLower(values[0]); v != "false" && v != "0" {
				info.Verb = "watch"
			}
		}
		if name, ok := exactField(query.Get("fieldSelector"), "metadata.name"); ok {
			info.Name = name
		}
	case "watch":
		if name, ok := exactField(r.URL.Query().Get("fieldSelector"), "metadata.name"); ok {
			info.Name = name
		}
	case "delete":
		info.Verb = "deletecollection"
	}
}
