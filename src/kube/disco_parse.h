/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses an aggregated discovery document into a struct disco_doc, in steps that do not hold up the event loop.
 */
#ifndef MVPROXY_KUBE_DISCO_PARSE_H
#define MVPROXY_KUBE_DISCO_PARSE_H

#include "base/err.h"
#include "base/fiber.h"
#include "kube/disco.h"

struct disco_parser;

/* NULL when out of memory. */
MEM_CHECK struct disco_parser *disco_parser_new(void);
void disco_parser_free(struct disco_parser *p);
/*
 * Before the first step, for the document of somebody who is to be believed in what he serves only: what no API server
 * can have is left out, see disco_doc_left_out(): names that gvr_is_group() and its like refuse, those that come twice,
 * resources of whose kinds, short names and the like one is not of printing ASCII, and groups that do not belong into
 * this document: `core` says that it is /api, which has the group "" only, and /apis never has that. The raw bytes stay
 * as they were sent.
 */
void disco_parser_judge(struct disco_parser *p, bool core);
/* Copies the next bytes of the body. False, with *err set, over LIMIT_DISCOVERY_BYTES (of a peer,
 * LIMIT_DISCOVERY_PEER_BYTES) or when out of memory: the parser can then only be freed. */
bool disco_parser_feed(struct disco_parser *p, struct slice bytes, struct err *err);
/*
 * After the last byte: to be called until it does not return STEP_MORE. One call reads about `max_bytes` of the
 * document (256 KiB take about 2 ms). STEP_DONE gives the document, of which the caller has the only reference; the
 * parser is then empty and can only be freed. STEP_FAILED, with *err set: not JSON, truncated, nested too deeply, a
 * part too big, a field that is read is repeated or has the wrong type, too many groups, or not an
 * APIGroupDiscoveryList of a known version.
 */
enum step disco_parser_step(struct disco_parser *p, size_t max_bytes, struct disco_doc **out, struct err *err);
/* The same in the course of other work, which spends the bytes that are read. NULL with *err set. */
struct disco_doc *disco_parser_read(struct disco_parser *p, struct fiber *f, struct err *err);
/* Feeds and reads in one call, for tests and small documents. NULL with *err set. */
struct disco_doc *disco_parse(struct slice body, struct err *err);

#endif
