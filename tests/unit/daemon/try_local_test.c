/* SPDX-License-Identifier: Apache-2.0 */
/* What is found out by one question to the local API server: an option is wrong only where its answer shows that. */
#include "daemon/try_local.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/config_load.h"
#include "lib/folder.h"
#include "lib/tap.h"

enum { ROOM = 1 << 14 };

/* Serves one connection, in plain or with this pair, after it has said on which port. */
static const char server[] =
    "import socket, ssl, sys\n"
    "s = socket.create_server(('127.0.0.1', 0))\n"
    "s.settimeout(20)\n"
    "print(s.getsockname()[1], flush=True)\n"
    "c = s.accept()[0]\n"
    "if sys.argv[1] != 'plain':\n"
    "    t = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n"
    "    t.load_cert_chain(sys.argv[1] + '.crt', sys.argv[1] + '.key')\n"
    "    try: c = t.wrap_socket(c, server_side=True)\n"
    "    except (ssl.SSLError, OSError): sys.exit()\n"
    "try:\n"
    "    c.recv(10000)\n"
    "    c.sendall(b'HTTP/1.1 ' + sys.argv[2].encode() + b' X\\r\\nContent-Length: 2\\r\\n\\r\\n{}')\n"
    "    c.recv(10000)\n"
    "except (ssl.SSLError, OSError): pass\n";

/* The option that is wrong; NULL: none. `at` gets the server's URL. */
static const char *asked(const char *what, char at[64], struct err *err)
{
    char command[128], text[512], port[16] = "";
    FILE *of_server = NULL;
    struct config *c;
    struct trust trust;
    struct buf errors;
    const char *wrong;

    (void)snprintf(command, sizeof(command), "python3 server.py %s", what);
    if (what[0] != '\0') {
        of_server = popen(command, "r");
        if (of_server == NULL || fgets(port, sizeof(port), of_server) == NULL)
            tap_bail("no server");
        port[strcspn(port, "\n")] = '\0';
    }
    (void)snprintf(at, 64, "https://127.0.0.1:%s", port[0] == '\0' ? "1" : port);
    (void)snprintf(text, sizeof(text),
                   "tls-cert-file: server.crt\ntls-private-key-file: server.key\napiserver-ca-file: ca.crt\n"
                   "bind-address: 10.0.0.9\napiserver: %s\n",
                   at);
    folder_write("mvproxy.yaml", text);
    buf_init(&errors, ROOM);
    c = config_load("mvproxy.yaml", NULL, 0, &errors);
    if (c == NULL || !trust_load(c, &trust, &errors))
        tap_bail("%.*s", (int)buf_len(&errors), buf_slice(&errors).p);
    err_clear(err);
    wrong = try_local(c, &trust, err);
    trust_free(&trust);
    config_free(c);
    buf_free(&errors);
    if (of_server != NULL)
        (void)pclose(of_server);
    return wrong;
}

static const struct {
    const char *name, *what, *option, *begins, *ends; /* @: where it is */
} rows[] = {
    {"nobody", "", NULL, "kube-apiserver does not answer at @ (", "): is that the right address, and is it up?"},
    {"a server", "server 200", NULL, "", ""},
    {"one that refuses", "server 403", NULL, "", ""},
    {"not by TLS", "plain 400", "apiserver",
     "what answers at @ does not speak TLS: ", ": give kube-apiserver's own address and --secure-port"},
    {"of another CA", "foreign 200", "apiserver-ca-file", "the certificate that @ shows is not believed (",
     "): give the CA that has signed kube-apiserver's --tls-cert-file, and see that apiserver-tls-server-name is one "
     "of "
     "its names"},
    {"expired", "old 200", "apiserver-ca-file", "the certificate that @ shows is not believed (",
     "): renew it, or set the clock of this machine"},
    {"not valid yet", "early 200", "apiserver-ca-file", "the certificate that @ shows is not believed (",
     "): renew it, or set the clock of this machine"},
};

static bool is_whole(const char *text, size_t i, const char *at)
{
    char begins[256];
    const char *mark = strchr(rows[i].begins, '@');
    size_t n = strlen(text), ends = strlen(rows[i].ends);

    if (mark == NULL)
        return text[0] == '\0';
    (void)snprintf(begins, sizeof(begins), "%.*s%s%s", (int)(mark - rows[i].begins), rows[i].begins, at, mark + 1);
    return strncmp(text, begins, strlen(begins)) == 0 && n >= ends && strcmp(text + n - ends, rows[i].ends) == 0;
}

int main(void)
{
    folder_certificates("kube = dict(ca='ca', eku='serverAuth', sans=('kubernetes.default.svc',))\n"
                        "a.issue('ca', 'ca', is_ca=True, eku='')\n"
                        "a.issue('other-ca', 'other', is_ca=True, eku='')\n"
                        "a.issue('server', 's', **kube)\n"
                        "a.issue('old', 's', start='20200101000000Z', end='20210101000000Z', **kube)\n"
                        "a.issue('early', 's', start='20400101000000Z', end='20410101000000Z', **kube)\n"
                        "a.issue('foreign', 's', **dict(kube, ca='other-ca'))\n");
    folder_enter();
    folder_write("server.py", server);
    for (size_t i = 0; i < ROWS(rows); i++) {
        char at[64];
        struct err err;

        is_str(asked(rows[i].what, at, &err), rows[i].option, "%s", rows[i].name);
        ok(is_whole(err.text, i, at), "%s: said: %s", rows[i].name, err.text);
    }
    return tap_end();
}
