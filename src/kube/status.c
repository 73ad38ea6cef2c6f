/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/status.h"

static const struct {
    unsigned code;
    const char *reason;
} reasons[] = {
    {400, "BadRequest"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "NotFound"},
    {405, "MethodNotAllowed"},
    {406, "NotAcceptable"},
    {408, "Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {413, "RequestEntityTooLarge"},
    {415, "UnsupportedMediaType"},
    {422, "Invalid"},
    {429, "TooManyRequests"},
    {500, "InternalError"},
    {503, "ServiceUnavailable"},
    {504, "Timeout"},
};

unsigned status_code(unsigned code)
{
    return code == 502 ? 503 : code;
}

const char *status_reason(unsigned code)
{
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].code == status_code(code))
            return reasons[i].reason;
    return code >= 500 ? "InternalError" : "";
}

bool status_print(const struct status *s, struct buf *out)
{
    const char *reason = status_reason(s->code);

    buf_append_str(out, "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\"");
    if (s->message.n > 0)
        buf_append_quoted(out, ",\"message\":", s->message);
    if (reason[0] != '\0')
        buf_printf(out, ",\"reason\":\"%s\"", reason);
    if (s->retry_after > 0)
        buf_printf(out, ",\"details\":{\"retryAfterSeconds\":%u}", s->retry_after);
    return buf_printf(out, ",\"code\":%u}\n", status_code(s->code));
}
