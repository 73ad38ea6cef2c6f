/* SPDX-License-Identifier: Apache-2.0 */
/* Which answers say that a server does not know the path, and which that an object is not there. */
#include "kube/denial.h"

#include "lib/tap.h"

#define STATUS(code, reason, message, details)                                                                         \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"" message         \
    "\",\"reason\":\"" reason "\",\"details\":" details ",\"code\":" code "}\n"
#define NOT_FOUND "the server could not find the requested resource"
#define NOT_ALLOWED "the server does not allow this method on the requested resource"
#define STARTING "the request has been made before all known HTTP paths have been installed, please try again"
#define AWAY "The apiserver is shutting down, please try again later."

static void heads(void)
{
    static const struct {
        const char *name, *type;
        unsigned status;
        bool body;
        enum denial want;
    } rows[] = {
        {"plain 404", "text/plain; charset=utf-8", 404, true, DENIAL_UNKNOWN},
        {"404 in JSON", "application/json", 404, true, DENIAL_NEEDS_BODY},
        {"404 in protobuf", "application/vnd.kubernetes.protobuf", 404, true, DENIAL_NEEDS_BODY},
        {"404 to HEAD", "application/json", 404, false, DENIAL_UNKNOWN},
        {"405 in JSON", "application/json", 405, true, DENIAL_NEEDS_BODY},
        {"405 to HEAD", "application/json", 405, false, DENIAL_NONE},
        {"405 in plain text", "text/plain", 405, true, DENIAL_NONE},
        {"503 in JSON", "application/json", 503, true, DENIAL_NEEDS_BODY},
        {"503 in plain text", "text/plain", 503, true, DENIAL_NONE},
        {"429 in plain text", "text/plain; charset=utf-8", 429, true, DENIAL_NEEDS_BODY},
        {"429 in JSON", "application/json", 429, true, DENIAL_NONE},
        {"429 to HEAD", "text/plain; charset=utf-8", 429, false, DENIAL_NONE},
        {"200", "application/json", 200, true, DENIAL_NONE},
        {"403", "application/json", 403, true, DENIAL_NONE},
        {"410", "application/json", 410, true, DENIAL_NONE},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        is_u64(denial_by_head(rows[i].status, slice_str(rows[i].type), rows[i].body), rows[i].want, "%s", rows[i].name);
}

static void bodies(void)
{
    static const struct {
        const char *name;
        unsigned status;
        enum denial want;
        struct slice body;
    } rows[] = {
        {"a version that went", 404, DENIAL_UNKNOWN, SLICE_LIT(STATUS("404", "NotFound", NOT_FOUND, "{}"))},
        {"without details", 404, DENIAL_UNKNOWN,
         SLICE_LIT("{\"kind\":\"Status\",\"message\":\"" NOT_FOUND "\",\"code\":404}")},
        {"indented for curl", 404, DENIAL_UNKNOWN,
         SLICE_LIT("{\n  \"kind\": \"Status\",\n  \"message\": \"" NOT_FOUND "\",\n  \"details\": {\n    \n  }\n}")},
        {"a verb that went", 405, DENIAL_UNKNOWN, SLICE_LIT(STATUS("405", "MethodNotAllowed", NOT_ALLOWED, "{}"))},
        {"a verb that a kind of objects has not", 405, DENIAL_NONE,
         SLICE_LIT(STATUS("405", "MethodNotAllowed", "patch is not supported on resources of kind \\\"pods\\\"",
                          "{\"kind\":\"pods\"}"))},
        {"an object that is not there", 404, DENIAL_NONE,
         SLICE_LIT(STATUS("404", "NotFound", "pods \\\"x\\\" not found", "{\"name\":\"x\",\"kind\":\"pods\"}"))},
        {"the fixed message about an object", 404, DENIAL_NONE,
         SLICE_LIT(STATUS("404", "NotFound", NOT_FOUND " ( pods/log x)", "{\"name\":\"x\",\"kind\":\"pods/log\"}"))},
        {"another message", 404, DENIAL_NONE, SLICE_LIT(STATUS("404", "NotFound", "gone fishing", "{}"))},
        {"another code than the body is about", 405, DENIAL_NONE,
         SLICE_LIT(STATUS("404", "NotFound", NOT_FOUND, "{}"))},
        {"a server that starts", 503, DENIAL_STARTING,
         SLICE_LIT(STATUS("503", "ServiceUnavailable", STARTING, "{\"retryAfterSeconds\":5}"))},
        {"a server that stops", 503, DENIAL_STOPPING,
         SLICE_LIT("{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":"
                   "\"apiserver is shutting down\",\"reason\":\"ServiceUnavailable\",\"code\":503}\n\n")},
        {"the same with another code", 404, DENIAL_NONE,
         SLICE_LIT(STATUS("404", "NotFound", "apiserver is shutting down", "{}"))},
        {"a server that stops, quoted", 503, DENIAL_NONE,
         SLICE_LIT(STATUS("503", "ServiceUnavailable", "webhook said: apiserver is shutting down", "{}"))},
        {"a server that stops, and sends everybody away", 429, DENIAL_STOPPING, SLICE_LIT(AWAY "\n")},
        {"one that has too much to do", 429, DENIAL_NONE, SLICE_LIT("Too many requests, please try again later.\n")},
        {"one that says more", 429, DENIAL_NONE, SLICE_LIT("x: " AWAY "\n")},
        {"the same words of another code", 503, DENIAL_NONE, SLICE_LIT(AWAY "\n")},
        {"another 503", 503, DENIAL_NONE,
         SLICE_LIT(STATUS("503", "ServiceUnavailable", "the server is currently unable to handle the request", "{}"))},
        {"no Status", 404, DENIAL_NONE, SLICE_LIT("{\"kind\":\"Pod\",\"message\":\"" NOT_FOUND "\"}")},
        {"half an object", 404, DENIAL_NONE, SLICE_LIT("{\"kind\":\"Status\",\"message\":\"" NOT_FOUND "\"")},
        {"nothing", 404, DENIAL_NONE, SLICE_LIT("")},
        {"deeper than a Status is", 404, DENIAL_NONE,
         SLICE_LIT("{\"kind\":\"Status\",\"message\":\"" NOT_FOUND "\",\"a\":[[[[[[[[[[]]]]]]]]]]}")},
        {"YAML", 404, DENIAL_UNKNOWN,
         SLICE_LIT("apiVersion: v1\ncode: 404\ndetails: {}\nkind: Status\nmessage: " NOT_FOUND "\nreason: NotFound\n")},
        {"YAML about an object", 404, DENIAL_NONE,
         SLICE_LIT("details:\n  name: x\nkind: Status\nmessage: " NOT_FOUND " ( pods/log x)\n")},
        {"YAML about another thing", 404, DENIAL_NONE, SLICE_LIT("kind: Status\nmessage: pods \"x\" not found\n")},
        {"YAML about a name that reads like it", 404, DENIAL_NONE,
         SLICE_LIT("details:\n  kind: pods\n  name: " NOT_FOUND "\nkind: Status\nmessage: pods \"" NOT_FOUND
                   "\" not found\n")},
        {"YAML about a name of several lines", 404, DENIAL_NONE,
         SLICE_LIT("details:\n  name: |-\n    x\n    message: " NOT_FOUND "\nkind: Status\nmessage: gone\n")},
        {"YAML of another kind", 404, DENIAL_NONE, SLICE_LIT("kind: Pod\nmessage: " NOT_FOUND "\n")},
        {"YAML of a server that starts", 503, DENIAL_STARTING,
         SLICE_LIT("details: {}\nkind: Status\nmessage: " STARTING ", please try\n  again\n")},
        {"CBOR", 404, DENIAL_NONE, SLICE_LIT("\xd9\xd9\xf7\xa1GmessageX0" NOT_FOUND)},
        /* As kube-apiserver 1.36 answers `Accept: application/vnd.kubernetes.protobuf`. */
        {"protobuf", 404, DENIAL_UNKNOWN,
         SLICE_LIT("k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x5e\x0a\x08\x0a\x00\x12\x00\x1a\x00\x22\x00\x12\x07"
                   "Failure\x1a\x30" NOT_FOUND "\x22\x08NotFound\x2a\x0a\x0a\x00\x12\x00\x1a\x00\x28\x00\x32\x00\x30"
                   "\x94\x03\x1a\x00\x22\x00")},
        {"protobuf about an object", 404, DENIAL_NONE,
         SLICE_LIT("k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x37\x1a\x30" NOT_FOUND "\x2a\x03\x0a\x01x")},
        {"protobuf of another kind", 404, DENIAL_NONE,
         SLICE_LIT("k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x32\x1a\x30" NOT_FOUND)},
        {"half of protobuf", 404, DENIAL_NONE, SLICE_LIT("k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x5f\x0a\x08")},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        is_u64(denial_by_body(rows[i].status, rows[i].body), rows[i].want, "%s", rows[i].name);
}

/* Of a 401: what comes after authentication has other words than that, or says what it is about. */
static void known_users(void)
{
#define HOOK "admission webhook \\\"v.example.org\\\" denied the request: Unauthorized"
    static const struct {
        const char *name;
        struct slice body;
        bool want;
    } rows[] = {
        {"authentication",
         SLICE_LIT("{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
                   "\"message\":\"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401}\n"),
         false},
        {"the same with empty details", SLICE_LIT(STATUS("401", "Unauthorized", "Unauthorized", "{}")), false},
        {"a webhook", SLICE_LIT(STATUS("401", "Unauthorized", HOOK, "{}")), true},
        {"the words, and more", SLICE_LIT(STATUS("401", "Unauthorized", "Unauthorized: x", "{}")), true},
        {"less than the words", SLICE_LIT(STATUS("401", "Unauthorized", "Unauthorize", "{}")), true},
        {"the words about an object", SLICE_LIT(STATUS("401", "Unauthorized", "Unauthorized", "{\"name\":\"x\"}")),
         true},
        {"YAML of authentication", SLICE_LIT("code: 401\nkind: Status\nmessage: Unauthorized\n"), false},
        {"YAML of a webhook", SLICE_LIT("code: 401\nkind: Status\nmessage: 'admission webhook \"v\" denied it'\n"),
         true},
        {"protobuf of authentication", SLICE_LIT("k8s\0\n\x0c\n\x02v1\x12\x06Status\x12\x0e\x1a\x0cUnauthorized"),
         false},
        {"protobuf of a webhook", SLICE_LIT("k8s\0\n\x0c\n\x02v1\x12\x06Status\x12\x0f\x1a\rUnauthorized:"), true},
        {"no Status", SLICE_LIT("{\"kind\":\"Pod\",\"message\":\"" HOOK "\"}"), false},
        {"half of one", SLICE_LIT("{\"kind\":\"Status\",\"message\":\"" HOOK "\""), false},
        {"text", SLICE_LIT("Unauthorized\n"), false},
        {"nothing", SLICE_LIT(""), false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ok(denial_knows_user(rows[i].body) == rows[i].want, "401: %s", rows[i].name);
}

int main(void)
{
    known_users();
    heads();
    bodies();
    return tap_end();
}
