/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program as a whole: command line, modes, exit status.
 */
#ifndef MVPROXY_DAEMON_PROGRAM_H
#define MVPROXY_DAEMON_PROGRAM_H

/* What main() is given; the exit status. To be called once, before anything that is OpenSSL's. */
int program_run(int argc, char **argv);

#endif
