// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// decodeJSON keeps numbers as they were written.
func decodeJSON(text []byte, into interface{}) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("data after the JSON value")
	}
	return nil
}

// mergePatch is RFC 7386.
func mergePatch(target interface{}, patch interface{}) interface{} {
	changes, ok := patch.(object)
	if !ok {
		return patch
	}
	old, _ := target.(object)
	out := object{}
	for k, v := range old {
		out[k] = v
	}
	for k, v := range changes {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = mergePatch(out[k], v)
		}
	}
	return out
}

type patchStep struct {
	Op    string      `json:"op"`
	Path  string      `json:"path"`
	Value interface{} `json:"value"`
}

// jsonPatch is RFC 6902 with add, replace, remove and test.
func jsonPatch(target interface{}, text []byte) (interface{}, error) {
	var steps []patchStep
	if err := decodeJSON(text, &steps); err != nil {
		return nil, err
	}
	for _, step := range steps {
		if step.Path == "" || step.Path[0] != '/' {
			return nil, fmt.Errorf("path %q", step.Path)
		}
		var tokens []string
		for _, token := range strings.Split(step.Path[1:], "/") {
			tokens = append(tokens, strings.NewReplacer("~1", "/", "~0", "~").Replace(token))
		}
		var err error
		if target, err = applyStep(target, tokens, step); err != nil {
			return nil, err
		}
	}
	return target, nil
}

func applyStep(node interface{}, tokens []string, step patchStep) (interface{}, error) {
	last := len(tokens) == 1
	switch container := node.(type) {
	case object:
		out := object{}
		for k, v := range container {
			out[k] = v
		}
		old, there := out[tokens[0]]
		if !there && (step.Op != "add" || !last) {
			return nil, fmt.Errorf("nothing at %q", step.Path)
		}
		if !last {
			value, err := applyStep(old, tokens[1:], step)
			out[tokens[0]] = value
			return out, err
		}
		switch step.Op {
		case "add", "replace":
			out[tokens[0]] = step.Value
		case "remove":
			delete(out, tokens[0])
		case "test":
			if string(mustJSON(old)) != string(mustJSON(step.Value)) {
				return nil, fmt.Errorf("test of %q failed", step.Path)
			}
		default:
			return nil, fmt.Errorf("operation %q", step.Op)
		}
		return out, nil
	case []interface{}:
		return applyToList(container, tokens, step)
	}
	return nil, fmt.Errorf("nothing at %q", step.Path)
}

func applyToList(list []interface{}, tokens []string, step patchStep) (interface{}, error) {
	last := len(tokens) == 1
	if last && step.Op == "add" && tokens[0] == "-" {
		return append(append([]interface{}(nil), list...), step.Value), nil
	}
	at, err := strconv.Atoi(tokens[0])
	if err != nil || at < 0 || at > len(list) || (at == len(list) && !(last && step.Op == "add")) {
		return nil, fmt.Errorf("index %q of %q", tokens[0], step.Path)
	}
	out := append([]interface{}(nil), list...)
	if !last {
		out[at], err = applyStep(out[at], tokens[1:], step)
		return out, err
	}
	switch step.Op {
	case "add":
		out = append(out[:at], append([]interface{}{step.Value}, list[at:]...)...)
	case "replace":
		out[at] = step.Value
	case "remove":
		out = append(out[:at], list[at+1:]...)
	case "test":
		if string(mustJSON(out[at])) != string(mustJSON(step.Value)) {
			return nil, fmt.Errorf("test of %q failed", step.Path)
		}
	}
	return out, nil
}
