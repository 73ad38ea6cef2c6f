/* SPDX-License-Identifier: Apache-2.0 */
/* z-pages: who gets which form, and what stands in it. */
#include "admin/zpages.h"

#include "lib/tap.h"

static const struct {
    enum zpage which;
    const char *accept;
    enum zpage_form want;
} rows[] = {
    {ZPAGE_STATUSZ, "", ZPAGE_TEXT},
    {ZPAGE_STATUSZ, "*/*", ZPAGE_TEXT},
    {ZPAGE_STATUSZ, "text/plain", ZPAGE_TEXT},
    {ZPAGE_STATUSZ, "text/html,application/xhtml+xml,*/*;q=0.8", ZPAGE_TEXT},
    {ZPAGE_STATUSZ, "application/json", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "application/json;v=v1beta1;g=config.k8s.io;as=Statusz", ZPAGE_JSON},
    {ZPAGE_STATUSZ, "application/json; as=Statusz; g=config.k8s.io; v=v1beta1", ZPAGE_JSON},
    {ZPAGE_STATUSZ, "application/json;v=v1alpha1;g=config.k8s.io;as=Statusz", ZPAGE_JSON_ALPHA},
    {ZPAGE_FLAGZ, "application/json;v=v1alpha1;g=config.k8s.io;as=Flagz", ZPAGE_JSON_ALPHA},
    {ZPAGE_STATUSZ, "application/json;v=v1alpha1;g=config.k8s.io;as=Flagz", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "application/json;v=v1;g=config.k8s.io;as=Statusz", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "application/json;v=v1beta1;as=Statusz", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "application/json;v=v1beta1;g=config.k8s.io", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "application/json;g=config.k8s.io;as=Statusz", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "application/json;v=v1beta1;g=config.k8s.io;as=Flagz", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_FLAGZ, "application/json;v=v1beta1;g=config.k8s.io;as=Flagz,text/plain", ZPAGE_JSON},
    {ZPAGE_FLAGZ, "application/json,text/plain", ZPAGE_TEXT},
    {ZPAGE_FLAGZ, "image/png", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "text/plain;q=0.1, application/json;v=v1beta1;g=config.k8s.io;as=Statusz", ZPAGE_JSON},
    {ZPAGE_STATUSZ, "text/plain;q=0, application/json;v=v1beta1;g=config.k8s.io;as=Statusz;q=0.001", ZPAGE_JSON},
    {ZPAGE_STATUSZ, "text/plain;q=0", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "text/plain;q=0.000", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "text/plain;q=nan", ZPAGE_TEXT},
    {ZPAGE_STATUSZ, "text/plain;q=1.0, application/json;v=v1beta1;g=config.k8s.io;as=Statusz;q=0.9", ZPAGE_TEXT},
    {ZPAGE_STATUSZ, "application/json; v=\"v1beta1\"; g=\"config.k8s.io\"; as=\"Statusz\"", ZPAGE_JSON},
    {ZPAGE_STATUSZ, "text/plain;v=v1beta1;g=config.k8s.io;as=Statusz", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "application/json;v=v1beta1;v=v9;g=config.k8s.io;as=Statusz", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "application/json;v=v9;v=v1beta1;g=other;g=config.k8s.io;as=Table;as=Statusz", ZPAGE_JSON},
    {ZPAGE_STATUSZ, "application/yaml;v=v1beta1;g=config.k8s.io;as=Statusz", ZPAGE_YAML},
    {ZPAGE_FLAGZ, "application/yaml;v=v1alpha1;g=config.k8s.io;as=Flagz", ZPAGE_YAML_ALPHA},
    {ZPAGE_STATUSZ, "application/yaml;v=v1beta1;g=config.k8s.io;as=Flagz", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "application/yaml", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "application/yaml, application/json, */*", ZPAGE_TEXT},
    {ZPAGE_STATUSZ, "application/*;v=v1beta1;g=config.k8s.io;as=Statusz", ZPAGE_JSON},
    {ZPAGE_STATUSZ, "*/*;v=v1alpha1;g=config.k8s.io;as=Statusz", ZPAGE_JSON_ALPHA},
    {ZPAGE_STATUSZ, "*/plain", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "text/*", ZPAGE_TEXT},
    {ZPAGE_STATUSZ, "application/*", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "application/cbor;v=v1beta1;g=config.k8s.io;as=Statusz", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "application/vnd.kubernetes.protobuf;v=v1beta1;g=config.k8s.io;as=Statusz", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "text/plain;stream=watch", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "application/json;stream=watch;v=v1beta1;g=config.k8s.io;as=Statusz", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "application/json;sv=v1;v=v1beta1;g=config.k8s.io;as=Statusz", ZPAGE_NOT_ACCEPTABLE},
    {ZPAGE_STATUSZ, "application/json;pretty=1;v=v1beta1;g=config.k8s.io;as=Statusz", ZPAGE_JSON_PRETTY},
    {ZPAGE_STATUSZ, "application/json;pretty=1;v=v1alpha1;g=config.k8s.io;as=Statusz", ZPAGE_JSON_ALPHA_PRETTY},
};

#define WARNING                                                                                                        \
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "  \
    "for debugging purposes only.\n"

static void test_statusz(struct buf *out)
{
    static const char *const paths[] = {"/livez", "/metrics", NULL};
    struct statusz s = {.started_wall_us = 1725603591000000, .uptime_ms = 3723456, .version = "1.2.3", .paths = paths};

    statusz_write(out, ZPAGE_TEXT, &s);
    is_slice(buf_slice(out),
             "\nmvproxy statusz\n" WARNING "\nStarted: Fri Sep  6 06:19:51 UTC 2024\nUp: 1 hr 02 min 03 sec\n"
             "Binary version: 1.2.3\nPaths: /livez /metrics\n",
             "statusz as text");
    s.facts = SLICE_LIT("Ready\n");
    buf_reset(out);
    statusz_write(out, ZPAGE_TEXT, &s);
    ok(slice_has_suffix(buf_slice(out), SLICE_LIT("/metrics\nReady\n")), "and how it stands");
    ok(zpage_warning(ZPAGE_STATUSZ, ZPAGE_JSON) == NULL && zpage_warning(ZPAGE_FLAGZ, ZPAGE_TEXT) == NULL,
       "nothing to warn of");
    is_str(zpage_warning(ZPAGE_STATUSZ, ZPAGE_JSON_ALPHA),
           "299 - \"This version of the statusz endpoint is deprecated. Please use a newer version.\"",
           "an old version");
    is_str(zpage_warning(ZPAGE_FLAGZ, ZPAGE_YAML_ALPHA),
           "299 - \"This version of the flagz endpoint is deprecated. Please use a newer version.\"", "in YAML, too");
    is_str(zpage_content_type(ZPAGE_FLAGZ, ZPAGE_YAML), "application/yaml;v=v1beta1;g=config.k8s.io;as=Flagz", "YAML");
    is_str(zpage_content_type(ZPAGE_STATUSZ, ZPAGE_YAML_ALPHA),
           "application/yaml;v=v1alpha1;g=config.k8s.io;as=Statusz", "older YAML");
    is_str(zpage_content_type(ZPAGE_STATUSZ, ZPAGE_JSON_ALPHA_PRETTY),
           "application/json;v=v1alpha1;g=config.k8s.io;as=Statusz", "the type says nothing of how it is laid out");
    s.facts = SLICE_LIT("{\"ready\":true}");
    buf_reset(out);
    statusz_write(out, ZPAGE_YAML, &s);
    is_slice(buf_slice(out),
             "kind: Statusz\napiVersion: config.k8s.io/v1beta1\nmetadata:\n  name: mvproxy\n"
             "startTime: \"2024-09-06T06:19:51Z\"\nuptimeSeconds: 3723\nbinaryVersion: \"1.2.3\"\npaths:\n- /livez\n"
             "- /metrics\nstatus:\n  ready: true\n",
             "statusz as YAML");
    buf_reset(out);
    statusz_write(out, ZPAGE_JSON_ALPHA, &s);
    ok(memmem(out->p, buf_len(out), "config.k8s.io/v1alpha1\"", 23) != NULL &&
           slice_has_suffix(buf_slice(out), SLICE_LIT("\"/metrics\"],\"status\":{\"ready\":true}}\n")),
       "in JSON, too, and the older version");
    s.facts = SLICE_NONE;
    buf_reset(out);
    statusz_write(out, ZPAGE_JSON, &s);
    is_slice(buf_slice(out),
             "{\"kind\":\"Statusz\",\"apiVersion\":\"config.k8s.io/v1beta1\",\"metadata\":{\"name\":\"mvproxy\"},"
             "\"startTime\":\"2024-09-06T06:19:51Z\",\"uptimeSeconds\":3723,\"binaryVersion\":\"1.2.3\","
             "\"paths\":[\"/livez\",\"/metrics\"]}\n",
             "statusz as JSON");
    buf_reset(out);
    statusz_write(out, ZPAGE_JSON_PRETTY, &s);
    ok(slice_has_prefix(buf_slice(out), SLICE_LIT("{\n  \"kind\": \"Statusz\",\n")) &&
           slice_has_suffix(buf_slice(out), SLICE_LIT("    \"/metrics\"\n  ]\n}\n")),
       "and laid out");
    buf_reset(out);
}

static void test_flagz(struct buf *out)
{
    struct flagz f;

    flagz_begin(&f, out, ZPAGE_TEXT);
    flagz_add(&f, "a", "1");
    flagz_add(&f, "b", "x=y");
    flagz_end(&f);
    is_slice(buf_slice(out), "\nmvproxy flagz\n" WARNING "a=1\nb=x=y\n", "flagz as text");
    buf_reset(out);
    flagz_begin(&f, out, ZPAGE_JSON);
    flagz_add(&f, "a", "1");
    flagz_add(&f, "b", "\"\\");
    flagz_end(&f);
    is_slice(buf_slice(out),
             "{\"kind\":\"Flagz\",\"apiVersion\":\"config.k8s.io/v1beta1\",\"metadata\":{\"name\":\"mvproxy\"},"
             "\"flags\":{\"a\":\"1\",\"b\":\"\\\"\\\\\"}}\n",
             "flagz as JSON");
    buf_reset(out);
    flagz_begin(&f, out, ZPAGE_YAML_ALPHA);
    flagz_add(&f, "a", "1");
    flagz_add(&f, "n", "true");
    flagz_add(&f, "secure-port", "no: \"\\ #\n");
    flagz_end(&f);
    is_slice(buf_slice(out),
             "kind: Flagz\napiVersion: config.k8s.io/v1alpha1\nmetadata:\n  name: mvproxy\nflags:\n  a: \"1\"\n"
             "  \"n\": \"true\"\n  secure-port: \"no: \\\"\\\\ #\\n\"\n",
             "flagz as YAML");
    buf_reset(out);
}

int main(void)
{
    struct buf out;

    buf_init(&out, 1 << 16);
    for (size_t i = 0; i < ROWS(rows); i++)
        is_int(zpage_negotiate(rows[i].which, slice_str(rows[i].accept), false), rows[i].want, "Accept: %s",
               rows[i].accept);
    is_int(zpage_negotiate(ZPAGE_FLAGZ, SLICE_LIT("application/json;v=v1beta1;g=config.k8s.io;as=Flagz"), true),
           ZPAGE_JSON_PRETTY, "for curl: laid out");
    is_int(zpage_negotiate(ZPAGE_FLAGZ, SLICE_LIT("application/yaml;v=v1beta1;g=config.k8s.io;as=Flagz"), true),
           ZPAGE_YAML, "which YAML is always");
    test_statusz(&out);
    test_flagz(&out);
    buf_free(&out);
    return tap_end();
}
