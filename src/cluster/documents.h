/*
 * From merged text to what is served: copies, entity tags and compressed forms, made in steps that never hold up the
 * loop.
 */
#ifndef MVPROXY_CLUSTER_DOCUMENTS_H
#define MVPROXY_CLUSTER_DOCUMENTS_H

#include "cluster/served.h"
#include "kube/disco_parse.h"

struct documents;

enum { DOCUMENTS_GZIP_ABOVE = 128 << 10 }; /* kube-apiserver compresses only what is over 128 KiB */

/* The text of each shape must live until the last step. `etag`: a tag to use instead of our own; empty: none. NULL when
 * out of memory. */
MEM_CHECK struct documents *documents_new(const struct slice text[SERVED_SHAPES],
                                          const struct slice etag[SERVED_SHAPES]);
void documents_free(struct documents *d); /* NULL is fine */
/*
 * Call until it is not MORE; one call is some 2 ms. DONE gives the result, the caller's reference. Own tags are the
 * quoted upper-case hex SHA-512 of the body: the same bytes have the same tag wherever they were merged.
 */
enum disco_step documents_step(struct documents *d, struct served_documents **out);

#endif
