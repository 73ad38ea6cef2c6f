/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a configuration have that a start would not say: above all whether the service's user, who is
 * played by nobody here, can read them. */
#include "daemon/preflight.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/config_load.h"
#include "lib/folder.h"
#include "lib/tap.h"

enum { ROOM = 1 << 16, NOBODY = 65534 };

#define SWAPPED " is a private key, not a certificate: give the certificate here (are the two swapped?)\n"

static char text[4096], findings[ROOM];
static uid_t asks_as; /* who looks */

/* In place of the C library's. */
struct passwd *getpwnam(const char *name)
{
    static struct passwd nobody = {.pw_uid = NOBODY, .pw_gid = NOBODY};
    static char own_name[] = "nobody";

    nobody.pw_name = own_name;
    return strcmp(name, "mvproxy") == 0 ? &nobody : NULL;
}

/* The files of the configuration are in these folders. */
static bool looks(const char *cert, const char *key, const char *const *pairs, const char *user)
{
    struct config *c;
    struct buf out;
    bool good;

    (void)snprintf(text, sizeof(text),
                   "tls-cert-file: %s/%s/server.crt\ntls-private-key-file: %s/%s/server.key\napiserver-ca-file: "
                   "%s/open/ca.crt\nbind-address: 10.0.0.9\nclient-ca-file: %s/open/ca.crt\ncontrol-socket: \"\"\n",
                   folder(), cert, folder(), key, folder(), folder());
    folder_write("mvproxy.yaml", text);
    buf_init(&out, ROOM);
    c = config_load("mvproxy.yaml", NULL, 0, &out);
    if (c == NULL)
        tap_bail("%.*s", (int)buf_len(&out), buf_slice(&out).p);
    if (pairs != NULL)
        c->tls_sni_cert_key = pairs;
    if (asks_as != 0 && seteuid(asks_as) != 0)
        tap_bail("seteuid");
    good = preflight_files(c, user, &out);
    if (asks_as != 0 && seteuid(0) != 0)
        tap_bail("seteuid");
    (void)snprintf(findings, sizeof(findings), "%.*s", (int)buf_len(&out), buf_len(&out) > 0 ? buf_slice(&out).p : "");
    buf_free(&out);
    config_free(c);
    return good;
}

static unsigned times(const char *words)
{
    unsigned n = 0;

    for (const char *p = findings; (p = strstr(p, words)) != NULL; p++)
        n++;
    return n;
}

/* Each folder that he may not search is said once, and each file that he cannot read. */
static void of_the_service(void)
{
    char whole[256], want[1024];
    struct config none = {.origins = NULL};
    struct buf out;

    if (geteuid() != 0) {
        tap_skip("only root can find that out", "what the service's user may read");
        return;
    }
    ok(looks("open", "open", NULL, "mvproxy"), "he can read all: %s", findings);
    is_str(findings, "", "nothing to say");
    ok(!looks("closed", "closed", NULL, "mvproxy"), "both files are in a closed folder");
    (void)snprintf(want, sizeof(want), "the user mvproxy, as whom the service runs, may not search %s/closed, where ",
                   folder());
    is_u64(times(want), 1, "said once: %s", findings);
    is_u64(times("\n"), 1, "and nothing else");
    (void)snprintf(want, sizeof(want), "server.crt is: setfacl -m u:mvproxy:x %s/closed\n", folder());
    is_u64(times(want), 1, "what to do about it");
    ok(!looks("closed", "shut", NULL, "mvproxy"), "in two closed folders");
    is_u64(times("may not search"), 2, "each is said: %s", findings);
    ok(!looks("open", "secret", NULL, "mvproxy"), "a file of root's");
    is_u64(times("cannot read"), 1, "is said: %s", findings);
    is_u64(times("secret/server.key (Permission denied): setfacl -m u:mvproxy:r "), 1, "what to do about it");
    ok(looks("closed", "secret", NULL, NULL) && looks("closed", "secret", NULL, "somebody"), "nobody is known");
    is_str(findings, "", "and nothing is said");

    (void)snprintf(whole, sizeof(whole), "%s/closed/server.crt", folder());
    buf_init(&out, ROOM);
    ok(!preflight_itself(&none, whole, "mvproxy", &out), "the configuration itself in a closed folder");
    (void)snprintf(want, sizeof(want),
                   "%s: the user mvproxy, as whom the service runs, may not search %s/closed: setfacl -m u:mvproxy:x "
                   "%s/closed\n",
                   whole, folder(), folder());
    is_slice(buf_slice(&out), want, "is said");
    buf_free(&out);
}

/* Who is not root knows it of himself, and of nobody else. */
static void of_oneself(void)
{
    char want[1024];

    if (geteuid() != 0) {
        tap_skip("only root can play others", "what one may read oneself");
        return;
    }
    asks_as = NOBODY;
    ok(looks("open", "open", NULL, "mvproxy"), "he can read all: %s", findings);
    is_str(findings, "", "nothing to say");
    ok(!looks("open", "secret", NULL, "mvproxy"), "a file of root's");
    (void)snprintf(want, sizeof(want), "the user mvproxy, as whom the service runs, cannot read %s/secret/server.key ",
                   folder());
    is_u64(times(want), 1, "is said: %s", findings);
    is_u64(times("\n"), 1, "and nothing else");
    ok(!looks("closed", "closed", NULL, "mvproxy"), "a closed folder");
    (void)snprintf(want, sizeof(want), "the user mvproxy, as whom the service runs, may not search %s/closed, where ",
                   folder());
    is_u64(times(want), 1, "is said once: %s", findings);
    ok(!looks("open", "secret", NULL, "somebody"), "whoever the service runs as");
    is_u64(times("secret/server.key: Permission denied: run this as root, or let the user that runs it read the file"),
           1, "he cannot tell: %s", findings);
    asks_as = 1;
    ok(!looks("open", "secret", NULL, "mvproxy"), "another one");
    is_u64(times("secret/server.key: Permission denied: run this as root, or let the user that runs it read the file"),
           1, "can neither: %s", findings);
    ok(looks("open", "open", NULL, "mvproxy"), "all can be read by all: %s", findings);
    asks_as = 0;
}

static void further_pairs(void)
{
    static const char *const pairs[] = {"open/server.key,open/server.key", "nonsense",
                                        "open/server.crt,open/server.key", NULL};

    ok(!looks("open", "open", pairs, NULL), "a key in place of a certificate");
    is_str(findings,
           "warning: tls-sni-cert-key: open/server.key is looked for in the folder that mvproxy starts in, which for "
           "the service is /: give whole paths\ntls-sni-cert-key: open/server.key" SWAPPED,
           "what is no pair was said before");
}

int main(void)
{
    folder_certificates("a.issue('ca', 'ca', is_ca=True, eku='');"
                        "a.issue('server', 's', ca='ca', eku='serverAuth', sans=('kubernetes.default.svc',))");
    folder_enter();
    if (system("chmod 755 . && mkdir open closed shut secret && for d in open closed shut secret; do cp *.crt *.key "
               "$d; chmod 644 $d/*; done && chmod 755 open secret && chmod 700 closed shut && chmod 600 secret/*") != 0)
        tap_bail("cp");
    of_the_service();
    of_oneself();
    further_pairs();
    return tap_end();
}
