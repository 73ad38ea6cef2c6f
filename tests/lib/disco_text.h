/* SPDX-License-Identifier: Apache-2.0 */
/* What a server serves, from a text that a test has. For tests that link libkube. */
#ifndef MVPROXY_TESTS_LIB_DISCO_TEXT_H
#define MVPROXY_TESTS_LIB_DISCO_TEXT_H

#include "base/slice.h"

struct disco;
struct disco_doc;

#define DISCO_TEXT(items)                                                                                              \
    "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":[" items  \
    "]}"

/* All end the test if it is no such document; the caller's. */
struct disco_doc *disco_doc_of(struct slice text);
/* Takes both. */
struct disco *disco_of_docs(struct disco_doc *core, struct disco_doc *apis);
/* `core`, `apis`: the items of both documents, "" for none. */
struct disco *disco_of_items(const char *core, const char *apis);

#endif
