/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of an aggregated discovery answer → struct disco_doc, in steps that never hold up the event loop.
 */
#ifndef MVPROXY_KUBE_DISCO_PARSE_H
#define MVPROXY_KUBE_DISCO_PARSE_H

#include "base/err.h"
#include "base/step.h"
#include "kube/disco.h"

struct disco_parser;

/* NULL when out of memory. */
MEM_CHECK struct disco_parser *disco_parser_new(void);
void disco_parser_free(struct disco_parser *p);
/* Copies the next bytes of the body. False (reason in err) over LIMIT_DISCOVERY_BYTES or out of memory: free the
 * parser. */
bool disco_parser_feed(struct disco_parser *p, struct slice bytes, struct err *err);
/*
 * After the last byte: call until it is not MORE. One call looks at about `max_bytes` of the document (256 KiB is some
 * 2 ms). DONE gives the document, whose only reference is the caller's; the parser is then empty and can only be
 * freed. FAILED: not JSON, truncated, too deep, too big a part, duplicate or ill-typed fields that we read, too many
 * groups, or not an APIGroupDiscoveryList of a version we know; the reason is in err.
 */
enum step disco_parser_step(struct disco_parser *p, size_t max_bytes, struct disco_doc **out, struct err *err);
/* feed and step in one go, for tests and small documents. NULL with a reason. */
struct disco_doc *disco_parse(struct slice body, struct err *err);

#endif
