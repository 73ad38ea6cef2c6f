// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"
	"strings"
)

// acceptClause is one media range of an Accept header.
type acceptClause struct {
	typ, sub string
	q        float64
	params   map[string]string
}

// parseAccept splits an Accept header with the looseness of kube-apiserver's parser: no quoting,
// only spaces trimmed, odd clauses and odd parameters dropped one by one, a bad q counts as 0.
func parseAccept(header string) []acceptClause {
	var clauses []acceptClause
	for _, part := range strings.Split(header, ",") {
		fields := strings.Split(part, ";")
		mediaType := strings.Trim(fields[0], " ")
		clause := acceptClause{q: 1, params: map[string]string{}}
		switch pieces := strings.Split(mediaType, "/"); {
		case len(pieces) == 2:
			clause.typ, clause.sub = strings.Trim(pieces[0], " "), strings.Trim(pieces[1], " ")
		case len(pieces) == 1 && mediaType == "*":
			clause.typ, clause.sub = "*", "*"
		default:
			continue
		}
		for _, field := range fields[1:] {
			pair := strings.Split(field, "=")
			if len(pair) != 2 || pair[1] == "" {
				continue
			}
			name := strings.Trim(pair[0], " ")
			if name != "q" {
				clause.params[name] = strings.Trim(pair[1], " ")
				continue
			}
			q, err := strconv.ParseFloat(pair[1], 32)
			if err != nil {
				q = 0
			}
			clause.q = q
		}
		clauses = append(clauses, clause)
	}
	sortClauses(clauses)
	return clauses
}

// sortClauses is an insertion sort on a comparison that is not a strict order; equal elements
// keep their places, and a concrete type may come before a wildcard of higher q.
func sortClauses(c []acceptClause) {
	before := func(a, b acceptClause) bool {
		return a.q > b.q || (a.typ != "*" && b.typ == "*") || (a.sub != "*" && b.sub == "*")
	}
	for i := 1; i < len(c); i++ {
		for j := i; j > 0 && before(c[j], c[j-1]); j-- {
			c[j], c[j-1] = c[j-1], c[j]
		}
	}
}

func (c acceptClause) matches(mediaType string) bool {
	typ, sub, _ := strings.Cut(mediaType, "/")
	return (c.typ == "*" || c.typ == typ) && (c.sub == "*" || c.sub == sub)
}

// plain: no clause parameter asks for another shape of the document.
func (c acceptClause) plain() bool {
	return c.params["g"] == "" && c.params["v"] == "" && c.params["as"] == ""
}

const (
	discoveryAPI  = "apidiscovery.k8s.io"
	discoveryKind = "APIGroupDiscoveryList"
)

// discoveryChoice is the outcome of negotiating /api or /apis.
type discoveryChoice struct {
	mediaType string // "" means: legacy
	version   string // v2 or v2beta1
	profile   string
}

var offered = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}

// negotiateDiscovery looks at the first Accept line only; plain clauses are skipped, so that
// any clause for aggregated discovery wins over plain JSON whatever its q.
func negotiateDiscovery(accept []string, versions map[string]bool) discoveryChoice {
	if len(accept) == 0 || accept[0] == "" {
		return discoveryChoice{}
	}
	for _, clause := range parseAccept(accept[0]) {
		if clause.params["g"] != discoveryAPI || clause.params["as"] != discoveryKind ||
			!versions[clause.params["v"]] {
			continue
		}
		for _, mediaType := range offered {
			if clause.matches(mediaType) {
				return discoveryChoice{mediaType, clause.params["v"], clause.params["profile"]}
			}
		}
	}
	return discoveryChoice{}
}

// jsonAcceptable: whether plain JSON may be sent. Real servers also have YAML and protobuf for
// resources; the simulator has JSON only, so a client that takes neither gets 406.
func jsonAcceptable(accept []string) bool {
	if len(accept) == 0 || accept[0] == "" {
		return true
	}
	for _, clause := range parseAccept(accept[0]) {
		if clause.plain() && clause.matches("application/json") {
			return true
		}
	}
	return false
}
