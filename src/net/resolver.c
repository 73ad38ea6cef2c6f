/* SPDX-License-Identifier: Apache-2.0 */
#include "net/resolver.h"

#include <event2/dns.h>

#include "net/file_stamp.h"

struct resolver {
    struct evdns_base *dns;
    const char *conf, *hosts;
    struct file_stamp conf_seen, hosts_seen;
};

/* Without the file, or without a server in it, a server on this host is asked: resolv.conf(5). */
static void read_conf(struct resolver *r)
{
    r->conf_seen = file_stamp_of(r->conf);
    evdns_base_search_clear(r->dns);
    (void)evdns_base_resolv_conf_parse(r->dns, DNS_OPTION_SEARCH | DNS_OPTION_NAMESERVERS | DNS_OPTION_MISC, r->conf);
}

static void read_hosts(struct resolver *r)
{
    r->hosts_seen = file_stamp_of(r->hosts);
    evdns_base_clear_host_addresses(r->dns);
    (void)evdns_base_load_hosts(r->dns, r->hosts);
}

struct resolver *resolver_new(struct event_base *base, const char *conf, const char *hosts)
{
    struct resolver *r = mem_zalloc(sizeof(*r));

    if (r == NULL)
        return NULL;
    r->conf = conf;
    r->hosts = hosts;
    r->dns = evdns_base_new(base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);
    if (r->dns == NULL) {
        mem_free(r);
        return NULL;
    }
    read_conf(r);
    read_hosts(r);
    return r;
}

void resolver_free(struct resolver *r)
{
    evdns_base_free(r->dns, 1);
    mem_free(r);
}

static bool is_changed(const char *path, const struct file_stamp *seen)
{
    struct file_stamp now = file_stamp_of(path);

    return !file_stamp_same(&now, seen);
}

struct evdns_base *resolver_ask(struct resolver *r)
{
    if (is_changed(r->conf, &r->conf_seen)) {
        evdns_base_clear_nameservers_and_suspend(r->dns);
        read_conf(r);
        evdns_base_resume(r->dns);
    }
    if (is_changed(r->hosts, &r->hosts_seen))
        read_hosts(r);
    return r->dns;
}
