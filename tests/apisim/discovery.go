// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"sort"
	"strings"
)

// The aggregated discovery document, with the field order of the Go types.
type discoveryList struct {
	Metadata struct{}         `json:"metadata"`
	Items    []discoveryGroup `json:"items"`
}

type discoveryMeta struct {
	Name    string
	Created bool // creationTimestamp: null, up to 1.33
}

func (m discoveryMeta) MarshalJSON() ([]byte, error) {
	var parts []string
	if m.Name != "" {
		parts = append(parts, `"name":`+string(mustJSON(m.Name)))
	}
	if m.Created {
		parts = append(parts, `"creationTimestamp":null`)
	}
	return []byte("{" + strings.Join(parts, ",") + "}"), nil
}

type discoveryGroup struct {
	Metadata discoveryMeta      `json:"metadata"`
	Versions []discoveryVersion `json:"versions,omitempty"`
}

type discoveryVersion struct {
	Version   string              `json:"version"`
	Resources []discoveryResource `json:"resources,omitempty"`
	Freshness string              `json:"freshness,omitempty"`
}

type discoveryKindRef struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

type discoveryResource struct {
	Resource     string                 `json:"resource"`
	ResponseKind *discoveryKindRef      `json:"responseKind,omitempty"`
	Scope        string                 `json:"scope"`
	Singular     string                 `json:"singularResource"`
	Verbs        []string               `json:"verbs"`
	Short        []string               `json:"shortNames,omitempty"`
	Categories   []string               `json:"categories,omitempty"`
	Subresources []discoverySubresource `json:"subresources,omitempty"`
}

type discoverySubresource struct {
	Subresource  string             `json:"subresource"`
	ResponseKind *discoveryKindRef  `json:"responseKind,omitempty"`
	Accepted     []discoveryKindRef `json:"acceptedTypes,omitempty"`
	Verbs        []string           `json:"verbs"`
}

func (row apiRow) scope() string {
	if row.Namespaced {
		return "Namespaced"
	}
	return "Cluster"
}

func (row apiRow) singular() string { return strings.ToLower(row.Kind) }

func (row apiRow) subresourceNames() []string {
	names := make([]string, 0, len(row.Subresources))
	for name := range row.Subresources {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func (row apiRow) discovery() discoveryResource {
	out := discoveryResource{Resource: row.Resource, Scope: row.scope(), Singular: row.singular(), Verbs: row.Verbs,
		Short: row.Short, Categories: row.Categories,
		ResponseKind: &discoveryKindRef{row.Group, row.Version, row.Kind}}
	for _, name := range row.subresourceNames() {
		sub := row.Subresources[name]
		out.Subresources = append(out.Subresources, discoverySubresource{Subresource: name,
			ResponseKind: &discoveryKindRef{sub.Group, sub.Version, sub.Kind}, Verbs: sub.Verbs})
	}
	return out
}

// document gives the aggregated document of /api or /apis.
func (c *catalog) document(path string) *document {
	c.once.Do(func() {
		c.docs = map[string]*document{}
		for _, p := range []string{"/api", "/apis"} {
			list := c.build(p == "/api")
			c.docs[p] = &document{list, hashTag(mustJSON(list))}
		}
	})
	return c.docs[path]
}

func (c *catalog) build(core bool) discoveryList {
	list := discoveryList{Items: []discoveryGroup{}}
	seen := map[string]bool{}
	for _, row := range c.rows {
		gv := joinGV(row.Group, row.Version)
		if (row.Group == "") != core || seen[gv] {
			continue
		}
		seen[gv] = true
		n := len(list.Items)
		if n == 0 || list.Items[n-1].Metadata.Name != row.Group {
			list.Items = append(list.Items, discoveryGroup{Metadata: discoveryMeta{row.Group, c.minor <= 33}})
			n++
		}
		version := discoveryVersion{Version: row.Version, Freshness: "Current"}
		if c.stale[gv] {
			version.Freshness = "Stale"
		}
		for _, resource := range c.byGV[gv] {
			version.Resources = append(version.Resources, resource.discovery())
		}
		list.Items[n-1].Versions = append(list.Items[n-1].Versions, version)
	}
	return list
}

// serveAggregated answers GET /api and /apis; false means that the legacy form was asked for.
func (c *catalog) serveAggregated(w http.ResponseWriter, r *http.Request) bool {
	choice := negotiateDiscovery(r.Header.Values("Accept"), c.versions)
	if choice.mediaType == "" {
		return false
	}
	doc := c.document(strings.TrimSuffix(r.URL.Path, "/"))
	header := w.Header()
	header.Set("ETag", doc.etag)
	header.Set("Vary", "Accept")
	header.Set("Cache-Control", "public")
	if r.Header.Get("If-None-Match") == doc.etag {
		w.WriteHeader(http.StatusNotModified)
		return true
	}
	contentType := choice.mediaType + ";g=" + discoveryAPI + ";v=" + choice.version + ";as=" + discoveryKind
	if choice.mediaType == "application/vnd.kubernetes.protobuf" {
		writeBytes(w, r, contentType, discoveryProtobuf(doc.list, choice.version))
		return true
	}
	whole := struct {
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
		discoveryList
	}{discoveryKind, discoveryAPI + "/" + choice.version, doc.list}
	// JSON is YAML too, so the same bytes answer both.
	writeEncoded(w, r, 200, contentType, mustJSON(whole))
	return true
}

func (c *catalog) serveLegacyAPI(w http.ResponseWriter, r *http.Request, address string) {
	writeJSON(w, r, 200, struct {
		Kind     string        `json:"kind"`
		Versions []string      `json:"versions"`
		Address  []interface{} `json:"serverAddressByClientCIDRs"`
	}{"APIVersions", []string{"v1"}, []interface{}{object{"clientCIDR": "0.0.0.0/0", "serverAddress": address}}})
}

type gvRef struct {
	GroupVersion string `json:"groupVersion"`
	Version      string `json:"version"`
}

type legacyGroup struct {
	Kind       string  `json:"kind,omitempty"`
	APIVersion string  `json:"apiVersion,omitempty"`
	Name       string  `json:"name"`
	Versions   []gvRef `json:"versions"`
	Preferred  gvRef   `json:"preferredVersion"`
}

// legacyGroupList: every APIService object of the cluster counts, whoever can serve it.
func (c *catalog) legacyGroupList() []legacyGroup {
	out := []legacyGroup{}
	for _, e := range c.legacyGroups() {
		ref := gvRef{joinGV(e.group, e.version), e.version}
		if n := len(out); n > 0 && out[n-1].Name == e.group {
			out[n-1].Versions = append(out[n-1].Versions, ref)
			continue
		}
		out = append(out, legacyGroup{Name: e.group, Versions: []gvRef{ref}, Preferred: ref})
	}
	return out
}

func (c *catalog) serveLegacyAPIs(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, r, 200, struct {
		Kind       string        `json:"kind"`
		APIVersion string        `json:"apiVersion"`
		Groups     []legacyGroup `json:"groups"`
	}{"APIGroupList", "v1", c.legacyGroupList()})
}

func (c *catalog) serveLegacyGroup(w http.ResponseWriter, r *http.Request, group string) {
	for _, g := range c.legacyGroupList() {
		if g.Name != group {
			continue
		}
		known := false
		for _, v := range g.Versions {
			known = known || c.knowsGV(group, v.Version)
		}
		if known {
			g.Kind, g.APIVersion = "APIGroup", "v1"
			writeJSON(w, r, 200, g)
			return
		}
	}
	plainNotFound(w, r)
}

type legacyResource struct {
	Name       string   `json:"name"`
	Singular   string   `json:"singularName"`
	Namespaced bool     `json:"namespaced"`
	Group      string   `json:"group,omitempty"`
	Version    string   `json:"version,omitempty"`
	Kind       string   `json:"kind"`
	Verbs      []string `json:"verbs"`
	Short      []string `json:"shortNames,omitempty"`
	Categories []string `json:"categories,omitempty"`
}

func (c *catalog) serveLegacyVersion(w http.ResponseWriter, r *http.Request, group, version string) {
	if !c.knowsGV(group, version) {
		plainNotFound(w, r)
		return
	}
	if r.Method != "GET" && r.Method != "HEAD" {
		writeStatus(w, r, methodNotAllowed())
		return
	}
	list := []legacyResource{}
	for _, row := range c.byGV[joinGV(group, version)] {
		list = append(list, legacyResource{Name: row.Resource, Singular: row.singular(), Namespaced: row.Namespaced,
			Kind: row.Kind, Verbs: row.Verbs, Short: row.Short, Categories: row.Categories})
		for _, name := range row.subresourceNames() {
			sub := row.Subresources[name]
			entry := legacyResource{Name: row.Resource + "/" + name, Namespaced: row.Namespaced, Kind: sub.Kind, Verbs: sub.Verbs}
			if sub.Group != row.Group || sub.Version != row.Version {
				entry.Group, entry.Version = sub.Group, sub.Version
			}
			list = append(list, entry)
		}
	}
	writeJSON(w, r, 200, struct {
		Kind         string           `json:"kind"`
		APIVersion   string           `json:"apiVersion"`
		GroupVersion string           `json:"groupVersion"`
		Resources    []legacyResource `json:"resources"`
	}{"APIResourceList", "v1", joinGV(group, version), list})
}
