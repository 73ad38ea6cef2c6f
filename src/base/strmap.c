/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strmap.h"
#include "base/contract.h"

#include "base/hash.h"

/* Open addressing with linear probing; the number of slots is a power of two. */
enum { FIRST_SLOTS = 16 };

struct entry {
    uint64_t hash;
    void *value;
    size_t len;
    char key[];
};

struct strmap {
    struct entry **slots;
    size_t n_slots;
    size_t count;
    size_t used; /* entries and graves */
};

/* Marks a slot whose entry was removed: probing goes on behind it. Only its address matters. */
static const struct entry grave;
#define GRAVE ((struct entry *)(uintptr_t)&grave)

struct strmap *strmap_new(void)
{
    return mem_zalloc(sizeof(struct strmap));
}

bool strmap_free_some(struct strmap *m, size_t n)
{
    for (; n > 0 && m->n_slots > 0; n--)
        if (m->slots[--m->n_slots] != GRAVE)
            mem_free(m->slots[m->n_slots]);
    return m->n_slots == 0;
}

void strmap_free(struct strmap *m)
{
    if (m == NULL)
        return;
    for (size_t i = 0; i < m->n_slots; i++) {
        if (m->slots[i] != GRAVE)
            mem_free(m->slots[i]);
    }
    mem_free(m->slots);
    mem_free(m);
}

/* The slot of the key, or n_slots. */
static size_t find(const struct strmap *m, struct slice key, uint64_t hash)
{
    if (m->n_slots == 0)
        return 0;
    for (size_t i = hash & (m->n_slots - 1);; i = (i + 1) & (m->n_slots - 1)) {
        const struct entry *e = m->slots[i];

        if (e == NULL)
            return m->n_slots;
        if (e != GRAVE && e->hash == hash && slice_eq(slice_of(e->key, e->len), key))
            return i;
    }
}

void *strmap_get(const struct strmap *m, struct slice key)
{
    size_t at = find(m, key, hash_seeded(key));

    return at == m->n_slots ? NULL : m->slots[at]->value;
}

static void place(struct entry **slots, size_t n_slots, struct entry *e)
{
    size_t i = e->hash & (n_slots - 1);

    while (slots[i] != NULL)
        i = (i + 1) & (n_slots - 1);
    slots[i] = e;
}

/* Makes room for one more entry; at most three quarters of the slots are in use, graves included. */
static bool make_room(struct strmap *m)
{
    struct entry **slots;
    size_t n_slots = FIRST_SLOTS;

    if ((m->used + 1) * 4 <= m->n_slots * 3)
        return true;
    while (n_slots < (m->count + 1) * 2)
        n_slots *= 2;
    slots = mem_array(n_slots, sizeof(struct entry *));
    if (slots == NULL)
        return false;
    for (size_t i = 0; i < m->n_slots; i++) {
        if (m->slots[i] != NULL && m->slots[i] != GRAVE)
            place(slots, n_slots, m->slots[i]);
    }
    mem_free(m->slots);
    m->slots = slots;
    m->n_slots = n_slots;
    m->used = m->count;
    return true;
}

bool strmap_put(struct strmap *m, struct slice key, void *value, void **old)
{
    uint64_t hash = hash_seeded(key);
    size_t at = find(m, key, hash);
    struct entry *e;

    if (old != NULL)
        *old = at == m->n_slots ? NULL : m->slots[at]->value;
    if (at != m->n_slots) {
        m->slots[at]->value = value;
        return true;
    }
    if (key.n > SIZE_MAX - sizeof(*e) || !make_room(m))
        return false;
    e = mem_alloc(sizeof(*e) + key.n);
    if (e == NULL)
        return false;
    e->hash = hash;
    e->value = value;
    e->len = key.n;
    if (key.n > 0)
        memcpy(e->key, key.p, key.n);
    must_hold(m->used < m->n_slots); /* else the search for a free one has no end */
    place(m->slots, m->n_slots, e);
    m->count++;
    m->used++;
    return true;
}

void *strmap_remove(struct strmap *m, struct slice key)
{
    size_t at = find(m, key, hash_seeded(key));
    void *value;

    if (at == m->n_slots)
        return NULL;
    value = m->slots[at]->value;
    mem_free(m->slots[at]);
    must_hold(m->count > 0);
    m->slots[at] = GRAVE;
    m->count--;
    return value;
}

size_t strmap_count(const struct strmap *m)
{
    return m->count;
}

bool strmap_next(const struct strmap *m, size_t *cursor, struct slice *key, void **value)
{
    while (*cursor < m->n_slots) {
        struct entry *e = m->slots[(*cursor)++];

        if (e == NULL || e == GRAVE)
            continue;
        if (key != NULL)
            *key = slice_of(e->key, e->len);
        if (value != NULL)
            *value = e->value;
        return true;
    }
    return false;
}
