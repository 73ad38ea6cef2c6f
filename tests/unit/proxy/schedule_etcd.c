/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/proxy/schedule_etcd.h"

/* None, or some. In this order whatever compiler made it: a number is to be the same schedule everywhere. */
uint64_t schedule_draw_delay(struct schedule *s)
{
    uint64_t any = schedule_dice(s, 2), ms = schedule_dice(s, 3000);

    return any * ms;
}

/* For as long as this is so, and then until it is known everywhere that it was. */
void schedule_note_etcd(struct schedule *s, bool trouble)
{
    uint64_t now = loop_now_ms(fleet_loop(s->fleet));

    if (!schedule_etcd_troubled(s)) {
        s->lost = false;
        s->etcd_since_ms = now;
    }
    if (trouble)
        s->etcd_ms = now;
}

static bool is_cut(struct schedule *s)
{
    for (unsigned i = 0; i < s->nodes; i++)
        if (s->cut_etcd[i])
            return true;
    return false;
}

bool schedule_etcd_in_trouble(struct schedule *s)
{
    bool trouble = s->leaderless || s->silent || is_cut(s);

    for (unsigned m = 0; m < FLEET_ETCD_MEMBERS; m++)
        trouble =
            trouble || fleet_etcd_member(s->fleet, m)->fault != SIM_FINE || fleet_etcd_member(s->fleet, m)->late_ms > 0;
    return trouble;
}

static void toggle_member(struct schedule *s)
{
    unsigned m = (unsigned)schedule_dice(s, FLEET_ETCD_MEMBERS);
    struct sim_server *member = fleet_etcd_member(s->fleet, m);

    member->fault = member->fault == SIM_FINE ? SIM_REFUSE : SIM_FINE;
    schedule_say(s, "etcd's member %u is %s", m, member->fault == SIM_FINE ? "back" : "away");
    if (member->fault != SIM_FINE)
        sim_server_break(member);
}

static void toggle_etcd_path(struct schedule *s, unsigned node)
{
    s->cut_etcd[node] = !s->cut_etcd[node];
    schedule_say(s, "node %u %s etcd", node, s->cut_etcd[node] ? "is cut from" : "reaches");
    fleet_cut_etcd(s->fleet, node, s->cut_etcd[node]);
}

/* From a backup, or anew: what stood in it is gone, and it may be another cluster; then all are told by a reload. */
static void restore_etcd(struct schedule *s)
{
    uint64_t cluster = 77 + schedule_dice(s, 2);

    schedule_say(s, "etcd is empty, cluster %llu", (unsigned long long)cluster);
    sim_etcd_reset(fleet_etcd(s->fleet), cluster);
    for (unsigned m = 0; m < FLEET_ETCD_MEMBERS; m++)
        sim_server_break(fleet_etcd_member(s->fleet, m));
    for (unsigned i = 0; i < s->nodes; i++)
        fleet_reload(s->fleet, i);
}

void schedule_trouble_etcd(struct schedule *s, unsigned node)
{
    uint64_t late;

    schedule_note_etcd(s, true);
    switch (schedule_dice(s, 7)) {
    case 0:
        s->leaderless = !s->leaderless;
        schedule_say(s, "etcd has %s leader", s->leaderless ? "no" : "a");
        sim_etcd_set_leader(fleet_etcd(s->fleet), !s->leaderless);
        break;
    case 1:
        s->silent = !s->silent;
        schedule_say(s, "etcd's watches %s", s->silent ? "fall silent" : "speak again");
        sim_etcd_set_deaf(fleet_etcd(s->fleet), s->silent);
        break;
    case 2:
        toggle_member(s);
        break;
    case 3:
        late = schedule_draw_delay(s);
        schedule_say(s, "etcd's events come %llu ms late", (unsigned long long)late);
        for (unsigned m = 0; m < FLEET_ETCD_MEMBERS; m++)
            fleet_etcd_member(s->fleet, m)->late_ms = late;
        break;
    case 4:
        toggle_etcd_path(s, node);
        s->lost = true; /* its record runs out */
        break;
    case 5:
        schedule_say(s, "etcd is compacted");
        sim_etcd_compact(fleet_etcd(s->fleet));
        break;
    case 6:
        restore_etcd(s);
        s->lost = true;
        break;
    }
}

void schedule_heal_etcd(struct schedule *s)
{
    if (s->leaderless)
        sim_etcd_set_leader(fleet_etcd(s->fleet), true);
    sim_etcd_set_deaf(fleet_etcd(s->fleet), false);
    s->leaderless = s->silent = false;
    for (unsigned m = 0; m < FLEET_ETCD_MEMBERS; m++) {
        fleet_etcd_member(s->fleet, m)->fault = SIM_FINE;
        fleet_etcd_member(s->fleet, m)->late_ms = 0;
    }
    for (unsigned i = 0; i < s->nodes; i++)
        if (s->cut_etcd[i])
            toggle_etcd_path(s, i);
}
