/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/observe.h"

#include "admin/admin.h"
#include "base/log.h"
#include "daemon/app_state.h"
#include "daemon/bind_trial.h"
#include "daemon/derive.h"
#include "daemon/options.h"
#include "daemon/readiness_checks.h"
#include "daemon/status.h"

#include <errno.h>

static void list_flags(admin_flag_fn *each, void *each_arg, void *arg)
{
    const struct app *a = arg;
    struct buf value;

    buf_init(&value, 1 << 20);
    for (const struct option *o = options_next_name(""); o != NULL; o = options_next_name(o->name)) {
        buf_reset(&value);
        if (options_append_flag(&value, a->config, o) && buf_append_char(&value, '\0'))
            each(each_arg, o->name, buf_slice(&value).p);
    }
    buf_free(&value);
}

static bool collect(struct status *out, void *arg)
{
    return status_collect(arg, out);
}

static bool open_admin(struct app *a, struct err *err)
{
    struct derive_address at;
    struct admin_opts o = {
        .tls = a->trust.admin,
        .version = a->args.version,
        .metrics = a->metrics,
        .flags = list_flags,
        .status = collect,
        .health = a->health,
        .arg = a,
    };

    if (!derive_admin(a->config->admin_bind_address, &at, err))
        return false;
    o.bind_address = at.host;
    o.port = at.port;
    a->admin = admin_new(a->loop, &o, err);
    return a->admin != NULL;
}

/*
 * Metrics are not worth the clients: any process of this machine can have taken the port while we were not there. But
 * where clients' address is taken as well, that is hardly anybody but another mvproxy, whose control socket we must not
 * take; and nobody is served by us so far.
 */
static bool may_wait(struct app *a, const struct err *err)
{
    if (errno != EADDRINUSE || a->address_waits[0] != '\0')
        return false;
    if (a->inherited)
        log_info("The admin listener waits for the process before this one", LT("err", err->text));
    else
        log_warning("No admin listener, for another process has its address: ss -ltnp tells whose it is; tried again "
                    "each second",
                    LT("err", err->text));
    a->admin_waits = true;
    return true;
}

bool observe_build(struct app *a, struct buf *errors)
{
    struct err err;

    a->health = readiness_checks_new(a);
    if (a->config->admin_bind_address[0] == '\0')
        return true;
    err_clear(&err);
    errno = 0;
    if (open_admin(a, &err) || may_wait(a, &err))
        return true;
    buf_printf(errors, "admin-bind-address: %s%s\n", err.text,
               errno == EACCES       ? ": " BIND_TRIAL_LOW_PORT
               : errno == EADDRINUSE ? ", and so is clients': another mvproxy, perhaps: ss -ltnp tells whose they are"
                                     : "");
    return false;
}

void observe_retry(struct app *a)
{
    struct err err = {.text = ""};

    if (!a->admin_waits || !open_admin(a, &err))
        return;
    a->admin_waits = false;
    log_info("Listening", LT("address", a->config->admin_bind_address), LT("for", "admin"));
}

void observe_free(struct app *a)
{
    if (a->admin != NULL)
        admin_free(a->admin);
    if (a->health != NULL)
        health_free(a->health);
    a->health = NULL;
}
