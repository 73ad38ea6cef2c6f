/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/show.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "ctl/fields.h"
#include "ctl/show_skew.h"
#include "ctl/table.h"

static void make_text_printable(struct json_object *o)
{
    const char *text = json_object_get_string(o);
    char *copy = must_strdup(text);

    utf8_make_printable(copy);
    (void)json_object_set_string(o, copy);
    mem_free(copy);
}

static void make_printable(struct json_object *o)
{
    if (json_object_is_type(o, json_type_string))
        make_text_printable(o);
    else
        show_printable(o);
}

void show_printable(struct json_object *result)
{
    if (json_object_is_type(result, json_type_object)) {
        json_object_object_foreach(result, name, value)
        {
            (void)name;
            make_printable(value);
        }
    }
    for (size_t i = 0; json_object_is_type(result, json_type_array) && i < field_count(result); i++)
        make_printable(json_object_array_get_idx(result, i));
}

void show_json(struct slice text, FILE *out)
{
    while (text.n > 0) {
        uint32_t code = 0;
        size_t n = utf8_next(text, &code);

        if (n > 0 && utf8_unprintable(code) && code != '\n')
            fprintf(out, "\\u%04x", code);
        else
            fwrite(n == 0 ? "?" : text.p, 1, n == 0 ? 1 : n, out);
        text = slice_from(text, n == 0 ? 1 : n);
    }
    fputc('\n', out);
}

/* ---- status, peers ---- */

static void headline(const char *colour, const char *what, const char *rest)
{
    printf("%s%s%s%s\n", colour, what, colour[0] == '\0' ? "" : table_no_colour(), rest);
}

static enum table_mood mood_of(struct json_object *server)
{
    const char *mood = field_text(server, "mood");

    return strcmp(mood, "good") == 0 ? TABLE_GOOD : strcmp(mood, "warning") == 0 ? TABLE_WARNING : TABLE_BAD;
}

/* The age of something that may not be there. */
static void add_age(struct table *t, struct json_object *s, const char *name, const char *without)
{
    char age[32];

    if (field(s, name) == NULL)
        table_cell(t, TABLE_PLAIN, "%s", without);
    else
        table_cell(t, TABLE_PLAIN, "%s", field_duration(field_number(s, name), age, sizeof(age)));
}

static void add_error(struct table *t, struct json_object *s)
{
    enum table_mood mood = field_truth(s, "failing")          ? TABLE_BAD
                           : field_truth(s, "outlierEjected") ? TABLE_WARNING
                                                              : TABLE_PLAIN;
    double seconds = field_number(s, "lastErrorAgeSeconds"), outage = field_number(s, "answersSeconds");
    char age[32], whole[32];

    if (field_text(s, "lastError")[0] == '\0')
        table_cell(t, TABLE_PLAIN, "%s", "");
    else if (strcmp(field_text(s, "answers"), "unreachable") == 0 && outage > seconds + 1)
        table_cell(t, mood, "%s (no answer for %s)", field_text(s, "lastError"),
                   field_duration(outage, whole, sizeof(whole)));
    else
        table_cell(t, mood, mood == TABLE_PLAIN ? "%s (%s ago)" : "%s (for %s)", field_text(s, "lastError"),
                   field_duration(field_number(s, "lastErrorAgeSeconds"), age, sizeof(age)));
}

static void add_server(struct table *t, struct json_object *s)
{
    const char *emulated = field_text(s, "emulatedVersion"), *address = field_text(s, "address");
    const char *mvproxy = field_text(s, "mvproxyVersion");

    table_cell(t, TABLE_PLAIN, "%s", field_text(s, "hostname"));
    table_cell(t, mood_of(s), "%s", field_text(s, "state"));
    table_cell(t, TABLE_PLAIN, "%s%s%s", field_text(s, "version"), emulated[0] == '\0' ? "" : " as ", emulated);
    table_cell(t, TABLE_PLAIN, "%s",
               field_truth(s, "local") ? "this one"
               : !field_truth(s, "hasMvproxy")
                   ? (field_truth(s, "failing") || !field_truth(s, "discoveryKnown") ? "unknown" : "none")
               : mvproxy[0] == '\0' ? "yes"
                                    : mvproxy);
    table_cell(t, address[0] == '\0' ? TABLE_BAD : TABLE_PLAIN, "%s", address[0] == '\0' ? "none" : address);
    table_cell(t, TABLE_PLAIN, "%s", field_text(s, "addressSource"));
    add_age(t, s, "leaseAgeSeconds", "none");
    add_age(t, s, "discoveryAgeSeconds", "unread");
    table_cell(t, TABLE_PLAIN, "%.0f/%.0f", field_number(s, "groups"), field_number(s, "resources"));
    table_cell(t, TABLE_PLAIN, "%.0f", field_number(s, "requestsInFlight"));
    add_error(t, s);
}

static void print_servers(struct json_object *servers)
{
    static const char *const columns[] = {"SERVER", "STATE",     "VERSION",          "MVPROXY",   "ADDRESS",    "FROM",
                                          "LEASE",  "DISCOVERY", "GROUPS/RESOURCES", "IN FLIGHT", "LAST ERROR", NULL};
    struct table *t = table_new(columns);

    for (size_t i = 0; i < field_count(servers); i++)
        add_server(t, json_object_array_get_idx(servers, i));
    table_print(t);
}

static void print_listeners(struct json_object *list)
{
    fputs("Listening:  ", stdout);
    for (size_t i = 0; i < field_count(list); i++)
        printf("%s%s", i == 0 ? "" : ", ", field_item(list, i) == NULL ? "" : field_item(list, i));
    putchar('\n');
}

static void print_failing(struct json_object *failing)
{
    for (size_t i = 0; i < field_count(failing); i++) {
        struct json_object *one = json_object_array_get_idx(failing, i);

        printf("  %s: %s\n    Look at: %s\n", field_text(one, "check"), field_text(one, "reason"),
               field_text(one, "look"));
    }
}

static void print_refused(struct json_object *config, const char *name, const char *since, const char *what)
{
    char age[32];

    if (field_text(config, name)[0] != '\0')
        printf("  %s%s%s for %s: %s\n", table_colour(TABLE_BAD), what, table_no_colour(),
               field_duration(field_number(config, since), age, sizeof(age)), field_text(config, name));
}

/* Those that want renewal: all others are `mvproxyctl certs`. */
static void print_expiring(struct json_object *list)
{
    char left[32];

    for (size_t i = 0; i < field_count(list); i++) {
        struct json_object *c = json_object_array_get_idx(list, i);
        double rest = field_number(c, "remainingSeconds");

        if (!field_truth(c, "endsSoon"))
            continue;
        printf("  %scertificate %s%s%s: %s %s\n", table_colour(rest <= 0 ? TABLE_BAD : TABLE_WARNING),
               rest <= 0 ? "has expired" : "expires in ", rest <= 0 ? "" : field_duration(rest, left, sizeof(left)),
               table_no_colour(), field_text(c, "option"), field_text(c, "file"));
    }
}

static void print_next_to_end(struct json_object *list)
{
    struct json_object *next = NULL;
    char left[32];

    for (size_t i = 0; i < field_count(list); i++) {
        struct json_object *c = json_object_array_get_idx(list, i);

        if (field_number(c, "remainingSeconds") > 0 &&
            (next == NULL || field_number(c, "remainingSeconds") < field_number(next, "remainingSeconds")))
            next = c;
    }
    if (next != NULL)
        printf("Certs:      the next to end is that of %s, in %s\n", field_text(next, "option"),
               field_duration(field_number(next, "remainingSeconds"), left, sizeof(left)));
}

/* What is to be known although it is ready. */
static void print_notices(struct json_object *list)
{
    for (size_t i = 0; i < field_count(list); i++)
        printf("%s%s.%s\n", table_colour(TABLE_WARNING), field_item(list, i) == NULL ? "" : field_item(list, i),
               table_no_colour());
}

enum { MIB = 1 << 20 };

static void print_process(struct json_object *result)
{
    struct json_object *config = field(result, "config"), *cluster = field(result, "cluster");
    char up[32];

    printf("\nServer:     %s (%s)\nVersion:    %s, %s, pid %.0f, up %s\n", field_text(result, "hostname"),
           field_text(cluster, "serverID"), field_text(result, "version"), field_text(result, "phase"),
           field_number(result, "pid"), field_duration(field_number(result, "upSeconds"), up, sizeof(up)));
    print_listeners(field(result, "listeners"));
    printf("Traffic:    %.0f ", field_number(result, "connections"));
    if (field_number(result, "maxConnections") > 0)
        printf("of %.0f ", field_number(result, "maxConnections"));
    printf("connections, %.0f requests, %.0f tunnels", field_number(result, "requestsInFlight"),
           field_number(result, "tunnels"));
    if (field(result, "clientMemoryLimitBytes") != NULL)
        printf(", %.0f of %.0f MiB held for clients", field_number(result, "clientMemoryBytes") / MIB,
               field_number(result, "clientMemoryLimitBytes") / MIB);
    putchar('\n');
    printf("Skew:       %s\n", field_text(field(result, "skew"), "summary"));
    show_newest(field(result, "skew"), cluster, "            ");
    printf("Failover:   %s\n", field_text(cluster, "localFailover"));
    printf("Records:    %s\n", field_text(cluster, "endpointRecords"));
    printf("Config:     %s\n",
           field_text(config, "file")[0] == '\0' ? "defaults and command line" : field_text(config, "file"));
    print_refused(config, "lastReloadRefused", "lastReloadRefusedSeconds", "last reload refused");
    if (field_text(config, "lastReloadRefused")[0] != '\0')
        printf("    once that is mended: mvproxyctl reload\n");
    print_refused(config, "lastFilesRefused", "lastFilesRefusedSeconds",
                  strstr(field_text(config, "lastFilesRefused"), "egress-selector-config-file") != NULL
                      ? "changed egress configuration refused"
                      : "changed certificate files refused");
    print_next_to_end(field(result, "certificates"));
    print_expiring(field(result, "certificates"));
}

enum { CHANGES_SHOWN = 10 };

/* The latest first. */
static void print_changes(struct json_object *list, const char *title)
{
    static const char *const columns[] = {"TIME", "WHAT", "WHO", "HOW", NULL};
    struct table *t;

    if (field_count(list) == 0)
        return;
    printf("\n%s\n", title);
    t = table_new(columns);
    for (size_t i = 0; i < field_count(list) && i < CHANGES_SHOWN; i++) {
        struct json_object *c = json_object_array_get_idx(list, i);
        const char *kind = field_text(c, "kind");

        table_cell(t, TABLE_PLAIN, "%.19sZ", field_text(c, "time"));
        table_cell(t, strcmp(kind, "failed") == 0 ? TABLE_BAD : TABLE_PLAIN, "%s", kind);
        table_cell(t, TABLE_PLAIN, "%s", field_text(c, "subject"));
        if (field_number(c, "times") > 1)
            table_cell(t, TABLE_PLAIN, "%s (%.0f times)", field_text(c, "text"), field_number(c, "times"));
        else
            table_cell(t, TABLE_PLAIN, "%s", field_text(c, "text"));
    }
    table_print(t);
}

bool show_status(struct json_object *result)
{
    bool ready = field_truth(result, "ready");

    headline(table_colour(ready ? TABLE_GOOD : TABLE_BAD), ready ? "Ready" : "Not ready", "");
    print_failing(field(result, "notReady"));
    print_notices(field(result, "notices"));
    print_process(result);
    putchar('\n');
    print_servers(field(result, "servers"));
    print_changes(field(result, "changes"), "Recent changes:");
    print_changes(field(result, "disbelieved"), "Not believed:");
    return ready;
}

bool show_peers(struct json_object *result)
{
    print_servers(field(result, "servers"));
    return true;
}

/* ---- explain ---- */

static void add_state(struct table *t, struct json_object *one)
{
    bool good = field_truth(one, "answers") && field_truth(one, "healthy") && !field_truth(one, "drained");
    const char *error = field_text(one, "lastError");
    char age[32];

    table_cell(t, good ? TABLE_GOOD : TABLE_WARNING, "%s", field_text(one, "state"));
    if (error[0] == '\0')
        table_cell(t, TABLE_PLAIN, "-");
    else
        table_cell(t, TABLE_PLAIN, field_truth(one, "failing") ? "for %s: %s" : "%s ago: %s",
                   field_duration(field_number(one, "lastErrorAgeSeconds"), age, sizeof(age)), error);
}

static void print_denial(struct json_object *server)
{
    char age[32];

    if (field(server, "disbelievedSeconds") != NULL)
        printf("\n%s answered 404 for this %s ago, though its discovery lists it. That is not believed: if it does so "
               "again and no\n"
               "other server has it, the client gets 503.\n",
               field_text(server, "server"),
               field_duration(field_number(server, "disbelievedSeconds"), age, sizeof(age)));
}

static void print_candidates(struct json_object *list)
{
    static const char *const columns[] = {"PEER", "ADDRESS", "STATE", "LAST ERROR", NULL};
    struct table *t;

    if (field_count(list) == 0)
        return;
    t = table_new(columns);
    for (size_t i = 0; i < field_count(list); i++) {
        struct json_object *one = json_object_array_get_idx(list, i);

        table_cell(t, TABLE_PLAIN, "%s", field_text(one, "server"));
        table_cell(t, TABLE_PLAIN, "%s", field_text(one, "address"));
        add_state(t, one);
    }
    putchar('\n');
    table_print(t);
    for (size_t i = 0; i < field_count(list); i++)
        print_denial(json_object_array_get_idx(list, i));
}

#define LOCAL_SILENT "Goes to the local server, which does not answer: 503, or none while it hangs"

/* Where it goes; and what the client sees if nobody there answers. */
static void print_verdict(struct json_object *result)
{
    static const struct {
        const char *action, *answered, *unanswered;
    } verdicts[] = {
        {"local", "Goes to the local server", LOCAL_SILENT},
        {"peer", "Goes to a peer", "Goes to a peer, and none of them answers: 503, or none while they hang"},
        {"discovery", "Is answered with merged discovery, or by a server",
         "No server answers who could say who may read it: 503"},
        {"heal by a peer", "Goes to a peer in place of the local server, and is completed with what others have",
         "Goes to a peer in place of the local server, and none of them answers: 503"},
        {"heal", "Goes to the local server, whose answer is completed with what peers have", LOCAL_SILENT},
        {"refuse", "", "Is refused with 503"},
    };
    bool answered = field_truth(result, "answered");
    const char *unauthorized = field_text(result, "unauthorized"), *action = field_text(result, "action");

    if (unauthorized[0] != '\0') {
        headline(table_colour(TABLE_BAD), "Is answered with 401: ", unauthorized);
        return;
    }
    if (strcmp(action, "heal") == 0 && field_count(field(result, "candidates")) > 0)
        action = "heal by a peer";
    for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++)
        if (strcmp(action, verdicts[i].action) == 0)
            headline(table_colour(answered ? TABLE_GOOD : TABLE_BAD),
                     answered ? verdicts[i].answered : verdicts[i].unanswered, "");
}

static void print_local(struct json_object *local)
{
    const char *error = field_text(local, "lastError");
    char age[32];

    printf("Local:      %s, %s", field_text(local, "server"), field_text(local, "state"));
    if (!field_truth(local, "answers") && error[0] != '\0')
        printf(" (for %s: %s)", field_duration(field_number(local, "lastErrorAgeSeconds"), age, sizeof(age)), error);
    putchar('\n');
}

static void print_request(struct json_object *result)
{
    const char *group = field_text(result, "group"), *sub = field_text(result, "subresource"),
               *name = field_text(result, "name");

    if (!field_truth(result, "resourceRequest")) {
        printf("Request:    %s %s\n", field_text(result, "verb"), field_text(result, "path"));
        return;
    }
    printf("Request:    %s %s%s%s in %s%s%s%s%s%s\n", field_text(result, "verb"), field_text(result, "resource"),
           sub[0] == '\0' ? "" : "/", sub, group, group[0] == '\0' ? "" : "/", field_text(result, "version"),
           name[0] == '\0' ? "" : ", name ", name, field_truth(result, "longRunning") ? ", long-running" : "");
}

static void warn_if_said(const char *what, const char *text)
{
    if (text[0] != '\0')
        headline(table_colour(TABLE_WARNING), what, text);
}

bool show_explain(struct json_object *result)
{
    print_verdict(result);
    printf("  %s\n\nRow:        %s\n", field_text(result, "reason"), field_text(result, "row"));
    if (strcmp(field_text(result, "action"), "refuse") == 0)
        printf("Message:    %s\n", field_text(result, "message"));
    print_request(result);
    printf("Identity:   %s\n", field_text(result, "identity"));
    warn_if_said("In doubt:   the API servers believe otherwise: ", field_text(result, "doubted"));
    warn_if_said("Peers:      cannot be asked: ", field_text(result, "noPeers"));
    print_local(field(result, "localServer"));
    print_candidates(field(result, "candidates"));
    return true;
}

/* ---- the others ---- */

enum { PATH_SHOWN = 400 };

static void add_path(struct table *t, struct json_object *request)
{
    const char *path = field_text(request, "path");
    double bytes = field(request, "pathBytes") == NULL ? (double)strlen(path) : field_number(request, "pathBytes");

    if (bytes > PATH_SHOWN)
        table_cell(t, TABLE_PLAIN, "%.*s... (%.0f bytes)", PATH_SHOWN, path, bytes);
    else
        table_cell(t, TABLE_PLAIN, "%s%s", path, field_truth(request, "pathHasParameters") ? ";..." : "");
}

static void add_request(struct table *t, struct json_object *r)
{
    char age[32];

    table_cell(t, TABLE_PLAIN, "%s", field_duration(field_number(r, "ageSeconds"), age, sizeof(age)));
    table_cell(t, TABLE_PLAIN, "%s", field_text(r, "verb"));
    table_cell(t, TABLE_PLAIN, "%s", field_text(r, "client"));
    table_cell(t, TABLE_PLAIN, "%s", field_text(r, "user"));
    table_cell(t, TABLE_PLAIN, "%s", field_text(r, "server"));
    table_cell(t, TABLE_PLAIN, "%s", field_text(r, "state"));
    table_cell(t, TABLE_PLAIN, "%s", field_text(r, "row"));
    table_cell(t, TABLE_PLAIN, "%.0f", field_number(r, "bytesOut"));
    add_path(t, r);
}

bool show_requests(struct json_object *result)
{
    static const char *const columns[] = {"AGE",   "VERB", "CLIENT", "USER", "SERVER",
                                          "STATE", "ROW",  "OUT",    "PATH", NULL};
    struct json_object *list = field(result, "requests");
    struct table *t = table_new(columns);

    for (size_t i = 0; i < field_count(list); i++)
        add_request(t, json_object_array_get_idx(list, i));
    table_print(t);
    if (field_number(result, "notShown") > 0)
        printf("\n%.0f more are not shown.\n", field_number(result, "notShown"));
    return true;
}

static void print_lines(struct json_object *list)
{
    for (size_t i = 0; i < field_count(list); i++)
        fprintf(stderr, "  %s\n", field_item(list, i) == NULL ? "" : field_item(list, i));
}

bool show_reload(struct json_object *result)
{
    if (field_truth(result, "reloaded")) {
        puts("Reloaded.");
        print_lines(field(result, "warnings"));
        return true;
    }
    fprintf(stderr, "mvproxyctl: refused, the running configuration stays:\n");
    print_lines(field(result, "errors"));
    return false;
}

bool show_level(struct json_object *result)
{
    printf("%.0f\n", field_number(result, "level"));
    return true;
}

bool show_config(struct json_object *result)
{
    static const char *const columns[] = {"OPTION", "VALUE", "ORIGIN", NULL};
    struct table *t = table_new(columns);

    for (size_t i = 0; i < field_count(result); i++) {
        struct json_object *o = json_object_array_get_idx(result, i);

        table_cell(t, TABLE_PLAIN, "%s", field_text(o, "name"));
        table_cell(t, TABLE_PLAIN, "%s", field_text(o, "value"));
        table_cell(t, TABLE_PLAIN, "%s", field_text(o, "origin"));
    }
    table_print(t);
    return true;
}

bool show_certs(struct json_object *result)
{
    static const char *const columns[] = {"OPTION", "NOT AFTER", "REMAINING", "FILE", NULL};
    struct table *t = table_new(columns);
    bool good = true;
    char left[32];

    for (size_t i = 0; i < field_count(result); i++) {
        struct json_object *c = json_object_array_get_idx(result, i);
        double rest = field_number(c, "remainingSeconds");

        table_cell(t, TABLE_PLAIN, "%s", field_text(c, "option"));
        table_cell(t, TABLE_PLAIN, "%s", field_text(c, "notAfter"));
        table_cell(t,
                   !(rest > 0)                  ? TABLE_BAD /* also if it is no number */
                   : field_truth(c, "endsSoon") ? TABLE_WARNING
                                                : TABLE_GOOD,
                   "%s", rest > 0 ? field_duration(rest, left, sizeof(left)) : "expired");
        table_cell(t, TABLE_PLAIN, "%s", field_text(c, "file"));
        good = good && rest > 0;
    }
    table_print(t);
    return good;
}

bool show_drain(struct json_object *result)
{
    const char *peer = field_text(result, "peer"), *id = field_text(result, "id");

    if (field_truth(result, "drained"))
        printf("Drained: %s (%s) gets no new requests while another server can have them; %.0f are under way there.\n",
               peer, id, field_number(result, "requestsInFlight"));
    else
        printf("Not drained: %s (%s) gets requests again.\n", peer, id);
    return true;
}

bool show_refreshed(struct json_object *servers, bool all_read, bool json)
{
    bool well = all_read;

    if (json) {
        show_json(slice_str(json_object_to_json_string_ext(servers,
                                                           JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE)),
                  stdout);
    } else {
        show_printable(servers);
        print_servers(servers);
    }
    for (size_t i = 0; i < field_count(servers); i++) {
        struct json_object *one = json_object_array_get_idx(servers, i);

        well = well && !field_truth(one, "failing") && field_text(one, "address")[0] != '\0';
    }
    if (!all_read)
        fputs("mvproxyctl: not all of them have answered yet\n", stderr);
    return well;
}

bool show_version(struct json_object *result)
{
    printf("mvproxy %s\n", field_text(result, "version"));
    return true;
}

/* Line by line. Labels have names that other servers chose, and what a program reads may end on a terminal. */
bool show_metrics(struct json_object *result)
{
    struct slice rest = slice_str(field_composed(result) ? "" : json_object_get_string(result)), line;

    while (slice_split(&rest, '\n', &line)) {
        char *copy = must_zalloc(line.n + 1);

        memcpy(copy, line.p, line.n);
        utf8_make_printable(copy);
        printf("%s%s", copy, rest.p == NULL ? "" : "\n");
        mem_free(copy);
    }
    return true;
}
