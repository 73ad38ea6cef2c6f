/* SPDX-License-Identifier: Apache-2.0 */
/* Of what waits at a server that is silent some is given up, though the server might still answer. */
#ifndef MVPROXY_BACK_GIVING_UP_H
#define MVPROXY_BACK_GIVING_UP_H

#include <stdbool.h>
#include <stddef.h>

struct giving_up {
    const char *text; /* why, for the log */
    size_t left;      /* so many more in this turn of the loop; goes down */
    bool watches;     /* these too: whoever reads one goes on elsewhere, from where it ended */
};

#endif
