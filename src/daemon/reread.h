/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the configuration in force that have changed: read again and used for new connections, but for a CA file
 * that would keep us from servers that can be reached. Nothing that is open notices.
 */
#ifndef MVPROXY_DAEMON_REREAD_H
#define MVPROXY_DAEMON_REREAD_H

#include "daemon/trust.h"
#include "daemon/trust_trial.h"

struct app;
struct reread;

MEM_CHECK struct reread *reread_new(struct app *a); /* it goes to a->reread; NULL when out of memory */
void reread_free(struct reread *r);                 /* nothing of it goes on; NULL is nothing */

/*
 * Reads all of them. rotation_done() follows, at once or when servers have been asked: what cannot be used leaves all
 * as it is; so does a certificate that has expired, or is not valid yet, in the place of one that is valid.
 *
 * Before an apiserver-ca-file or peer-ca-file counts, who is to be reached with it is asked (trust_trial.h). One that
 * does not fit is held back, and all the rest is taken; so is one that was held back while nobody answers.
 */
void reread_files(struct app *a);
/* Once a second: a server that cannot be reached any more may be one that the file that is held back fits. */
void reread_look(struct app *a);
/* A reload has put all of them in force. */
void reread_forget(struct app *a);
/* The live peers, by the contexts that *fresh has for them. NULL: there is nothing to be asked. */
MEM_CHECK struct trust_trial *
reread_ask_peers(const struct app *a, const struct trust *fresh,
                 void (*done)(void *arg, enum trust_verdict v, const char *server, const char *why), void *arg);
/* What is said of a file that does not fit, as remarks_wrong() takes it. */
#define REREAD_UNFIT_PEERS                                                                                             \
    "%s: has not signed what peers show: %s (%s): put the CA that has signed their certificates into it as well"
#define REREAD_UNFIT_LOCAL                                                                                             \
    "%s: has not signed what %s shows (%s): put the CA that has signed kube-apiserver's --tls-cert-file into it as "   \
    "well"

#endif
