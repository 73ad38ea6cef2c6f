// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// apiStatus is v1 Status with kube-apiserver's field order.
type apiStatus struct {
	Kind       string         `json:"kind"`
	APIVersion string         `json:"apiVersion"`
	Metadata   struct{}       `json:"metadata"`
	Status     string         `json:"status,omitempty"`
	Message    string         `json:"message,omitempty"`
	Reason     string         `json:"reason,omitempty"`
	Details    *statusDetails `json:"details,omitempty"`
	Code       int            `json:"code,omitempty"`
}

type statusDetails struct {
	Name       string `json:"name,omitempty"`
	Group      string `json:"group,omitempty"`
	Kind       string `json:"kind,omitempty"`
	UID        string `json:"uid,omitempty"`
	RetryAfter int    `json:"retryAfterSeconds,omitempty"`
}

func failure(code int, reason, message string, details *statusDetails) *apiStatus {
	return &apiStatus{Kind: "Status", APIVersion: "v1", Status: "Failure", Message: message,
		Reason: reason, Details: details, Code: code}
}

func qualified(group, resource string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

func notFound(group, resource, name string) *apiStatus {
	return failure(404, "NotFound", fmt.Sprintf("%s %q not found", qualified(group, resource), name),
		&statusDetails{Name: name, Group: group, Kind: resource})
}

func alreadyExists(group, resource, name string) *apiStatus {
	return failure(409, "AlreadyExists", fmt.Sprintf("%s %q already exists", qualified(group, resource), name),
		&statusDetails{Name: name, Group: group, Kind: resource})
}

func conflict(group, resource, name, why string) *apiStatus {
	return failure(409, "Conflict", fmt.Sprintf("Operation cannot be fulfilled on %s %q: %s",
		qualified(group, resource), name, why), &statusDetails{Name: name, Group: group, Kind: resource})
}

func badRequest(message string) *apiStatus {
	return failure(400, "BadRequest", message, nil)
}

// noSuchResource is what a kube-apiserver says inside a group/version that it serves.
func noSuchResource() *apiStatus {
	return failure(404, "NotFound", "the server could not find the requested resource", &statusDetails{})
}

func methodNotAllowed() *apiStatus {
	return failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource",
		&statusDetails{})
}

func gone(asked, oldest uint64) *apiStatus {
	return failure(410, "Expired", fmt.Sprintf("too old resource version: %d (%d)", asked, oldest), nil)
}

func success(group, resource, name, uid string) *apiStatus {
	return &apiStatus{Kind: "Status", APIVersion: "v1", Status: "Success",
		Details: &statusDetails{Name: name, Group: group, Kind: resource, UID: uid}}
}

func writeStatus(w http.ResponseWriter, r *http.Request, s *apiStatus) {
	code := s.Code
	if code == 0 {
		code = 200
	}
	if s.Details != nil && s.Details.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(s.Details.RetryAfter))
	}
	if code == 403 || code == 500 {
		w.Header().Set("X-Content-Type-Options", "nosniff")
	}
	writeJSON(w, r, code, s)
}

// plainNotFound is net/http's own answer, which kube-apiserver gives outside what it knows.
func plainNotFound(w http.ResponseWriter, r *http.Request) {
	http.NotFound(w, r)
}

func mustJSON(v interface{}) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own types always marshal
	}
	return text
}
