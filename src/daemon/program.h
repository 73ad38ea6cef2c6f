/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program: command line, modes, exit status.
 */
#ifndef MVPROXY_DAEMON_PROGRAM_H
#define MVPROXY_DAEMON_PROGRAM_H

/* Takes main()'s arguments and returns the exit status. To be called once, before any use of OpenSSL. */
int program_run(int argc, char **argv);

#endif
