/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a discovery document's protobuf form on its own and compares it with the parsed JSON, field by field: for the
 * unit test, the property test and the fuzz harness. Fields and their order as in generated.proto.
 */
#ifndef MVPROXY_TESTS_LIB_PROTO_CHECK_H
#define MVPROXY_TESTS_LIB_PROTO_CHECK_H

#include "base/buf.h"
#include "kube/disco_proto.h"

/* Takes one length-delimited field off the front if it has this number. */
bool pb_take(struct slice *in, unsigned field, struct slice *content);
/* Whether `in`, magic and envelope included, says what the document says, with this apiVersion. */
bool pb_agrees(struct slice in, const struct disco_doc *doc, const char *api_version);
/* The whole in one piece, stepped with this budget; false when out of memory or too big. */
bool pb_encode(const struct disco_doc *doc, size_t budget, enum disco_form form, struct buf *out);

#endif
