/* SPDX-License-Identifier: Apache-2.0 */
/* A whole process (daemon/app.h) without a server or clients, in a test, and who hears of it: the log, the service
 * manager and people. Its configuration is mvproxy.yaml in the test's folder. */
#ifndef MVPROXY_TESTS_UNIT_DAEMON_PROCESS_H
#define MVPROXY_TESTS_UNIT_DAEMON_PROCESS_H

#include "base/mem.h"

struct app;

#define PROCESS_TLS "tls-cert-file: server.crt\ntls-private-key-file: server.key\napiserver-ca-file: ca.crt\n"
#define PROCESS_REST                                                                                                   \
    "bind-address: 127.0.0.1\nsecure-port: 0\nhostname-override: cp-a\nclient-ca-file: client-ca.crt\n"                \
    "shutdown-delay-duration: 0s\n"
#define PROCESS_QUIET "admin-bind-address: \"\"\ncontrol-socket: \"\"\n"

/* Makes certificates, enters the folder and listens to what is said; to be called first, and process_finish() last.
 * There are ca and other-ca, the pairs good, fresh, other (for another name), elsewhere (for another address), foreign
 * (of other-ca), and bad, which are none. */
void process_prepare(void);
void process_finish(void);
/* The serving pair is that one from now on. */
void process_use_pair(const char *name);

/* NULL: it does not start; process_errors() says why. */
struct app *process_try(const char *config);
struct app *process_start(const char *config); /* it must */
const char *process_errors(void);
void process_pass(struct app *a, uint64_t ms);
void process_beat(struct app *a); /* its heartbeat, now */

/* Forgets what was said until now. */
void process_listen(void);
unsigned process_said(const char *words); /* how often the log has them */
const char *process_told(void);           /* all that the service manager was told since it was asked last */
bool process_happened(const struct app *a, const char *text);

#endif
