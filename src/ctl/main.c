/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mvproxyctl: what operators ask of a running mvproxy, over its control socket.
 */
#include "ctl/command_line.h"

int main(int argc, char **argv)
{
    return command_line_run(argc, argv);
}
