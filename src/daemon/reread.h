/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads changed files of the configuration in force (certificates, keys, CAs) and uses them for new connections, except
 * for a CA file with which servers could not be reached that can be reached now. Open connections are not affected.
 */
#ifndef MVPROXY_DAEMON_REREAD_H
#define MVPROXY_DAEMON_REREAD_H

#include "daemon/trust.h"
#include "daemon/trust_trial.h"

struct app;
struct reread;

MEM_CHECK struct reread *reread_new(struct app *a); /* to be kept as a->reread; NULL when out of memory */
void reread_free(struct reread *r);                 /* ends what is under way; NULL is fine */

/*
 * Reads all files. rotation_done() is called, at once or when servers have been dialled. A file that cannot be used
 * leaves everything unchanged; so does a certificate that has expired, or is not valid yet, in place of a valid one, a
 * bundle of CAs that have all expired, and a front-proxy certificate that does not fit (trust_stray()).
 *
 * Before an apiserver-ca-file or peer-ca-file is used, the servers to be reached with it are dialled (trust_trial.h).
 * One that does not fit is held back, and all other files are used; one held back before stays so while no server
 * answers. So is a requestheader-client-ca-file that has not signed the front-proxy certificate, and a client-ca-file
 * of which the API servers have no certificate (cluster_front_clients()), each if the one in force fits.
 */
void reread_files(struct app *a);
/* To be called once a second: if a server cannot be reached any more, or they say that they have other CAs of clients,
 * a file that is held back may fit now. */
void reread_look(struct app *a);
/* A reload has put all files in force: forgets what was held back. */
void reread_forget(struct app *a);
/* Dials the live peers with the contexts for peers in *fresh (trust_trial.h). NULL: there is nothing to try, or out of
 * memory. */
MEM_CHECK struct trust_trial *
reread_ask_peers(const struct app *a, const struct trust *fresh,
                 void (*done)(void *arg, enum trust_verdict v, const char *server, const char *why), void *arg);
/* Errors about a file that does not fit, formats for remarks_wrong(). */
#define REREAD_UNFIT_PEERS                                                                                             \
    "%s: has not signed what peers show: %s (%s): put the CA that has signed their certificates into it as well"
#define REREAD_UNFIT_LOCAL                                                                                             \
    "%s: has not signed what %s shows (%s): put the CA that has signed kube-apiserver's --tls-cert-file into it as "   \
    "well"
#define REREAD_DISOWNS_FRONT                                                                                           \
    "%s: has not signed proxy-client-cert-file, and the one before it has: put the front proxies' CA back, or give "   \
    "the pair that this one has signed"
#define REREAD_FOREIGN_CLIENTS                                                                                         \
    "%s: no API server has any certificate of it, so all users with certificates would get 401: put kube-apiserver's " \
    "--client-ca-file back; this one counts as soon as an API server has it"

#endif
