/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of mvproxyctl: finds the command, asks mvproxy, shows the answer.
 */
#ifndef MVPROXY_CTL_COMMAND_LINE_H
#define MVPROXY_CTL_COMMAND_LINE_H

/* What main() is given; the exit status, as mvproxyctl(1) documents them. */
int command_line_run(int argc, char **argv);

#endif
