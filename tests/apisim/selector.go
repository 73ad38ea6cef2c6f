// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/url"
	"strings"
)

// exactField finds "field=value" among the comma-separated terms of a field selector.
func exactField(selector, field string) (string, bool) {
	for _, term := range splitList(selector) {
		for _, op := range []string{"==", "="} {
			if name, value, ok := strings.Cut(term, op); ok && name == field && !strings.HasSuffix(name, "!") {
				if value != "" && value != "." && value != ".." && !strings.ContainsAny(value, "/%") {
					return value, true
				}
				return "", false
			}
		}
	}
	return "", false
}

// selector is a labelSelector and a fieldSelector on metadata.
type selector struct {
	terms []term
}

type term struct {
	field  bool
	key    string
	op     string // "=", "!=", "exists", "absent", "in", "notin"
	values []string
}

func parseSelector(query url.Values) (*selector, error) {
	s := &selector{}
	for _, part := range splitOutside(query.Get("labelSelector")) {
		t, err := parseTerm(part)
		if err != nil {
			return nil, err
		}
		s.terms = append(s.terms, t)
	}
	for _, part := range splitList(query.Get("fieldSelector")) {
		t, err := parseTerm(part)
		if err != nil {
			return nil, err
		}
		if t.key != "metadata.name" && t.key != "metadata.namespace" {
			return nil, fmt.Errorf("field label not supported: %s", t.key)
		}
		t.field = true
		s.terms = append(s.terms, t)
	}
	return s, nil
}

// splitOutside splits at commas that are not inside parentheses.
func splitOutside(text string) []string {
	var out []string
	depth, start := 0, 0
	for i := 0; i <= len(text); i++ {
		switch {
		case i == len(text) || (text[i] == ',' && depth == 0):
			if part := strings.TrimSpace(text[start:i]); part != "" {
				out = append(out, part)
			}
			start = i + 1
		case text[i] == '(':
			depth++
		case text[i] == ')':
			depth--
		}
	}
	return out
}

func parseTerm(text string) (term, error) {
	for _, op := range []string{"!=", "==", "="} {
		if key, value, ok := strings.Cut(text, op); ok {
			if op == "==" {
				op = "="
			}
			return term{key: strings.TrimSpace(key), op: op, values: []string{strings.TrimSpace(value)}}, nil
		}
	}
	if open := strings.IndexByte(text, '('); open > 0 && strings.HasSuffix(text, ")") {
		words := strings.Fields(text[:open])
		if len(words) == 2 && (words[1] == "in" || words[1] == "notin") {
			return term{key: words[0], op: words[1], values: splitList(text[open+1 : len(text)-1])}, nil
		}
		return term{}, fmt.Errorf("unable to parse requirement: %s", text)
	}
	if strings.HasPrefix(text, "!") {
		return term{key: text[1:], op: "absent"}, nil
	}
	if strings.ContainsAny(text, " ()") {
		return term{}, fmt.Errorf("unable to parse requirement: %s", text)
	}
	return term{key: text, op: "exists"}, nil
}

func (s *selector) matches(o object) bool {
	labels, _ := meta(o)["labels"].(object)
	for _, t := range s.terms {
		var value string
		var there bool
		if t.field {
			value, there = metaString(o, strings.TrimPrefix(t.key, "metadata.")), true
		} else {
			value, there = labels[t.key].(string)
		}
		if !t.holds(value, there) {
			return false
		}
	}
	return true
}

func (t term) holds(value string, there bool) bool {
	switch t.op {
	case "=", "in":
		return there && contains(t.values, value)
	case "!=", "notin":
		return !there || !contains(t.values, value)
	case "exists":
		return there
	}
	return !there
}

func contains(list []string, value string) bool {
	for _, item := range list {
		if item == value {
			return true
		}
	}
	return false
}
