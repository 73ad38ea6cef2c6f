/* Documents that are not the same bytes are never taken for the same, however much they are made to look alike. */
#include "cluster/alike.h"

#include <stdio.h>

#include "kube/disco_parse.h"
#include "lib/tap.h"

enum { WORD = 8, TRIES = 1 << 20 };

#define BEFORE                                                                                                         \
    "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":"         \
    "[{\"metadata\":{\"name\":\"g\"},\"versions\":[{\"version\":\"v1\",\"resources\":["
#define BEHIND "],\"freshness\":\"Current\"}]}]}\n"
/* One resource; the words that are exchanged begin at a multiple of eight. */
#define RESOURCE_BEFORE "{\"resource\":\"things\",\"singularResource\":\"things-"
#define RESOURCE_BEHIND "\",\"verbs\":[\"get\"]}"
_Static_assert((sizeof RESOURCE_BEFORE - 1) % WORD == 0, "whole words");

static struct disco *document(const char *resource)
{
    struct err err = {.text = ""};
    struct disco_doc *doc;
    struct disco *d;
    char text[1000];

    (void)snprintf(text, sizeof text, "%s%s%s", BEFORE, resource, BEHIND);
    doc = disco_parse(slice_str(text), &err);
    d = doc == NULL ? NULL : disco_new(NULL, doc);
    if (d == NULL)
        tap_bail("no document: %s", err.text);
    disco_doc_unref(doc);
    return d;
}

static struct disco *ordinary(const char *name)
{
    char text[500];

    (void)snprintf(text, sizeof text, "%s%s%s", RESOURCE_BEFORE, name, RESOURCE_BEHIND);
    return document(text);
}

/* Steps of so many bytes until the answer is there. */
static enum alike_answer ask(const struct disco *const *servers, size_t n, size_t budget, size_t *steps)
{
    enum alike_answer answer = ALIKE_MORE;
    struct alike a;

    alike_init(&a, servers, n);
    for (*steps = 0; answer == ALIKE_MORE; ++*steps)
        answer = alike_step(&a, budget);
    return answer;
}

static void answers(void)
{
    struct disco *a = ordinary("aaaaaaaa"), *again = ordinary("aaaaaaaa"), *other = ordinary("aaaaaaab"),
                 *longer = ordinary("aaaaaaaaa");
    const struct {
        const char *name;
        const struct disco *servers[4];
        size_t n;
        enum alike_answer answer;
    } rows[] = {
        {"nobody", {NULL}, 0, ALIKE_YES},
        {"one server", {a}, 1, ALIKE_YES},
        {"the same document twice", {a, a}, 2, ALIKE_YES},
        {"the same bytes", {a, again, a, again}, 4, ALIKE_YES},
        {"another byte", {a, other}, 2, ALIKE_NO},
        {"another byte in the last of them", {a, again, a, other}, 4, ALIKE_NO},
        {"a byte more", {a, longer}, 2, ALIKE_NO},
    };
    size_t steps, bytes = disco_doc_raw(disco_apis(a)).n;

    for (size_t i = 0; i < ROWS(rows); i++) {
        is_int(ask(rows[i].servers, rows[i].n, SIZE_MAX, &steps), rows[i].answer, "%s", rows[i].name);
        is_u64(steps, 1, "%s: in one step", rows[i].name);
        is_int(ask(rows[i].servers, rows[i].n, 7, &steps), rows[i].answer, "%s: in pieces", rows[i].name);
    }
    is_int(ask(rows[3].servers, 4, 100, &steps), ALIKE_YES, "two of them have the bytes of the first");
    ok(steps >= 2 * bytes / 100 && steps <= 2 * bytes / 100 + 2, "%zu steps of 100 bytes for twice %zu", steps, bytes);
    disco_unref(a);
    disco_unref(again);
    disco_unref(other);
    disco_unref(longer);
}

/* ----------------------------------------------------------------------------------------- the same quick hash */

static uint64_t mix(uint64_t h)
{
    h *= 0x9e3779b97f4a7c15; /* as hash_quick() does with each word */
    return h ^ h >> 32;
}

static bool is_plain(uint64_t word)
{
    for (unsigned i = 0; i < WORD; i++) {
        unsigned char c = (unsigned char)(word >> 8 * i);

        if (c < 0x20 || c > 0x7e || c == '"' || c == '\\')
            return false;
    }
    return true;
}

/* hash_quick()'s state in front of the words that are exchanged. */
static uint64_t state_before(size_t whole)
{
    uint64_t h = whole * 0x9e3779b97f4a7c15, word;

    for (size_t i = 0; i < sizeof RESOURCE_BEFORE - 1; i += WORD) {
        memcpy(&word, &RESOURCE_BEFORE[i], WORD);
        h = mix(h ^ word);
    }
    return h;
}

static void resource(char *out, size_t n, uint64_t first, uint64_t second)
{
    char words[2 * WORD + 1] = "";

    memcpy(words, &first, WORD);
    memcpy(words + WORD, &second, WORD);
    (void)snprintf(out, n, "%s%s%s", RESOURCE_BEFORE, words, RESOURCE_BEHIND);
}

static uint64_t hash_of(const struct disco *d)
{
    return disco_doc_groups(disco_apis(d))->hash;
}

/* Two documents whose quick hashes are the same: a minute's work for whoever wants it. */
static void made_to_collide(void)
{
    uint64_t first = 0x6161616161616161, second = first, h, other = first, its_second = 0;
    const struct disco *servers[2];
    struct disco *a, *b;
    char text[500];
    size_t steps;

    resource(text, sizeof text, first, second);
    h = state_before(strlen(text));
    for (unsigned i = 1; i < TRIES; i++) {
        other = first ^ ((uint64_t)(i & 15) | (uint64_t)(i >> 4 & 15) << 8 | (uint64_t)(i >> 8 & 15) << 16 |
                         (uint64_t)(i >> 12 & 15) << 24 | (uint64_t)(i >> 16 & 15) << 32);
        its_second = second ^ mix(h ^ first) ^ mix(h ^ other);
        if (is_plain(other) && is_plain(its_second))
            break;
    }
    a = document(text);
    resource(text, sizeof text, other, its_second);
    b = document(text);
    servers[0] = a;
    servers[1] = b;
    ok(disco_doc_raw(disco_apis(a)).n == disco_doc_raw(disco_apis(b)).n && hash_of(a) == hash_of(b),
       "documents of the same length and the same quick hashes");
    is_int(ask(servers, 2, SIZE_MAX, &steps), ALIKE_NO, "are not the same for that");
    disco_unref(a);
    disco_unref(b);
}

int main(void)
{
    answers();
    made_to_collide();
    return tap_end();
}
