/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/app_state.h"

#include "base/state.h"

static const char *const phase_names[] = {
    [APP_SERVING] = "serving", [APP_DELAYING] = "delaying", [APP_DRAINING] = "draining", [APP_STOPPED] = "stopped"};
static const uint32_t phase_next[] = {
    [APP_SERVING] = STATE(APP_DELAYING),
    [APP_DELAYING] = STATE(APP_DRAINING) | STATE(APP_STOPPED),
    [APP_DRAINING] = STATE(APP_STOPPED),
    [APP_STOPPED] = 0,
};
static const struct state_table phases = STATE_TABLE("process", phase_names, phase_next);

void app_set_phase(struct app *a, enum app_phase phase)
{
    state_move(&phases, &a->phase, phase);
}
