/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of the test's own, which goes with all that is in it when the program ends. What cannot be done ends the
 * test.
 */
#ifndef MVPROXY_TESTS_LIB_FOLDER_H
#define MVPROXY_TESTS_LIB_FOLDER_H

/* Makes it, once, and says where it is. */
const char *folder(void);
/* It becomes the working directory. */
void folder_enter(void);
/* A file there, with that text. */
void folder_write(const char *name, const char *text);
/* Certificates and keys there: `calls` are statements of Python's with `a`, the certs.Authority of that folder
 * (certs.py). */
void folder_certificates(const char *calls);

#endif
