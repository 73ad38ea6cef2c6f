// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"sort"
	"strings"
	"sync"
)

// catalog is what one server serves at one moment: its own resources, the store's CRDs, and
// service-backed APIServices. It does not change; a change makes a new one.
type catalog struct {
	minor    int
	versions map[string]bool // of aggregated discovery: v2, v2beta1
	own      []apiRow
	rows     []apiRow            // own and CRDs and aggregated, in document order
	stale    map[string]bool     // group/versions whose service does not answer
	byGV     map[string][]apiRow // group/version -> resources
	listed   []apiServiceEntry   // group/versions of the cluster's APIService objects
	lateCRDs bool                // there are no custom resources yet

	once sync.Once
	docs map[string]*document // "/api" and "/apis"
}

// document is an aggregated discovery document and its ETag.
type document struct {
	list discoveryList
	etag string
}

type apiServiceEntry struct {
	group, version string
	priority       int
}

func newCatalog(cfg *serverConfig, minor int, st *store) (*catalog, error) {
	rows, err := switchRows(profileRows(minor), cfg.RuntimeConfig)
	if err != nil {
		return nil, err
	}
	for _, row := range cfg.Extra {
		if row.Version == "" || row.Resource == "" || row.Kind == "" {
			return nil, fmt.Errorf("extra resource %q: version, resource and kind are needed", row.Resource)
		}
		if row.Verbs == nil {
			row.Verbs = allVerbs
		}
		for name, sub := range row.Subresources {
			if sub.Kind == "" {
				sub.Group, sub.Version, sub.Kind = row.Group, row.Version, row.Kind
				row.Subresources[name] = sub
			}
		}
		rows = append(rows, row)
	}
	c := &catalog{minor: minor, own: rows, versions: map[string]bool{}, lateCRDs: cfg.LateCRDs}
	c.versions["v2"] = minor >= 30
	c.versions["v2beta1"] = (minor >= 26 && minor <= 32) || (cfg.V2Beta1 && minor <= 34)
	return c.refreshed(st), nil
}

func (c *catalog) refreshed(st *store) *catalog {
	out := &catalog{minor: c.minor, own: c.own, versions: c.versions, stale: map[string]bool{},
		byGV: map[string][]apiRow{}, lateCRDs: c.lateCRDs}
	rows := append([]apiRow(nil), c.own...)
	crds, _ := st.list("apiextensions.k8s.io", "customresourcedefinitions", "")
	for _, crd := range crds {
		if !c.lateCRDs {
			rows = append(rows, crdRows(crd)...)
		}
	}
	services, _ := st.list("apiregistration.k8s.io", "apiservices", "")
	for _, service := range services {
		more, isStale, entry := serviceRows(service)
		rows = append(rows, more...)
		if isStale {
			out.stale[joinGV(entry.group, entry.version)] = true
			rows = append(rows, apiRow{Group: entry.group, Version: entry.version, Priority: entry.priority})
		}
		out.listed = append(out.listed, entry)
	}
	out.rows = groupedRows(rows)
	for _, row := range out.rows {
		gv := joinGV(row.Group, row.Version)
		if row.Resource == "" {
			continue
		}
		if _, there := out.find(row.Group, row.Version, row.Resource); !there {
			out.byGV[gv] = append(out.byGV[gv], row)
		}
	}
	return out
}

func (c *catalog) knowsGV(group, version string) bool {
	return len(c.byGV[joinGV(group, version)]) > 0
}

func (c *catalog) find(group, version, resource string) (apiRow, bool) {
	for _, row := range c.byGV[joinGV(group, version)] {
		if row.Resource == resource {
			return row, true
		}
	}
	return apiRow{}, false
}

// register writes APIService objects for the server's own group/versions, as every kube-apiserver
// does; they are why an old server's legacy /apis names a newer server's groups.
func (c *catalog) register(st *store) {
	seen := map[string]bool{}
	for _, row := range c.own {
		name := row.Version + "." + row.Group
		if seen[name] {
			continue
		}
		seen[name] = true
		st.create("apiregistration.k8s.io", "apiservices", "", name, object{
			"metadata": object{"labels": object{"kube-aggregator.kubernetes.io/automanaged": "onstart"}},
			"spec": object{"group": row.Group, "version": row.Version,
				"groupPriorityMinimum": groupPriorities[row.Group], "versionPriority": 15},
			"status": object{"conditions": []interface{}{object{"type": "Available", "status": "True", "reason": "Local"}}}})
	}
}

func text(o object, path ...string) string {
	for _, step := range path[:len(path)-1] {
		o, _ = o[step].(object)
	}
	s, _ := o[path[len(path)-1]].(string)
	return s
}

func texts(value interface{}) []string {
	list, _ := value.([]interface{})
	var out []string
	for _, item := range list {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// crdRows: the resources that a CustomResourceDefinition defines.
func crdRows(crd object) []apiRow {
	spec, _ := crd["spec"].(object)
	names, _ := spec["names"].(object)
	versions, _ := spec["versions"].([]interface{})
	var rows []apiRow
	for _, item := range versions {
		version, _ := item.(object)
		if served, ok := version["served"].(bool); ok && !served {
			continue
		}
		row := apiRow{Group: text(spec, "group"), Version: text(version, "name"), Resource: text(names, "plural"),
			Kind: text(names, "kind"), Namespaced: text(spec, "scope") != "Cluster",
			Short: texts(names["shortNames"]), Categories: texts(names["categories"]), Verbs: allVerbs,
			Subresources: map[string]subentry{}, Priority: 1000}
		if subs, ok := version["subresources"].(object); ok {
			for name := range subs {
				row.Subresources[name] = subentryFor(row, name)
			}
		}
		if row.Group != "" && row.Version != "" && row.Resource != "" {
			rows = append(rows, row)
		}
	}
	return rows
}

// serviceRows: an APIService with a service is an aggregated API. What stands behind it is told
// by the annotation sim/resources ("plural:Kind:N,..."); without it the service does not answer.
func serviceRows(service object) (rows []apiRow, stale bool, entry apiServiceEntry) {
	spec, _ := service["spec"].(object)
	entry = apiServiceEntry{group: text(spec, "group"), version: text(spec, "version"), priority: 1000}
	switch p := spec["groupPriorityMinimum"].(type) {
	case int:
		entry.priority = p
	case fmt.Stringer:
		fmt.Sscan(p.String(), &entry.priority)
	}
	if _, remote := spec["service"].(object); !remote {
		return nil, false, entry
	}
	notes, _ := meta(service)["annotations"].(object)
	list, _ := notes["sim/resources"].(string)
	for _, item := range splitList(list) {
		f := strings.Split(item, ":")
		if len(f) == 3 {
			rows = append(rows, apiRow{Group: entry.group, Version: entry.version, Resource: f[0], Kind: f[1],
				Namespaced: f[2] == "N", Verbs: allVerbs, Priority: entry.priority})
		}
	}
	return rows, len(rows) == 0, entry
}

func hashTag(text []byte) string {
	sum := sha512.Sum512(text)
	return `"` + strings.ToUpper(hex.EncodeToString(sum[:])) + `"`
}

// legacyGroups: the group/versions that legacy /apis names, by priority of the group.
func (c *catalog) legacyGroups() []apiServiceEntry {
	seen := map[string]bool{}
	var out []apiServiceEntry
	add := func(e apiServiceEntry) {
		if gv := joinGV(e.group, e.version); e.group != "" && !seen[gv] {
			seen[gv] = true
			out = append(out, e)
		}
	}
	for _, e := range c.listed {
		add(e)
	}
	for _, row := range c.rows {
		p := row.Priority
		if p == 0 {
			p = groupPriorities[row.Group]
		}
		add(apiServiceEntry{row.Group, row.Version, p})
	}
	best := map[string]int{}
	for _, e := range out {
		if e.priority > best[e.group] {
			best[e.group] = e.priority
		}
	}
	sort.SliceStable(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if a.group != b.group {
			if best[a.group] != best[b.group] {
				return best[a.group] > best[b.group]
			}
			return a.group < b.group
		}
		return versionLess(a.version, b.version)
	})
	return out
}
