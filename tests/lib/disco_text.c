/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/disco_text.h"

#include <stdio.h>
#include <stdlib.h>

#include "kube/disco_parse.h"
#include "lib/tap.h"

struct disco_doc *disco_doc_of(struct slice text)
{
    struct err err = {""};
    struct disco_doc *d = disco_parse(text, &err);

    if (d == NULL)
        tap_bail("test document: %s", err.text);
    return d;
}

struct disco *disco_of_docs(struct disco_doc *core, struct disco_doc *apis)
{
    struct disco *d = disco_new(core, apis);

    disco_doc_unref(core);
    disco_doc_unref(apis);
    if (d == NULL)
        tap_bail("no memory");
    return d;
}

static struct disco_doc *of_items(const char *items)
{
    struct disco_doc *d;
    char *text;

    if (asprintf(&text, DISCO_TEXT("%s"), items) < 0)
        tap_bail("no memory");
    d = disco_doc_of(slice_str(text));
    free(text);
    return d;
}

struct disco *disco_of_items(const char *core, const char *apis)
{
    return disco_of_docs(of_items(core), of_items(apis));
}
