/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/address_wait.h"

#include "base/limits.h"
#include "base/log.h"
#include "cluster/cluster.h"
#include "daemon/app_state.h"
#include "daemon/bind_trial.h"
#include "daemon/drain.h"

#include <errno.h>
#include <stdio.h>

enum { RETRY_MS = 200 };

static bool listen_now(struct app *a, struct err *err)
{
    const struct listeners_opts listen = {.addresses = a->addresses.at, .n_addresses = a->addresses.n};

    return front_listen(a->front, &listen, err);
}

static void succeed(struct app *a)
{
    a->address_waits[0] = '\0';
    a->address_taken_ms = loop_now_ms(a->loop);
    a->held_beats = ADDRESS_WAIT_BEATS;
    address_wait_say(a);
}

static bool has_settled(const struct app *a)
{
    return loop_now_ms(a->loop) - a->address_taken_ms >= ADDRESS_WAIT_SETTLES_MS;
}

bool address_wait_is_over(const struct app *a)
{
    return has_settled(a) && cluster_local_state(a->cluster) == READINESS_READY;
}

bool address_wait_has_peers(const struct app *a)
{
    return has_settled(a) && cluster_peers_answer(a->cluster);
}

static void give_up(struct app *a, const struct err *err)
{
    (void)snprintf(a->failed, sizeof(a->failed), "%.191s (waited %d s)", err->text, TIMEOUT_ADDRESS_IN_USE_MS / 1000);
    drain_begin(a);
}

static void try_again(void *arg)
{
    struct app *a = arg;
    struct err err;

    if (a->phase != APP_SERVING) /* told to stop meanwhile */
        return;
    err_clear(&err);
    if (listen_now(a, &err))
        succeed(a);
    else if (errno != EADDRINUSE || loop_now_ms(a->loop) >= a->address_ends_ms)
        give_up(a, &err);
    else
        loop_timer_set(a->address_retry, RETRY_MS);
}

static bool may_not(struct err *err)
{
    struct err why = *err;

    err_clear(err);
    return err_set(err, "%s: " BIND_TRIAL_LOW_PORT, why.text);
}

bool address_wait_begin(struct app *a, struct err *err)
{
    if (listen_now(a, err))
        return true;
    if (errno != EADDRINUSE)
        return errno == EACCES && may_not(err);
    a->address_retry = loop_timer_new(a->loop, try_again, a);
    if (a->address_retry == NULL)
        return err_set(err, "out of memory");
    (void)snprintf(a->address_waits, sizeof(a->address_waits), "%.191s", err->text);
    a->address_ends_ms = loop_now_ms(a->loop) + TIMEOUT_ADDRESS_IN_USE_MS;
    log_warning("Waiting for an address that another process has: ss -ltnp tells whose it is", LT("err", err->text),
                LU("seconds", TIMEOUT_ADDRESS_IN_USE_MS / 1000));
    loop_timer_set(a->address_retry, RETRY_MS);
    return true;
}

void address_wait_say(const struct app *a)
{
    for (size_t i = 0; i < a->addresses.n; i++)
        log_info("Listening", LT("address", a->addresses.at[i].host),
                 LU("port", a->addresses.at[i].port != 0 ? a->addresses.at[i].port : front_port(a->front)),
                 LT("for", "clients"), LT("socket", a->inherited ? "inherited" : "own"));
}
