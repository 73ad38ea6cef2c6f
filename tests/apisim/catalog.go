// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// apiRow is one resource that a server may serve.
type apiRow struct {
	Group        string              `json:"group"`
	Version      string              `json:"version"`
	Resource     string              `json:"resource"`
	Kind         string              `json:"kind"`
	Namespaced   bool                `json:"namespaced"`
	Short        []string            `json:"shortNames,omitempty"`
	Categories   []string            `json:"categories,omitempty"`
	Verbs        []string            `json:"verbs"`
	Subresources map[string]subentry `json:"subresources,omitempty"`
	Priority     int                 `json:"priority,omitempty"` // of the group; 0: the table's, or 1000
}

type subentry struct {
	Group   string   `json:"group,omitempty"`
	Version string   `json:"version,omitempty"`
	Kind    string   `json:"kind,omitempty"`
	Verbs   []string `json:"verbs"`
}

var allVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// minorOf gives 33 for "v1.33".
func minorOf(profile string) (int, error) {
	text := strings.TrimPrefix(profile, "v")
	text = strings.TrimPrefix(text, "1.")
	text, _, _ = strings.Cut(text, ".")
	minor, err := strconv.Atoi(text)
	if err != nil || minor < 20 || minor > 99 {
		return 0, fmt.Errorf("profile %q: expected v1.24 ... v1.37", profile)
	}
	return minor, nil
}

// subresourceKinds tells what differs from "get, patch, update of the parent's kind".
var subresourceKinds = map[string]subentry{
	"attach":      {Kind: "PodAttachOptions", Verbs: []string{"create", "get"}},
	"exec":        {Kind: "PodExecOptions", Verbs: []string{"create", "get"}},
	"portforward": {Kind: "PodPortForwardOptions", Verbs: []string{"create", "get"}},
	"proxy":       {Verbs: []string{"create", "delete", "get", "patch", "update"}},
	"log":         {Verbs: []string{"get"}},
	"binding":     {Kind: "Binding", Verbs: []string{"create"}},
	"eviction":    {Group: "policy", Version: "v1", Kind: "Eviction", Verbs: []string{"create"}},
	"token":       {Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest", Verbs: []string{"create"}},
	"scale":       {Group: "autoscaling", Version: "v1", Kind: "Scale", Verbs: []string{"get", "patch", "update"}},
	"finalize":    {Verbs: []string{"update"}},
}

// parseRow reads one line of the table:
//
//	group/version resource Kind C|N short,short categories verbs subresources from-to
//
// "-" is empty; a core version has no group; verbs "*" are the usual eight; a subresource may
// carry its own from: "resize>33".
func parseRow(line string, minor int) (apiRow, bool) {
	f := strings.Fields(line)
	if len(f) != 9 {
		panic("catalog: " + line)
	}
	from, to, _ := strings.Cut(f[8], "-")
	if n, err := strconv.Atoi(from); err == nil && minor < n {
		return apiRow{}, false
	}
	if n, err := strconv.Atoi(to); err == nil && minor > n {
		return apiRow{}, false
	}
	row := apiRow{Resource: f[1], Kind: f[2], Namespaced: f[3] == "N", Short: dashList(f[4]), Categories: dashList(f[5])}
	row.Group, row.Version = splitGV(f[0])
	row.Verbs = dashList(f[6])
	if f[6] == "*" {
		row.Verbs = allVerbs
	}
	row.Subresources = map[string]subentry{}
	for _, sub := range dashList(f[7]) {
		name, since, _ := strings.Cut(sub, ">")
		if n, err := strconv.Atoi(since); err == nil && minor < n {
			continue
		}
		row.Subresources[name] = subentryFor(row, name)
	}
	return row, true
}

func subentryFor(row apiRow, name string) subentry {
	entry := subresourceKinds[name]
	if entry.Kind == "" {
		entry.Group, entry.Kind, entry.Version = row.Group, row.Kind, row.Version
	}
	if entry.Version == "" {
		entry.Version = row.Version
	}
	if entry.Verbs == nil {
		entry.Verbs = []string{"get", "patch", "update"}
	}
	return entry
}

func dashList(text string) []string {
	if text == "-" {
		return nil
	}
	return strings.Split(text, ",")
}

func splitGV(gv string) (group, version string) {
	if g, v, ok := strings.Cut(gv, "/"); ok {
		return g, v
	}
	return "", gv
}

func joinGV(group, version string) string {
	if group == "" {
		return version
	}
	return group + "/" + version
}

// profileRows is the table as a kube-apiserver of this minor version serves it by default.
func profileRows(minor int) []apiRow {
	var rows []apiRow
	for _, line := range strings.Split(catalogTable, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if row, ok := parseRow(line, minor); ok {
			rows = append(rows, row)
		}
	}
	return rows
}

// switchRows applies --runtime-config like settings: [group/]version[/resource[/sub]][:verb]=bool.
func switchRows(rows []apiRow, settings []string) ([]apiRow, error) {
	for _, setting := range settings {
		key, value, ok := strings.Cut(setting, "=")
		if !ok || (value != "true" && value != "false") {
			return nil, fmt.Errorf("runtime-config %q: expected KEY=true or KEY=false", setting)
		}
		if value == "true" {
			continue // everything that the profile has is on
		}
		rows = switchOff(rows, key)
	}
	return rows, nil
}

func switchOff(rows []apiRow, key string) []apiRow {
	key, verb, _ := strings.Cut(key, ":")
	var kept []apiRow
	for _, row := range rows {
		gv := joinGV(row.Group, row.Version)
		full := gv + "/" + row.Resource
		switch {
		case key == gv || (key == full && verb == ""):
			continue
		case key == full:
			row.Verbs = without(row.Verbs, verb)
		case strings.HasPrefix(key, full+"/"):
			name := key[len(full)+1:]
			subs := map[string]subentry{}
			for n, s := range row.Subresources {
				if n == name {
					if verb == "" {
						continue
					}
					s.Verbs = without(s.Verbs, verb)
				}
				subs[n] = s
			}
			row.Subresources = subs
		}
		kept = append(kept, row)
	}
	return kept
}

func without(list []string, value string) []string {
	var out []string
	for _, item := range list {
		if item != value {
			out = append(out, item)
		}
	}
	return out
}

// versionRank orders versions as Kubernetes does: GA over beta over alpha, then by number,
// anything else last, by name.
func versionLess(a, b string) bool { // true: a comes first
	ra, rb := rankVersion(a), rankVersion(b)
	for i := range ra {
		if ra[i] != rb[i] {
			return ra[i] > rb[i]
		}
	}
	return a < b
}

func rankVersion(v string) [3]int {
	var major, minor int
	if n, _ := fmt.Sscanf(v, "v%dbeta%d", &major, &minor); n == 2 {
		return [3]int{2, major, minor}
	}
	if n, _ := fmt.Sscanf(v, "v%dalpha%d", &major, &minor); n == 2 {
		return [3]int{1, major, minor}
	}
	if n, _ := fmt.Sscanf(v, "v%d", &major); n == 1 && v == "v"+strconv.Itoa(major) {
		return [3]int{3, major, 0}
	}
	return [3]int{0, 0, 0}
}

// groupedRows puts rows into the order of the discovery document: groups by priority, versions
// by rank, resources by name.
func groupedRows(rows []apiRow) []apiRow {
	sorted := append([]apiRow(nil), rows...)
	priority := map[string]int{}
	for _, row := range sorted {
		p := row.Priority
		if p == 0 {
			p = groupPriorities[row.Group]
		}
		if p == 0 {
			p = 1000
		}
		if p > priority[row.Group] {
			priority[row.Group] = p
		}
	}
	sort.SliceStable(sorted, func(i, j int) bool {
		a, b := sorted[i], sorted[j]
		switch {
		case a.Group != b.Group:
			if priority[a.Group] != priority[b.Group] {
				return priority[a.Group] > priority[b.Group]
			}
			return a.Group < b.Group
		case a.Version != b.Version:
			return versionLess(a.Version, b.Version)
		}
		return a.Resource < b.Resource
	})
	return sorted
}
