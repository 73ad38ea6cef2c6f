/* The answer of /version. */
#ifndef MVPROXY_KUBE_VERSION_H
#define MVPROXY_KUBE_VERSION_H

#include "base/slice.h"

/* From "major" and "minor", which distributions may decorate ("24+"). False: not such a document. */
bool version_parse(struct slice json, unsigned *major, unsigned *minor);

#endif
