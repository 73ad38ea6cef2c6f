/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/own_lease.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/random.h"
#include "kube/selector.h"
#include "kube/server_id.h"

enum {
    HOLDER_BYTES = SERVER_ID_BYTES + 37,
    /* Longer than anybody's renewal takes to show: a Lease that has not changed meanwhile has no owner. */
    LOOK_AGAIN_MS = 12000,
    DEAD_AFTER_US = 60 * 1000 * 1000, /* renewed so long ago, by our clock: no need to look twice */
};

struct own_lease {
    char *id, *hostname, *uid, *version;
    char advertise[LIMIT_ADDRESS_TEXT_BYTES];
    char holder[HOLDER_BYTES];
    char former[HOLDER_BYTES];     /* until the present one is confirmed: the Lease may still have this; "": no such */
    int64_t sent_us, confirmed_us; /* renewals: asked for, answered */
    char *rival;                   /* holder of another Lease in this one's place, as last seen; NULL: none seen */
    int64_t rival_us;              /* its renewTime */
    uint64_t rival_ms;             /* when it was first seen like that */
};

static void make_holder(struct own_lease *o)
{
    char uuid[37];

    random_uuid(uuid);
    (void)snprintf(o->holder, sizeof(o->holder), "%.*s_%s", SERVER_ID_CHARS, o->id, uuid);
}

struct own_lease *own_lease_new(const char *id, const char *hostname)
{
    struct own_lease *o = must_zalloc(sizeof(*o));

    o->id = must_strdup(id);
    o->hostname = must_strdup(hostname);
    make_holder(o);
    return o;
}

void own_lease_free(struct own_lease *o)
{
    if (o == NULL)
        return;
    mem_free(o->id);
    mem_free(o->hostname);
    mem_free(o->uid);
    mem_free(o->version);
    mem_free(o->rival);
    mem_free(o);
}

bool own_lease_set_address(struct own_lease *o, const char *advertise)
{
    if (strcmp(o->advertise, advertise) == 0)
        return false;
    (void)snprintf(o->advertise, sizeof(o->advertise), "%s", advertise);
    return true;
}

const char *own_lease_address(const struct own_lease *o)
{
    return o->advertise;
}

const char *own_lease_holder(const struct own_lease *o)
{
    return o->holder;
}

bool own_lease_take_holder(struct own_lease *o)
{
    if (o->former[0] != '\0')
        return false;
    memcpy(o->former, o->holder, sizeof(o->former));
    make_holder(o);
    return true;
}

static struct lease wanted(struct own_lease *o)
{
    struct slice hostname = slice_str(o->hostname);

    o->sent_us = clock_wall_us();
    return (struct lease){
        .ns = SLICE_LIT(LEASE_NAMESPACE),
        .name = slice_str(o->id),
        .uid = SLICE_LIT(""),
        .resource_version = SLICE_LIT(""),
        .identity_label = SLICE_LIT(LEASE_IDENTITY_VALUE),
        /* With another one the Lease would never be created; it is for people only. */
        .hostname_label = selector_is_label(hostname) ? hostname : SLICE_LIT(""),
        .advertise = slice_str(o->advertise),
        .holder = slice_str(o->holder),
        .has_duration = true,
        .has_renew_time = true,
        .duration_s = LEASE_DURATION_SECONDS,
        .renew_us = o->sent_us,
    };
}

bool own_lease_print(struct own_lease *o, struct buf *out)
{
    struct lease l = wanted(o);

    return lease_print(&l, out);
}

bool own_lease_print_renewal(struct own_lease *o, struct buf *out)
{
    struct lease l = wanted(o);

    l.uid = slice_str(o->uid);
    l.resource_version = slice_str(o->version);
    return lease_print_renewal(&l, out);
}

bool own_lease_is(const struct own_lease *o, const struct lease *l)
{
    bool by_us = slice_eq(l->holder, slice_str(o->holder)) ||
                 (o->former[0] != '\0' && slice_eq(l->holder, slice_str(o->former)));

    return by_us && l->has_renew_time && (l->renew_us == o->sent_us || l->renew_us == o->confirmed_us);
}

static bool keep(char **slot, struct slice text)
{
    mem_free(*slot);
    *slot = mem_slicedup(text);
    return *slot != NULL;
}

bool own_lease_keep(struct own_lease *o, const struct lease *l)
{
    o->confirmed_us = l->renew_us;
    return keep(&o->uid, l->uid) && keep(&o->version, l->resource_version);
}

void own_lease_confirm(struct own_lease *o)
{
    o->former[0] = '\0';
}

void own_lease_moved(struct own_lease *o, struct slice uid, struct slice version)
{
    char *copy = slice_eq(uid, slice_str(o->uid)) ? mem_slicedup(version) : NULL;

    if (copy == NULL)
        return;
    mem_free(o->version);
    o->version = copy;
}

void own_lease_forget_rival(struct own_lease *o)
{
    mem_free(o->rival);
    o->rival = NULL;
}

enum lease_rival own_lease_judge(struct own_lease *o, const struct lease *l, uint64_t now_ms, uint64_t *wait_ms)
{
    bool again = o->rival != NULL && slice_eq(l->holder, slice_str(o->rival));
    bool moved = again && l->renew_us != o->rival_us;
    bool old = !l->has_renew_time || l->renew_us < clock_wall_us() - DEAD_AFTER_US;

    if (!again || moved) {
        o->rival_us = l->renew_us;
        o->rival_ms = now_ms;
        if (!keep(&o->rival, l->holder))
            return LEASE_RIVAL_NO_MEMORY;
    }
    if (moved)
        return LEASE_RIVAL_ALIVE;
    if (old || now_ms - o->rival_ms >= LOOK_AGAIN_MS)
        return LEASE_RIVAL_DEAD;
    *wait_ms = LOOK_AGAIN_MS - (now_ms - o->rival_ms);
    return again ? LEASE_RIVAL_WAITS : LEASE_RIVAL_NEW;
}
