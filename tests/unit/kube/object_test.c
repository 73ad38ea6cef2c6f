/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What list and watch need of any object, and the items of lists of any kind.
 */
#include "kube/object.h"

#include "lib/tap.h"

static void test_list(void)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{",
        "{\"items\":1}",
        "{\"items\":{}}",
        "{\"items\":[1,]}",
        "{\"items\":[],\"items\":[]}",
        "{\"items\":[]} x",
        "{\"kind\":\"Pod\",\"items\":[]}",
        "{\"kind\":\"WidgetList\",\"metadata\":1}",
        "{\"kind\":\"WidgetList\",\"items\":[],\"items\":[]}",
        "{}",
        "{\"items\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    };
    struct object_list list;
    struct slice item;
    struct err err = {""};

    ok(object_list_begin(&list,
                         SLICE_LIT("{\"kind\":\"WidgetList\",\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[ "
                                   "{\"a\":[1]} ,{}, {\"b\":\"]\"}]}"),
                         &err),
       "a list");
    is_slice(list.resource_version, "9", "its resourceVersion");
    ok(object_list_next(&list, &item), "first item");
    is_slice(item, "{\"a\":[1]}", "its text");
    ok(object_list_next(&list, &item), "second item");
    is_slice(item, "{}", "its text");
    ok(object_list_next(&list, &item), "third item");
    is_slice(item, "{\"b\":\"]\"}", "its text");
    ok(!object_list_next(&list, &item) && !object_list_next(&list, &item), "the end, and again");
    ok(object_list_begin(&list, SLICE_LIT("{\"kind\":\"WidgetList\",\"items\":null,\"metadata\":{}}"), &err) &&
           !object_list_next(&list, &item),
       "null items");
    ok(object_list_begin(&list, SLICE_LIT("{\"kind\":\"WidgetList\"}"), &err) && !object_list_next(&list, &item),
       "no items");
    is_slice(list.resource_version, NULL, "no resourceVersion");
    is_slice(list.more, NULL, "no page follows");
    ok(object_list_begin(&list, SLICE_LIT("{\"kind\":\"WidgetList\",\"metadata\":{\"continue\":\"c\"}}"), &err),
       "a page");
    is_slice(list.more, "c", "and there are more");
    for (size_t i = 0; i < ROWS(bad); i++) {
        err_clear(&err);
        ok(!object_list_begin(&list, slice_str(bad[i]), &err) && err_is_set(&err), "refused: %s (%s)", bad[i],
           err.text);
    }
    err_clear(&err);
    ok(!object_list_begin(&list, SLICE_LIT("{\"items\":[]} x"), &err) &&
           strstr(err.text, "something follows the document at byte 13") != NULL,
       "why: %s", err.text);
    err_clear(&err);
    ok(!object_list_begin(&list, SLICE_LIT("{\"items\":[1,]}"), &err) && strstr(err.text, "at byte 12") != NULL,
       "why: %s", err.text);
}

static void test_key(void)
{
    char out[OBJECT_KEY_BYTES];

    is_slice(object_key(SLICE_LIT("{\"metadata\":{\"name\":\"n\",\"namespace\":\"s\"}}"), out), "s/n",
             "namespace and name");
    is_slice(object_key(SLICE_LIT("{\"metadata\":{\"name\":\"n\"}}"), out), "n", "a name alone");
    is_slice(object_key(SLICE_LIT("{\"metadata\":{}}"), out), NULL, "no name");
    is_slice(object_key(SLICE_LIT("{\"metadata\":{\"name\":\"a\\u0062\"}}"), out), NULL, "an escaped name is none");
    is_slice(object_text(SLICE_LIT("{\"spec\":{\"group\":\"g\"}}"), SLICE_LIT("spec"), SLICE_LIT("group")), "g",
             "a text");
}

/* Whatever comes behind the names, and wherever it ends. */
static void test_key_begun(void)
{
    static const char text[] =
        "{\"kind\":\"X\",\"metadata\":{\"name\":\"n\",\"generateName\":\"g\",\"namespace\":\"s\",\"uid\":\"u\"}}";
    const size_t known =
        sizeof("{\"kind\":\"X\",\"metadata\":{\"name\":\"n\",\"generateName\":\"g\",\"namespace\":\"s\"") - 1;
    static const char *const none[] = {"",
                                       "{}",
                                       "[]",
                                       "{\"metadata\":[",
                                       "{\"metadata\":{\"name\":\"n\"}}",
                                       "{\"metadata\":{\"namespace\":\"s\"}}",
                                       "{\"metadata\":{\"name\":\"n\",\"namespace\":1}}",
                                       "{\"x\":{\"name\":\"n\",\"namespace\":\"s\"}}"};
    char out[OBJECT_KEY_BYTES];
    size_t wrong = 0;

    for (size_t n = 0; n < sizeof(text); n++) {
        struct slice key = object_key_begun(slice_of(text, n), false, out);

        wrong += n < known ? key.p != NULL : !slice_eq(key, SLICE_LIT("s/n"));
    }
    is_u64(wrong, 0, "told as soon as both names are there");
    for (size_t i = 0; i < ROWS(none); i++)
        is_slice(object_key_begun(slice_str(none[i]), false, out), NULL, "none in %s", none[i]);
    is_slice(object_key_begun(SLICE_LIT("{\"metadata\":{\"name\":\"n\",\"uid\":\"1"), true, out), "n",
             "the name alone, of what has no namespace");
    is_slice(object_key_begun(SLICE_LIT("{\"metadata\":{\"name\":\"n"), true, out), NULL, "if it is all there");
}

int main(void)
{
    test_list();
    test_key();
    test_key_begun();
    return tap_end();
}
