// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"strings"
)

// rule allows users or groups something, with RBAC's words; "*" is everything.
type rule struct {
	Users     []string `json:"users,omitempty"`
	Groups    []string `json:"groups,omitempty"`
	Verbs     []string `json:"verbs"`
	APIGroups []string `json:"apiGroups,omitempty"`
	Resources []string `json:"resources,omitempty"` // "pods", "pods/log", "*"
	Names     []string `json:"resourceNames,omitempty"`
	Namespace string   `json:"namespace,omitempty"` // "": all
	Paths     []string `json:"nonResourceURLs,omitempty"`
}

var builtinRules = []rule{
	{Groups: []string{"system:masters"}, Verbs: []string{"*"}, APIGroups: []string{"*"},
		Resources: []string{"*"}, Paths: []string{"*"}},
	{Groups: []string{authenticated}, Verbs: []string{"get"}, Paths: []string{"/api", "/api/*", "/apis",
		"/apis/*", "/healthz", "/livez", "/readyz", "/openapi", "/openapi/*", "/version", "/version/"}},
	{Groups: []string{authenticated}, Verbs: []string{"create"}, APIGroups: []string{"authentication.k8s.io"},
		Resources: []string{"selfsubjectreviews"}},
	{Groups: []string{authenticated}, Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"},
		Resources: []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"}},
	{Groups: []string{unauthenticated}, Verbs: []string{"get"},
		Paths: []string{"/healthz", "/livez", "/readyz", "/version", "/version/"}},
	// The simulator's own paths measure bytes, not rights.
	{Groups: []string{authenticated, unauthenticated}, Verbs: []string{"*"}, Paths: []string{"/sim/*"}},
}

func has(list []string, value string) bool {
	for _, item := range list {
		if item == value || item == "*" {
			return true
		}
	}
	return false
}

func (u *rule) concerns(who *user) bool {
	for _, name := range u.Users {
		if name == who.Name || name == "*" {
			return true
		}
	}
	for _, group := range u.Groups {
		for _, g := range who.Groups {
			if g == group {
				return true
			}
		}
	}
	return false
}

func (u *rule) allows(info *requestInfo) bool {
	if !has(u.Verbs, info.Verb) {
		return false
	}
	if !info.Resource {
		for _, path := range u.Paths {
			prefix := strings.TrimSuffix(path, "*")
			if path == info.Path || (prefix != path && strings.HasPrefix(info.Path, prefix)) {
				return true
			}
		}
		return false
	}
	resource := info.Kind
	if info.Subresource != "" {
		resource += "/" + info.Subresource
	}
	return has(u.APIGroups, info.Group) && has(u.Resources, resource) &&
		(len(u.Names) == 0 || has(u.Names, info.Name)) &&
		(u.Namespace == "" || u.Namespace == info.Namespace)
}

func allowed(rules []rule, who *user, info *requestInfo) bool {
	for _, list := range [][]rule{builtinRules, rules} {
		for i := range list {
			if list[i].concerns(who) && list[i].allows(info) {
				return true
			}
		}
	}
	return false
}

// allowedUnread is what a server allows that has read no rules yet: superusers and probes.
func allowedUnread(who *user, info *requestInfo) bool {
	if !info.Resource && has([]string{"/healthz", "/livez", "/readyz"}, info.Path) {
		return true
	}
	return has(who.Groups, "system:masters")
}

// forbidden is kube-apiserver's answer to a request that no rule allows.
func forbidden(who *user, info *requestInfo) *apiStatus {
	if !info.Resource {
		return failure(403, "Forbidden", fmt.Sprintf("forbidden: User %q cannot %s path %q",
			who.Name, info.Verb, info.Path), &statusDetails{})
	}
	resource := info.Kind
	if info.Subresource != "" {
		resource += "/" + info.Subresource
	}
	where := " at the cluster scope"
	if info.Namespace != "" {
		where = fmt.Sprintf(" in the namespace %q", info.Namespace)
	}
	name := ""
	if info.Name != "" {
		name = fmt.Sprintf(" %q", info.Name)
	}
	return failure(403, "Forbidden", fmt.Sprintf("%s%s is forbidden: User %q cannot %s resource %q in API group %q%s",
		qualified(info.Group, info.Kind), name, who.Name, info.Verb, resource, info.Group, where),
		&statusDetails{Name: info.Name, Group: info.Group, Kind: info.Kind})
}

// impersonate replaces the user when Impersonate-User asks for it and the real user may do so.
func impersonate(rules []rule, who *user, r *http.Request) (*user, *apiStatus) {
	name := r.Header.Get("Impersonate-User")
	if name == "" {
		if len(r.Header.Values("Impersonate-Group")) > 0 || r.Header.Get("Impersonate-Uid") != "" {
			return nil, failure(500, "InternalError", "Internal error occurred: requested impersonation without a user", nil)
		}
		return who, nil
	}
	asks := []requestInfo{{Resource: true, Verb: "impersonate", Version: "v1", Kind: "users", Name: name}}
	for _, group := range r.Header.Values("Impersonate-Group") {
		asks = append(asks, requestInfo{Resource: true, Verb: "impersonate", Version: "v1", Kind: "groups", Name: group})
	}
	for i := range asks {
		if !allowed(rules, who, &asks[i]) {
			return nil, forbidden(who, &asks[i])
		}
	}
	as := &user{Name: name, UID: r.Header.Get("Impersonate-Uid"),
		Groups: append([]string(nil), r.Header.Values("Impersonate-Group")...)}
	for header, values := range r.Header {
		if hasPrefixFold(header, "Impersonate-Extra-") {
			if as.Extra == nil {
				as.Extra = map[string][]string{}
			}
			as.Extra[strings.ToLower(header[len("Impersonate-Extra-"):])] = values
		}
	}
	for header := range r.Header {
		if hasPrefixFold(header, "Impersonate-") {
			r.Header.Del(header)
		}
	}
	if name == anonymousName {
		as.Groups = append(as.Groups, unauthenticated)
	}
	return withAuthenticated(as), nil
}
