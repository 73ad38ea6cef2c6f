/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/local_names.h"

#include "base/slice.h"

#include <stdio.h>
#include <unistd.h>

enum { LINE_BYTES = 4096, LINES_MOST = 100000, NAME_BYTES = 256 };

/* As DNS has it: the dot at the end says only that nothing is missing. */
static bool same_name(struct slice a, struct slice b)
{
    if (a.n > 1 && a.p[a.n - 1] == '.')
        a.n--;
    if (b.n > 1 && b.p[b.n - 1] == '.')
        b.n--;
    return a.n > 0 && slice_ieq(a, b);
}

/* "a b" is "a" and "b", with any white space between. */
static bool next_word(struct slice *rest, struct slice *word)
{
    size_t n = 0;

    *rest = slice_trim(*rest);
    while (n < rest->n && strchr(" \t\r\n", rest->p[n]) == NULL)
        n++;
    *word = slice_of(rest->p, n);
    *rest = slice_from(*rest, n);
    return n > 0;
}

static bool address_in(const char *line, const char *name, char out[LOCAL_NAMES_BYTES])
{
    struct slice rest = slice_of(line, strcspn(line, "#\r\n")), address, word;

    if (!next_word(&rest, &address) || address.n >= LOCAL_NAMES_BYTES)
        return false;
    while (next_word(&rest, &word)) {
        if (!same_name(word, slice_str(name)))
            continue;
        (void)snprintf(out, LOCAL_NAMES_BYTES, "%.*s", (int)address.n, address.p);
        return true;
    }
    return false;
}

size_t local_names_find(const char *file, const char *name, char out[LOCAL_NAMES_MAX][LOCAL_NAMES_BYTES])
{
    FILE *f = fopen(file, "re");
    char line[LINE_BYTES];
    size_t n = 0;

    if (f == NULL)
        return 0;
    for (size_t i = 0; i < LINES_MOST && n < LOCAL_NAMES_MAX && fgets(line, sizeof(line), f) != NULL; i++)
        n += address_in(line, name, out[n]);
    (void)fclose(f);
    return n;
}

bool local_names_is_own(const char *name)
{
    char own[NAME_BYTES] = "";
    struct slice host;

    if (gethostname(own, sizeof(own) - 1) != 0)
        return false;
    host = slice_str(own);
    return same_name(slice_str(name), host) || same_name(slice_str(name), slice_of(host.p, slice_index(host, '.')));
}
