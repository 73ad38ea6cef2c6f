// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// bodyLimit is kube-apiserver's default for writes of resources.
const bodyLimit = 3 << 20

// resource answers a request for a resource that the server may or may not serve.
func (c *call) resource(w http.ResponseWriter, r *http.Request) {
	i := c.info
	if !c.cat.knowsGV(i.Group, i.Version) {
		plainNotFound(w, r)
		return
	}
	row, ok := c.cat.find(i.Group, i.Version, i.Kind)
	if !ok || (!row.Namespaced && i.Namespace != "" && i.Kind != "namespaces") {
		writeStatus(w, r, noSuchResource())
		return
	}
	if i.Subresource != "" {
		if _, ok := row.Subresources[i.Subresource]; !ok {
			writeStatus(w, r, noSuchResource())
			return
		}
	}
	if !c.verbServed(row) || r.Method == http.MethodHead {
		writeStatus(w, r, methodNotAllowed())
		return
	}
	if c.simBody(w, r) {
		return
	}
	t := &target{call: c, row: row, ns: i.Namespace}
	if i.Kind == "namespaces" && i.Group == "" {
		t.ns = ""
	}
	if i.Subresource != "" {
		t.subresource(w, r)
		return
	}
	if !jsonAcceptable(r.Header.Values("Accept")) {
		writeStatus(w, r, failure(406, "NotAcceptable", "only the following media types are accepted: "+
			"application/json, application/yaml, application/vnd.kubernetes.protobuf", nil))
		return
	}
	t.main(w, r)
}

func (c *call) verbServed(row apiRow) bool {
	verbs := row.Verbs
	verb := c.info.Verb
	if c.info.Subresource != "" {
		verbs = row.Subresources[c.info.Subresource].Verbs
	} else if verb == "get" && c.info.Name == "" {
		verb = "list"
	}
	return contains(verbs, verb)
}

// target is the resource of a call that the server serves.
type target struct {
	*call
	row apiRow
	ns  string
}

func (t *target) main(w http.ResponseWriter, r *http.Request) {
	switch t.info.Verb {
	case "create":
		t.create(w, r)
	case "get":
		t.get(w, r)
	case "list":
		t.list(w, r)
	case "watch":
		t.watch(w, r)
	case "update":
		t.update(w, r)
	case "patch":
		t.patch(w, r)
	case "delete":
		t.delete(w, r)
	case "deletecollection":
		t.deleteCollection(w, r)
	default:
		writeStatus(w, r, methodNotAllowed())
	}
}

// shown is an object as this version of the resource shows it.
func (t *target) shown(o object) object {
	out := make(object, len(o)+2)
	for k, v := range o {
		out[k] = v
	}
	out["apiVersion"], out["kind"] = joinGV(t.row.Group, t.row.Version), t.row.Kind
	return out
}

// stored is an object as the store has it: without a version.
func stored(o object) object {
	out := copyObject(o)
	delete(out, "apiVersion")
	delete(out, "kind")
	return out
}

func (t *target) reply(w http.ResponseWriter, r *http.Request, code int, o object, st *apiStatus) {
	if st != nil {
		writeStatus(w, r, st)
		return
	}
	writeJSON(w, r, code, t.shown(o))
}

// readBody reads a bounded JSON body.
func readBody(r *http.Request) ([]byte, *apiStatus) {
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyLimit+1))
	if err != nil {
		return nil, badRequest(err.Error())
	}
	if len(body) > bodyLimit {
		return nil, failure(413, "RequestEntityTooLarge", fmt.Sprintf("Request entity too large: limit is %d", bodyLimit), nil)
	}
	return body, nil
}

func readObject(r *http.Request) (object, *apiStatus) {
	if text := r.Header.Get("Content-Type"); text != "" {
		if mediaType, _, err := mime.ParseMediaType(text); err != nil || mediaType != "application/json" {
			return nil, failure(415, "UnsupportedMediaType", "the body of the request was in an unknown format - "+
				"accepted media types include: application/json", nil)
		}
	}
	body, st := readBody(r)
	if st != nil {
		return nil, st
	}
	o := object{}
	if err := decodeJSON(body, &o); err != nil {
		return nil, badRequest("the object provided is unrecognized (must be of type Object): " + err.Error())
	}
	if _, ok := o["metadata"].(object); !ok {
		o["metadata"] = object{}
	}
	return o, nil
}

func (t *target) create(w http.ResponseWriter, r *http.Request) {
	if t.row.Resource == "selfsubjectreviews" {
		// kubectl sends it as protobuf; nothing in it matters.
		t.review(w, r, object{})
		return
	}
	o, st := readObject(r)
	if st != nil {
		writeStatus(w, r, st)
		return
	}
	if len(t.row.Verbs) == 1 { // reviews and bindings: nothing is stored
		t.review(w, r, o)
		return
	}
	if t.info.Name != "" {
		writeStatus(w, r, methodNotAllowed())
		return
	}
	if st := t.namespaceExists(); st != nil {
		writeStatus(w, r, st)
		return
	}
	name := metaString(o, "name")
	if name == "" {
		if prefix := metaString(o, "generateName"); prefix != "" {
			name = prefix + newUID()[:5]
		}
	}
	if name == "" || strings.ContainsAny(name, "/%") {
		writeStatus(w, r, failure(422, "Invalid", fmt.Sprintf("%s %q is invalid: metadata.name: Required value: "+
			"name or generateName is required", t.row.Kind, name), &statusDetails{Group: t.row.Group, Kind: t.row.Kind}))
		return
	}
	o = prepared(t.row, stored(o))
	o, st = t.server.sim.store.create(t.row.Group, t.row.Resource, t.ns, name, o)
	t.reply(w, r, 201, o, st)
}

// prepared fills in what a kube-apiserver's controllers would write at once.
func prepared(row apiRow, o object) object {
	switch row.Resource {
	case "customresourcedefinitions":
		o["status"] = object{"conditions": []interface{}{
			object{"type": "NamesAccepted", "status": "True", "reason": "NoConflicts"},
			object{"type": "Established", "status": "True", "reason": "InitialNamesAccepted"}}}
	case "namespaces":
		o["spec"] = object{"finalizers": []interface{}{"kubernetes"}}
		o["status"] = object{"phase": "Active"}
	}
	return o
}

func (t *target) namespaceExists() *apiStatus {
	if !t.row.Namespaced {
		return nil
	}
	if t.ns == "" {
		return methodNotAllowed()
	}
	if _, ok := t.server.sim.store.get("", "namespaces", "", t.ns); !ok {
		return notFound("", "namespaces", t.ns)
	}
	return nil
}

func (t *target) get(w http.ResponseWriter, r *http.Request) {
	o, ok := t.server.sim.store.get(t.row.Group, t.row.Resource, t.ns, t.info.Name)
	if !ok {
		writeStatus(w, r, notFound(t.row.Group, t.row.Resource, t.info.Name))
		return
	}
	t.reply(w, r, 200, o, nil)
}

type listDocument struct {
	Kind       string           `json:"kind"`
	APIVersion string           `json:"apiVersion"`
	Metadata   object           `json:"metadata"`
	Items      []json.Marshaler `json:"items"`
}

type rawItem object

func (o rawItem) MarshalJSON() ([]byte, error) { return json.Marshal(object(o)) }

func (t *target) listOf(objects []object, rv uint64) listDocument {
	list := listDocument{Kind: t.row.Kind + "List", APIVersion: joinGV(t.row.Group, t.row.Version),
		Metadata: object{"resourceVersion": fmt.Sprint(rv)}, Items: []json.Marshaler{}}
	for _, o := range objects {
		list.Items = append(list.Items, rawItem(o))
	}
	return list
}

func (t *target) list(w http.ResponseWriter, r *http.Request) {
	sel, err := parseSelector(r.URL.Query())
	if err != nil {
		writeStatus(w, r, badRequest(err.Error()))
		return
	}
	all, rv := t.server.sim.store.list(t.row.Group, t.row.Resource, t.ns)
	var found []object
	for _, o := range all {
		if sel.matches(o) {
			found = append(found, o)
		}
	}
	writeJSON(w, r, 200, t.listOf(found, rv))
}

func (t *target) update(w http.ResponseWriter, r *http.Request) {
	o, st := readObject(r)
	if st != nil {
		writeStatus(w, r, st)
		return
	}
	if name := metaString(o, "name"); name != "" && name != t.info.Name {
		writeStatus(w, r, badRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, t.info.Name)))
		return
	}
	pre := preconditions{uid: metaString(o, "uid"), resourceVersion: metaString(o, "resourceVersion")}
	updated, st := t.server.sim.store.update(t.row.Group, t.row.Resource, t.ns, t.info.Name, pre,
		func(old object) (object, *apiStatus) {
			next := stored(o)
			if status, ok := old["status"]; ok && contains(t.row.subresourceNames(), "status") {
				next["status"] = status // written through the subresource only
			}
			return next, nil
		})
	if st != nil && st.Code == 404 && t.row.Resource == "leases" && pre == (preconditions{}) {
		created, st := t.server.sim.store.create(t.row.Group, t.row.Resource, t.ns, t.info.Name, stored(o))
		t.reply(w, r, 201, created, st)
		return
	}
	t.reply(w, r, 200, updated, st)
}

// patched applies the body to an object, by its content type.
func patched(old object, contentType string, body []byte) (object, *apiStatus) {
	var out interface{}
	switch contentType {
	case "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml":
		patch := object{}
		if err := decodeJSON(body, &patch); err != nil {
			return nil, badRequest("error decoding patch: " + err.Error())
		}
		out = mergePatch(old, patch)
	case "application/json-patch+json":
		var err error
		if out, err = jsonPatch(old, body); err != nil {
			return nil, failure(422, "Invalid", "the server rejected our request due to an error in our request: "+err.Error(), nil)
		}
	default:
		return nil, failure(415, "UnsupportedMediaType", "the body of the request was in an unknown format - accepted media types include: "+
			"application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml", nil)
	}
	o, ok := out.(object)
	if !ok || meta(o) == nil {
		return nil, badRequest("the patch leaves no object")
	}
	return o, nil
}

func (t *target) patch(w http.ResponseWriter, r *http.Request) {
	body, st := readBody(r)
	if st != nil {
		writeStatus(w, r, st)
		return
	}
	contentType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	st0 := t.server.sim.store
	o, st := st0.update(t.row.Group, t.row.Resource, t.ns, t.info.Name, preconditions{},
		func(old object) (object, *apiStatus) {
			next, st := patched(old, contentType, body)
			if st != nil {
				return nil, st
			}
			if rv := metaString(next, "resourceVersion"); rv != metaString(old, "resourceVersion") {
				return nil, conflict(t.row.Group, t.row.Resource, t.info.Name,
					"the object has been modified; please apply your changes to the latest version and try again")
			}
			return stored(next), nil
		})
	if st != nil && st.Code == 404 && contentType == "application/apply-patch+yaml" {
		next, st := patched(object{"metadata": object{}}, contentType, body)
		if st == nil {
			next, st = st0.create(t.row.Group, t.row.Resource, t.ns, t.info.Name, stored(next))
		}
		t.reply(w, r, 201, next, st)
		return
	}
	t.reply(w, r, 200, o, st)
}

// deleteOptions reads the preconditions of a delete; an empty body has none.
func deleteOptions(r *http.Request) (preconditions, *apiStatus) {
	body, st := readBody(r)
	if st != nil || len(body) == 0 {
		return preconditions{}, st
	}
	var options struct {
		Preconditions struct {
			UID             string `json:"uid"`
			ResourceVersion string `json:"resourceVersion"`
		} `json:"preconditions"`
	}
	if err := json.Unmarshal(body, &options); err != nil {
		return preconditions{}, badRequest("DeleteOptions: " + err.Error())
	}
	return preconditions{uid: options.Preconditions.UID, resourceVersion: options.Preconditions.ResourceVersion}, nil
}

func (t *target) delete(w http.ResponseWriter, r *http.Request) {
	pre, st := deleteOptions(r)
	if st != nil {
		writeStatus(w, r, st)
		return
	}
	o, gone, st := t.server.sim.store.remove(t.row.Group, t.row.Resource, t.ns, t.info.Name, pre)
	if st != nil {
		writeStatus(w, r, st)
		return
	}
	if t.row.Resource == "namespaces" {
		t.server.sim.store.purge(t.info.Name)
	}
	if !gone {
		t.reply(w, r, 200, o, nil)
		return
	}
	writeJSON(w, r, 200, success(t.row.Group, t.row.Resource, t.info.Name, metaString(o, "uid")))
}

func (t *target) deleteCollection(w http.ResponseWriter, r *http.Request) {
	sel, err := parseSelector(r.URL.Query())
	if err != nil {
		writeStatus(w, r, badRequest(err.Error()))
		return
	}
	all, _ := t.server.sim.store.list(t.row.Group, t.row.Resource, t.ns)
	var removed []object
	for _, o := range all {
		if sel.matches(o) {
			t.server.sim.store.remove(t.row.Group, t.row.Resource, metaString(o, "namespace"), metaString(o, "name"), preconditions{})
			removed = append(removed, o)
		}
	}
	writeJSON(w, r, 200, t.listOf(removed, t.server.sim.store.version()))
}
