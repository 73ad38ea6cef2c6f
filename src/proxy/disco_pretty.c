/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/disco_pretty.h"

#include "base/buf.h"
#include "base/limits.h"
#include "http/gzip.h"
#include "kube/json_indent.h"

/* The longest part of a document is a resource's text; compressed data can be a little longer than what it is of. */
enum { PIECE_BYTES = 64 << 10, CEILING = PIECE_BYTES + LIMIT_DISCOVERY_PART_BYTES, GZIP_CEILING = 2 * CEILING };
enum { GZIP_STATE_BYTES = 268 << 10 }; /* zconf.h: with the window and the memory level that gzipper_new() asks for */

struct disco_pretty {
    struct json_indenter indenter;
    struct gzipper *gzip;
    struct buf text, compressed;
    struct quota *quota; /* has GZIP_STATE_BYTES for `gzip` */
    bool ended;          /* the last piece has been made */
};

static bool begin_gzip(struct disco_pretty *p, struct quota *quota)
{
    if (!quota_take(quota, GZIP_STATE_BYTES))
        return false;
    p->quota = quota;
    p->gzip = gzipper_new();
    return p->gzip != NULL;
}

struct disco_pretty *disco_pretty_new(struct slice compact, bool gzip, struct quota *quota)
{
    struct disco_pretty *p = mem_zalloc(sizeof(*p));

    if (p == NULL)
        return NULL;
    /* kube-apiserver puts a line feed behind the compact form only. */
    if (compact.n > 0 && compact.p[compact.n - 1] == '\n')
        compact.n--;
    p->indenter.rest = compact;
    buf_init(&p->text, CEILING);
    buf_init(&p->compressed, GZIP_CEILING);
    buf_charge(&p->text, quota);
    buf_charge(&p->compressed, quota);
    if (!gzip || begin_gzip(p, quota))
        return p;
    disco_pretty_free(p);
    return NULL;
}

void disco_pretty_free(struct disco_pretty *p)
{
    if (p == NULL)
        return;
    gzipper_free(p->gzip);
    if (p->quota != NULL)
        quota_give(p->quota, GZIP_STATE_BYTES);
    buf_free(&p->text);
    buf_free(&p->compressed);
    mem_free(p);
}

static bool lay_out(struct disco_pretty *p)
{
    bool good;

    buf_reset(&p->text);
    good = json_indent_some(&p->indenter, PIECE_BYTES, &p->text);
    p->ended = p->indenter.rest.n == 0;
    return good;
}

static bool compress(struct disco_pretty *p)
{
    buf_reset(&p->compressed);
    return gzipper_feed(p->gzip, buf_slice(&p->text), p->ended, &p->compressed) == GZIP_OK;
}

bool disco_pretty_next(struct disco_pretty *p, struct slice *piece)
{
    bool good = lay_out(p) && (p->gzip == NULL || compress(p));

    *piece = p->gzip != NULL ? buf_slice(&p->compressed) : buf_slice(&p->text);
    return good;
}

bool disco_pretty_done(const struct disco_pretty *p)
{
    return p->ended;
}
