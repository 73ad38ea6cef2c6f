/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/selector.h"

#include "lib/tap.h"

#define N63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

int main(void)
{
    static const struct {
        const char *text;
        bool valid;
    } labels[] = {
        {"", true},
        {" ", true},
        {"a", true},
        {"!a", true},
        {" ! a ", true},
        {"a=b", true},
        {"a==b", true},
        {"a!=b", true},
        {"a = b , c", true},
        {"a=", true},
        {"a==,b", true},
        {"a!=", true},
        {"a>1", true},
        {"a<0", true},
        {"a in (b)", true},
        {"a in (b,c)", true},
        {"a in (b,,c)", true},
        {"a in ()", true},
        {"a in (,)", true},
        {"a notin (b)", true},
        {"a notin(b),c", true},
        {"in in (in)", true},
        {"notin", true},
        {"a=in", true},
        {"x.y/a=b", true},
        {"x-1.y/a", true},
        {N63, true},
        {"a=" N63, true},
        {"A_b.C", true},
        {"a,", false},
        {",a", false},
        {"a,,b", false},
        {"a b", false},
        {"a=b c", false},
        {"a=b=c", false},
        {"!a=b", false},
        {"!!a", false},
        {"!", false},
        {"=a", false},
        {"a!b", false},
        {"a in b", false},
        {"a in (b", false},
        {"a in", false},
        {"a in (b c)", false},
        {"a in (b))", false},
        {"a (b)", false},
        {"a>b", false},
        {"a>", false},
        {"a>1.5", false},
        {"a>9223372036854775808", false},
        {"-a", false},
        {"a-", false},
        {"a=-b", false},
        {"a=b/c", false},
        {"X.y/a", false},
        {"/a", false},
        {"a/", false},
        {"a/b/c", false},
        {"a..b/c", false},
        {N63 "a", false},
        {"a=" N63 "a", false},
        {"a in (-)", false},
        {"\xc3\xa9", false},
        {"a=(", false},
        {"a in ((b))", false},
    };
    static const struct {
        const char *text;
        bool valid, exact;
        const char *name;
    } fields[] = {
        {"", true, false, ""},
        {",,", true, false, ""},
        {"metadata.name=a", true, true, "a"},
        {"metadata.name==a", true, true, "a"},
        {"metadata.name===a", false, false, ""},
        {"metadata.name!=a", true, false, ""},
        {"metadata.name=", true, true, ""},
        {"b=c,metadata.name=a", true, true, "a"},
        {"metadata.name=b,metadata.name=a", true, true, "a"},
        {"metadata.name==b,metadata.name=a", true, true, "b"},
        {"metadata.name=a\\\\b", true, true, "a\\b"},
        {"metadata.name=a\\,b", true, true, "a,b"},
        {"metadata.name=a\\=b,x=y", true, true, "a=b"},
        {"metadata.name=a,b", false, false, ""},
        {"metadata.name=a\\", false, false, ""},
        {"metadata.name=a\\n", false, false, ""},
        {"!metadata.name", false, false, ""},
        {"=x", true, false, ""},
    };
    struct arena *a = arena_new(1 << 16);
    struct selector_name out;

    for (size_t i = 0; i < ROWS(labels); i++)
        is_int(selector_labels_valid(slice_str(labels[i].text)), labels[i].valid, "label selector '%s'",
               labels[i].text);
    for (size_t i = 0; i < ROWS(fields); i++) {
        ok(selector_fields_name(a, slice_str(fields[i].text), &out), "field selector '%s'", fields[i].text);
        is_int(out.valid, fields[i].valid, "'%s': valid", fields[i].text);
        if (!out.valid)
            continue;
        is_int(out.exact, fields[i].exact, "'%s': exact", fields[i].text);
        is_slice(out.name, fields[i].name, "'%s': name", fields[i].text);
    }
    arena_free(a);
    a = arena_new(8);
    ok(!selector_fields_name(a, SLICE_LIT("metadata.name=a-long-name\\,b"), &out), "no memory for what is unescaped");
    ok(selector_fields_name(a, SLICE_LIT("metadata.name=a-long-name"), &out) && out.valid, "what is not needs none");
    arena_free(a);
    return tap_end();
}
