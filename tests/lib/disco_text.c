/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/disco_text.h"

#include <stdio.h>
#include <stdlib.h>

#include "kube/disco_parse.h"
#include "lib/tap.h"

struct disco_doc *disco_doc_of_text(const char *text)
{
    struct err err = {""};
    struct disco_doc *d = disco_parse(slice_str(text), &err);

    if (d == NULL)
        tap_bail("test document: %s", err.text);
    return d;
}

static struct disco_doc *of_items(const char *items)
{
    struct disco_doc *d;
    char *text;

    if (asprintf(&text, DISCO_TEXT("%s"), items) < 0)
        tap_bail("no memory");
    d = disco_doc_of_text(text);
    free(text);
    return d;
}

struct disco *disco_of_items(const char *core, const char *apis)
{
    struct disco_doc *c = of_items(core), *a = of_items(apis);
    struct disco *d = disco_new(c, a);

    disco_doc_unref(c);
    disco_doc_unref(a);
    if (d == NULL)
        tap_bail("no memory");
    return d;
}
