// SPDX-License-Identifier: Apache-2.0

package main

import (
	"compress/gzip"
	"net/http"
	"strconv"
)

// Enough protobuf to write an aggregated discovery document: lengths and bytes.

func protoBytes(out []byte, field int, value []byte) []byte {
	out = append(out, byte(field<<3|2))
	n := len(value)
	for n >= 0x80 {
		out = append(out, byte(n)|0x80)
		n >>= 7
	}
	out = append(out, byte(n))
	return append(out, value...)
}

func protoString(out []byte, field int, value string) []byte {
	return protoBytes(out, field, []byte(value))
}

func protoStrings(out []byte, field int, values []string) []byte {
	for _, v := range values {
		out = protoString(out, field, v)
	}
	return out
}

func (k discoveryKindRef) proto() []byte {
	return protoString(protoString(protoString(nil, 1, k.Group), 2, k.Version), 3, k.Kind)
}

func (s discoverySubresource) proto() []byte {
	out := protoString(nil, 1, s.Subresource)
	if s.ResponseKind != nil {
		out = protoBytes(out, 2, s.ResponseKind.proto())
	}
	for _, t := range s.Accepted {
		out = protoBytes(out, 3, t.proto())
	}
	return protoStrings(out, 4, s.Verbs)
}

func (r discoveryResource) proto() []byte {
	out := protoString(nil, 1, r.Resource)
	if r.ResponseKind != nil {
		out = protoBytes(out, 2, r.ResponseKind.proto())
	}
	out = protoString(out, 3, r.Scope)
	out = protoString(out, 4, r.Singular)
	out = protoStrings(out, 5, r.Verbs)
	out = protoStrings(out, 6, r.Short)
	out = protoStrings(out, 7, r.Categories)
	for _, s := range r.Subresources {
		out = protoBytes(out, 8, s.proto())
	}
	return out
}

func (v discoveryVersion) proto() []byte {
	out := protoString(nil, 1, v.Version)
	for _, r := range v.Resources {
		out = protoBytes(out, 2, r.proto())
	}
	return protoString(out, 3, v.Freshness)
}

func (g discoveryGroup) proto() []byte {
	out := protoBytes(nil, 1, protoString(nil, 1, g.Metadata.Name))
	for _, v := range g.Versions {
		out = protoBytes(out, 2, v.proto())
	}
	return out
}

// discoveryProtobuf is the document in Kubernetes' envelope: four magic bytes and runtime.Unknown.
func discoveryProtobuf(list discoveryList, version string) []byte {
	raw := protoBytes(nil, 1, nil)
	for _, g := range list.Items {
		raw = protoBytes(raw, 2, g.proto())
	}
	kind := protoString(protoString(nil, 1, discoveryAPI+"/"+version), 2, discoveryKind)
	out := protoBytes([]byte("k8s\x00"), 1, kind)
	out = protoBytes(out, 2, raw)
	out = protoString(out, 3, "")
	return protoString(out, 4, "")
}

func writeBytes(w http.ResponseWriter, r *http.Request, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	if len(body) > gzipThreshold && takesGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Add("Vary", "Accept-Encoding")
		z, _ := gzip.NewWriterLevel(w, 1)
		z.Write(body)
		z.Close()
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}
