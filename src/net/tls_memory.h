/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What OpenSSL gives back to the heap is wiped. It clears its own key objects, but not all that a key passes on its way
 * out of a file: decoders leave its DER form behind.
 */
#ifndef MVPROXY_NET_TLS_MEMORY_H
#define MVPROXY_NET_TLS_MEMORY_H

/* Before anything else of OpenSSL is used; later it does nothing. */
void tls_memory_wipe(void);

#endif
