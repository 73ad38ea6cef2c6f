/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded reader of the protobuf wire format (https://protobuf.dev/programming-guides/encoding/): the fields of one
 * message, one after the other, without copying. A nested message is a field's bytes, to be read by another reader.
 * Groups, which proto3 does not have, and field numbers out of range are errors.
 */
#ifndef MVPROXY_KUBE_PBREAD_H
#define MVPROXY_KUBE_PBREAD_H

#include "base/slice.h"

enum pb_wire { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_FIXED32 = 5 };

struct pbread {
    struct slice rest;
    const char *error; /* sticky; static text, NULL: none */
};

struct pb_field {
    uint32_t number;
    enum pb_wire wire;
    uint64_t value;     /* unless PB_BYTES */
    struct slice bytes; /* PB_BYTES: within the message */
};

void pbread_init(struct pbread *r, struct slice message);
/* False at the end (error NULL) and at an error. */
bool pbread_next(struct pbread *r, struct pb_field *out);
/* Whether the field has this number and type PB_BYTES (text, a nested message). */
bool pb_is_bytes(const struct pb_field *f, uint32_t number);

#endif
