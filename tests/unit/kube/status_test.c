/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/status.h"

#include <json-c/json.h>

#include "lib/tap.h"

static void test_documents(void)
{
    static const struct {
        unsigned code, retry_after;
        const char *message, *want;
    } rows[] = {
        {503, 1, STATUS_NO_ENDPOINT,
         "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"Error "
         "getting ip and "
         "port info of the remote server while proxying\",\"reason\":\"ServiceUnavailable\",\"details\":{"
         "\"retryAfterSeconds\":1},\"code\":503}\n"},
        {502, 5, STATUS_PROXY_FAILED,
         "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"Error while "
         "proxying "
         "request to destination apiserver\",\"reason\":\"ServiceUnavailable\",\"details\":{\"retryAfterSeconds\":5},"
         "\"code\":503}\n"},
        {401, 0, STATUS_UNAUTHORIZED,
         "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":"
         "\"Unauthorized\","
         "\"reason\":\"Unauthorized\",\"code\":401}\n"},
        {431, 0, "",
         "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"code\":431}\n"},
        {400, 0, "a\"b\\\n\x01",
         "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":"
         "\"a\\\"b\\\\\\n\\u0001\","
         "\"reason\":\"BadRequest\",\"code\":400}\n"},
    };
    struct buf out;

    buf_init(&out, 4096);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct status s = {rows[i].code, slice_str(rows[i].message), rows[i].retry_after};

        buf_reset(&out);
        ok(status_print(&s, &out), "printed: %u", rows[i].code);
        is_slice(buf_slice(&out), rows[i].want, "document of %u", rows[i].code);
    }
    buf_free(&out);
}

static void test_reasons(void)
{
    static const struct {
        unsigned code;
        const char *reason;
    } rows[] = {
        {400, "BadRequest"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "NotFound"},
        {405, "MethodNotAllowed"},
        {406, "NotAcceptable"},
        {408, "Timeout"},
        {413, "RequestEntityTooLarge"},
        {414, ""},
        {429, "TooManyRequests"},
        {431, ""},
        {500, "InternalError"},
        {501, "InternalError"},
        {502, "ServiceUnavailable"},
        {503, "ServiceUnavailable"},
        {504, "Timeout"},
        {418, ""},
    };

    for (size_t i = 0; i < ROWS(rows); i++)
        is_str(status_reason(rows[i].code), rows[i].reason, "reason of %u", rows[i].code);
    is_u64(status_code(502), 503, "502 becomes 503");
    is_u64(status_code(504), 504, "504 stays");
}

/* Whatever bytes a message has, the document is JSON and the message survives as text. */
static void test_any_bytes(void)
{
    char message[256];
    struct status s = {500, slice_of(message, sizeof(message)), 0};
    struct json_object *root, *v = NULL;
    struct buf out, small;

    for (size_t i = 0; i < sizeof(message); i++)
        message[i] = (char)i;
    buf_init(&out, 8192);
    ok(status_print(&s, &out) && buf_append_char(&out, '\0'), "any bytes can be printed");
    root = json_tokener_parse(buf_slice(&out).p);
    ok(root != NULL && json_object_object_get_ex(root, "message", &v), "and are JSON");
    ok(v != NULL && json_object_get_string_len(v) > 256, "with the message in it");
    json_object_put(root);
    buf_free(&out);
    buf_init(&small, 20);
    ok(!status_print(&s, &small), "a buffer too small is reported");
    buf_free(&small);
}

int main(void)
{
    test_documents();
    test_reasons();
    test_any_bytes();
    return tap_end();
}
