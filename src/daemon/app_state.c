/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/app_state.h"

void app_set_phase(struct app *a, enum app_phase phase)
{
    a->phase = phase;
}
