/* SPDX-License-Identifier: Apache-2.0 */
#include "base/state.h"

#include "lib/died.h"
#include "lib/tap.h"

enum door { DOOR_OPEN, DOOR_SHUT, DOOR_LOCKED, DOOR_GONE };

static const char *const names[] = {
    [DOOR_OPEN] = "open", [DOOR_SHUT] = "shut", [DOOR_LOCKED] = "locked", [DOOR_GONE] = "gone"};
static const uint32_t next[] = {
    [DOOR_OPEN] = STATE(DOOR_SHUT) | STATE(DOOR_OPEN),
    [DOOR_SHUT] = STATE(DOOR_OPEN) | STATE(DOOR_LOCKED),
    [DOOR_LOCKED] = STATE(DOOR_SHUT) | STATE(DOOR_GONE),
    [DOOR_GONE] = 0,
};
static const struct state_table doors = STATE_TABLE("door", names, next);

struct step {
    enum door from, to;
};

static void take(void *arg)
{
    struct step *s = arg;
    enum door d = s->from;

    state_move(&doors, &d, s->to);
    s->from = d;
}

int main(void)
{
    static const char legal[4][5] = {"yy--", "y-y-", "-y-y", "----"};
    char said[1024];
    struct step s;

    for (unsigned from = 0; from < 4; from++) {
        for (unsigned to = 0; to < 4; to++) {
            s = (struct step){(enum door)from, (enum door)to};
            if (legal[from][to] == 'y') {
                take(&s);
                is_int(s.from, to, "from %s to %s", names[from], names[to]);
            } else {
                ok(died(take, &s, said, sizeof(said)), "not from %s to %s", names[from], names[to]);
                ok(strstr(said, names[from]) != NULL && strstr(said, names[to]) != NULL, "which the log says");
            }
        }
    }
    s = (struct step){(enum door)4, DOOR_OPEN};
    ok(died(take, &s, said, sizeof(said)), "from no state");
    s = (struct step){DOOR_OPEN, (enum door)4};
    ok(died(take, &s, said, sizeof(said)), "to no state");
    s = (struct step){DOOR_OPEN, (enum door)64};
    ok(died(take, &s, said, sizeof(said)), "far from any");
    ok(strstr(said, "state_test.c:") != NULL, "the log names the line");
    return tap_end();
}
