/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes that kube-apiserver 1.36.3 wrote into etcd are the vector; that it reads ours was tried with the same. */
#include "kube/peer_record.h"

#include "lib/tap.h"

#define ID "apiserver-tqsyvnc7rs47fayzipsuqpfg4m" /* host name cp-a */
#define OTHER "apiserver-imkgstwjs6opnbwk2ixluu6fiq"

/* etcdctl get --print-value-only /registry/peerserverleases/ID, kube-apiserver 1.36.3 with the feature gate on */
static const char real[] = "k8s\0\n\x0f\n\x02v1\x12\tEndpoints\x12p\nK\n\0\x12\0\x1a\0\"\0*\0002\0008\x10"
                           "B\0Z9\n"
                           "\x11"
                           "apiserverIdentity\x12$" ID "\x12!\n\x0e\n\n192.0.2.11\x1a\0\x1a\x0f\n\x05https\x10\xab"
                           "2\x1a\x03TCP\x1a\0\"\0";

#define JSON(id, subsets)                                                                                              \
    "{\"kind\":\"Endpoints\",\"apiVersion\":\"v1\",\"metadata\":{\"labels\":{\"apiserverIdentity\":\"" id              \
    "\"}},\"subsets\":" subsets "}"
#define SUBSET(ip, port) "[{\"addresses\":[{\"ip\":\"" ip "\"}],\"ports\":[{\"port\":" port "}]}]"

static void test_real(void)
{
    struct slice value = slice_of(real, sizeof(real) - 1);
    struct peer_record r;
    struct err err = {""};

    ok(peer_record_parse(value, &r, &err), "what kube-apiserver writes is read: %s", err.text);
    is_str(r.id, ID, "server ID");
    is_str(r.ip, "192.0.2.11", "address");
    is_int(r.port, 6443, "port");
    ok(r.form == PEER_RECORD_PROTOBUF, "as protobuf");
    /* The envelope's last two fields are empty: without them it says the same. */
    for (size_t n = 0; n < value.n - 4; n++)
        ok(!peer_record_parse(slice_of(real, n), &r, NULL), "cut to %zu bytes it is refused", n);
}

static void test_print(void)
{
    struct peer_record r = {.id = ID, .ip = "2001:db8::7", .port = 6443, .generation = 9}, again;
    struct buf b;
    struct err err = {""};

    buf_init(&b, PEER_RECORD_BYTES);
    ok(peer_record_print(&r, &b), "prints");
    is_slice(buf_slice(&b),
             "{\"kind\":\"Endpoints\",\"apiVersion\":\"v1\",\"metadata\":{\"generation\":9,\"labels\":{"
             "\"apiserverIdentity\":\"" ID "\"}},\"subsets\":[{\"addresses\":[{\"ip\":\"2001:db8::7\"}],\"ports\":["
             "{\"name\":\"https\",\"port\":6443,\"protocol\":\"TCP\"}]}]}\n",
             "as kube-apiserver 1.36.3 took it");
    ok(peer_record_parse(buf_slice(&b), &again, &err), "reads what it prints: %s", err.text);
    ok(peer_record_same_address(&r, &again) && again.form == PEER_RECORD_JSON, "the same");
    buf_free(&b);
}

static void test_json(void)
{
    static const struct {
        const char *text, *ip;
        unsigned port;
    } taken[] = {
        {JSON(ID, SUBSET("10.0.0.1", "1")), "10.0.0.1", 1},
        {JSON(ID, SUBSET("::1", "65535")), "::1", 65535},
        {"  " JSON(ID, SUBSET("10.0.0.1", "6443")) "\n\n", "10.0.0.1", 6443},
        {JSON(ID,
              "[{\"addresses\":[{\"ip\":\"10.0.0.1\"},{\"ip\":\"10.0.0.2\"}],\"ports\":[{\"port\":5},{\"port\":6}]},"
              "{\"addresses\":[{\"ip\":\"10.0.0.3\"}],\"ports\":[{\"port\":7}]}]"),
         "10.0.0.1", 5},
        {JSON(
             ID,
             "[{\"notReadyAddresses\":[{\"ip\":\"10.0.0.9\"}],\"addresses\":[{\"hostname\":\"x\",\"ip\":\"10.0.0.1\"}],"
             "\"ports\":[{\"name\":\"https\",\"port\":5,\"protocol\":\"TCP\"}]}],\"more\":{\"a\":[1,null]}"),
         "10.0.0.1", 5},
    };

    for (size_t i = 0; i < ROWS(taken); i++) {
        struct peer_record r;
        struct err err = {""};

        ok(peer_record_parse(slice_str(taken[i].text), &r, &err), "taken: %s (%s)", taken[i].text, err.text);
        is_str(r.ip, taken[i].ip, "address");
        is_int(r.port, taken[i].port, "port");
    }
}

static void test_refused(void)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "neither protobuf nor a JSON object"},
        {"null", "neither"},
        {"[]", "neither"},
        {"{}", "not a v1 Endpoints"},
        {"k8s", "neither"},
        {"k8s:enc:aescbc:v1:key1:...", "encrypted"},
        {"kind: Endpoints", "neither"},
        {JSON(ID, SUBSET("10.0.0.1", "1")) "x", "neither"},
        {"{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}", "not a v1 Endpoints"},
        {"{\"kind\":\"Endpoints\",\"apiVersion\":\"v2\"}", "not a v1 Endpoints"},
        {"{\"kind\":\"Endpoints\",\"apiVersion\":\"v1\"}", "server ID"},
        {"{\"kind\":\"Endpoints\",\"apiVersion\":\"v1\",\"metadata\":[]}", "server ID"},
        {JSON("", SUBSET("10.0.0.1", "1")), "server ID"},
        {JSON("apiserver-UPPERCASEUPPERCASEUPPERCAS", SUBSET("10.0.0.1", "1")), "server ID"},
        {JSON(ID "/..", SUBSET("10.0.0.1", "1")), "server ID"},
        {JSON(ID, "null"), "no address"},
        {JSON(ID, "[]"), "no address"},
        {JSON(ID, "{}"), "no address"},
        {JSON(ID, "[7]"), "no address"},
        {JSON(ID, "[{\"addresses\":[]}]"), "no address"},
        {JSON(ID, "[{\"addresses\":[{\"ip\":7}]}]"), "no address"},
        {JSON(ID, "[{},{\"addresses\":[{\"ip\":\"10.0.0.1\"}],\"ports\":[{\"port\":5}]}]"), "no address"},
        {JSON(ID, SUBSET("example.com", "1")), "not an IP address"},
        {JSON(ID, SUBSET("10.0.0.1\\u0000", "1")), "not an IP address"},
        {JSON(ID, SUBSET("010.0.0.1", "1")), "not an IP address"},
        {JSON(ID, SUBSET("10.0.0.1:5", "1")), "not an IP address"},
        {JSON(ID, SUBSET("fe80::1%eth0", "1")), "not an IP address"},
        {JSON(ID, SUBSET("[::1]", "1")), "not an IP address"},
        {JSON(ID, SUBSET("10.0.0.1", "0")), "port"},
        {JSON(ID, SUBSET("10.0.0.1", "65536")), "port"},
        {JSON(ID, SUBSET("10.0.0.1", "-1")), "port"},
        {JSON(ID, SUBSET("10.0.0.1", "1e3")), "port"},
        {JSON(ID, SUBSET("10.0.0.1", "\"5\"")), "port"},
        {JSON(ID, SUBSET("10.0.0.1", "18446744073709551621")), "port"},
        {JSON(ID, "[{\"addresses\":[{\"ip\":\"10.0.0.1\"}]}]"), "port"},
    };
    static char big[PEER_RECORD_BYTES + 2];
    struct peer_record r;
    struct err err = {""};

    for (size_t i = 0; i < ROWS(rows); i++) {
        err_clear(&err);
        ok(!peer_record_parse(slice_str(rows[i].text), &r, &err) && strstr(err.text, rows[i].why) != NULL,
           "refused: %s (%s)", rows[i].text, err.text);
    }
    memset(big, ' ', sizeof(big));
    err_clear(&err);
    ok(!peer_record_parse(slice_of(big, sizeof(big)), &r, &err) && strstr(err.text, "bytes") != NULL, "too large: %s",
       err.text);
    memset(big, '[', 1000);
    ok(!peer_record_parse(slice_of(big, 1000), &r, NULL), "too deep");
}

static void test_keys(void)
{
    static const struct {
        const char *prefix, *key;
    } rows[] = {
        {"/registry", "/registry/peerserverleases/" ID},
        {"registry", "/registry/peerserverleases/" ID},
        {"/registry/", "/registry/peerserverleases/" ID},
        {"/a/b", "/a/b/peerserverleases/" ID},
        {"", "/peerserverleases/" ID},
        {"/", "/peerserverleases/" ID},
    };
    static const char *const others[] = {
        "",
        "/",
        "/registry",
        "/registry/peerserverleases/",
        "/registry/peerserverleases/" ID "/",
        "registry/peerserverleases/" ID,
        "/registry/peerserverleases/" ID "x",
        "/registryx/peerserverleases/" ID,
        "/peerserverleases/" ID,
        "/registry/peerserverleases/kube-apiserver",
        "/registry/peerserverleases/x/" ID,
    };
    struct buf b;

    buf_init(&b, 1024);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct slice prefix = slice_str(rows[i].prefix);

        buf_reset(&b);
        ok(peer_record_key(prefix, SLICE_LIT(ID), &b), "a key under \"%s\"", rows[i].prefix);
        is_slice(buf_slice(&b), rows[i].key, "is %s", rows[i].key);
        is_slice(peer_record_key_id(prefix, buf_slice(&b)), ID, "and names its server");
    }
    for (size_t i = 0; i < ROWS(others); i++)
        is_slice(peer_record_key_id(SLICE_LIT("/registry"), slice_str(others[i])), NULL, "no key of ours: %s",
                 others[i]);
    buf_free(&b);
}

static void test_addresses(void)
{
    struct peer_record r = {.id = ID}, s = {.id = OTHER};

    ok(peer_record_set_address(&r, SLICE_LIT("10.0.0.1:6443")), "an option's address");
    ok(strcmp(r.ip, "10.0.0.1") == 0 && r.port == 6443, "in its parts");
    ok(peer_record_set_address(&s, SLICE_LIT("10.0.0.1:6443")) && peer_record_same_address(&r, &s), "the same");
    s.port = 1;
    ok(!peer_record_same_address(&r, &s), "another port");
    ok(peer_record_set_address(&r, SLICE_LIT("[2001:DB8:0::1]:1")) &&
           peer_record_set_address(&s, SLICE_LIT("[2001:db8::1]:1")) && peer_record_same_address(&r, &s),
       "one address in two spellings");
    ok(peer_record_set_address(&s, SLICE_LIT("[::1]:1")) && !peer_record_same_address(&r, &s), "another");
    ok(peer_record_set_address(&s, SLICE_LIT("10.0.0.1:1")) && !peer_record_same_address(&r, &s),
       "of the other family");
    ok(!peer_record_set_address(&r, SLICE_LIT("example.com:1")), "no names");
    ok(!peer_record_set_address(&r, SLICE_LIT("10.0.0.1")), "no port");
}

int main(void)
{
    test_real();
    test_print();
    test_json();
    test_refused();
    test_keys();
    test_addresses();
    return tap_end();
}
