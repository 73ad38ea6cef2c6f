/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llhttp's header with its names for methods moved out of the way: they clash with enum http_method.
 */
#ifndef MVPROXY_HTTP_LLHTTP_NAMES_H
#define MVPROXY_HTTP_LLHTTP_NAMES_H

#define HTTP_GET LLHTTP_GET
#define HTTP_HEAD LLHTTP_HEAD
#define HTTP_POST LLHTTP_POST
#define HTTP_PUT LLHTTP_PUT
#define HTTP_PATCH LLHTTP_PATCH
#define HTTP_DELETE LLHTTP_DELETE
#define HTTP_OPTIONS LLHTTP_OPTIONS
#define HTTP_CONNECT LLHTTP_CONNECT
#include <llhttp.h>
#undef HTTP_GET
#undef HTTP_HEAD
#undef HTTP_POST
#undef HTTP_PUT
#undef HTTP_PATCH
#undef HTTP_DELETE
#undef HTTP_OPTIONS
#undef HTTP_CONNECT

#endif
