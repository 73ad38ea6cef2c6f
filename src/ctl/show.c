/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/show.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "ctl/table.h"

enum { DAY_S = 86400 };

static struct json_object *get(struct json_object *o, const char *name)
{
    struct json_object *v = NULL;

    return json_object_is_type(o, json_type_object) && json_object_object_get_ex(o, name, &v) ? v : NULL;
}

/* What is no text is none: as one it would bring the names of its members along, whatever is in them. */
static bool is_composed(struct json_object *o)
{
    return json_object_is_type(o, json_type_object) || json_object_is_type(o, json_type_array);
}

static const char *text(struct json_object *o, const char *name)
{
    struct json_object *v = get(o, name);

    return v == NULL || is_composed(v) ? "" : json_object_get_string(v);
}

static double number(struct json_object *o, const char *name)
{
    struct json_object *v = get(o, name);

    return v == NULL ? 0 : json_object_get_double(v);
}

static bool truth(struct json_object *o, const char *name)
{
    struct json_object *v = get(o, name);

    return v != NULL && json_object_get_boolean(v);
}

static size_t count(struct json_object *list)
{
    return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
}

/* Of a list that may be none, as get() is of what may be no object. NULL: it is no text. */
static const char *item(struct json_object *list, size_t i)
{
    struct json_object *o = i < count(list) ? json_object_array_get_idx(list, i) : NULL;

    return o == NULL || is_composed(o) ? NULL : json_object_get_string(o);
}

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
    for (size_t i = 0; json_object_is_type(result, json_type_array) && i < count(result); i++)
        make_printable(json_object_array_get_idx(result, i));
}

void show_json(struct slice text)
{
    while (text.n > 0) {
        uint32_t code = 0;
        size_t n = utf8_next(text, &code);

        if (n > 0 && utf8_unprintable(code) && code != '\n')
            printf("\\u%04x", code);
        else
            fwrite(n == 0 ? "?" : text.p, 1, n == 0 ? 1 : n, stdout);
        text = slice_from(text, n == 0 ? 1 : n);
    }
    putchar('\n');
}

/* "3d4h", "5m10s", "0.4s": what a person wants of a duration. */
static const char *duration(double seconds, char *out, size_t size)
{
    long long s = (long long)seconds;

    if (seconds < 10)
        (void)snprintf(out, size, "%.1fs", seconds);
    else if (s < 120)
        (void)snprintf(out, size, "%llds", s);
    else if (s < 7200)
        (void)snprintf(out, size, "%lldm%llds", s / 60, s % 60);
    else if (s < 2 * DAY_S)
        (void)snprintf(out, size, "%lldh%lldm", s / 3600, s / 60 % 60);
    else
        (void)snprintf(out, size, "%lldd%lldh", s / DAY_S, s / 3600 % 24);
    return out;
}

/* ---- status, peers ---- */

static void headline(const char *colour, const char *what, const char *rest)
{
    printf("%s%s%s%s\n", colour, what, colour[0] == '\0' ? "" : table_no_colour(), rest);
}

static enum table_mood mood_of(struct json_object *server)
{
    const char *mood = text(server, "mood");

    return strcmp(mood, "good") == 0 ? TABLE_GOOD : strcmp(mood, "warning") == 0 ? TABLE_WARNING : TABLE_BAD;
}

/* The age of something that may not be there. */
static void add_age(struct table *t, struct json_object *s, const char *name, const char *without)
{
    char age[32];

    if (get(s, name) == NULL)
        table_cell(t, TABLE_PLAIN, "%s", without);
    else
        table_cell(t, TABLE_PLAIN, "%s", duration(number(s, name), age, sizeof(age)));
}

static void add_error(struct table *t, struct json_object *s)
{
    enum table_mood mood = truth(s, "failing") ? TABLE_BAD : truth(s, "outlierEjected") ? TABLE_WARNING : TABLE_PLAIN;
    double seconds = number(s, "lastErrorAgeSeconds"), outage = number(s, "answersSeconds");
    char age[32], whole[32];

    if (text(s, "lastError")[0] == '\0')
        table_cell(t, TABLE_PLAIN, "%s", "");
    else if (strcmp(text(s, "answers"), "unreachable") == 0 && outage > seconds + 1)
        table_cell(t, mood, "%s (since %s), no answer (for %s)", text(s, "lastError"),
                   duration(seconds, age, sizeof(age)), duration(outage, whole, sizeof(whole)));
    else
        table_cell(t, mood, mood == TABLE_PLAIN ? "%s (%s ago)" : "%s (for %s)", text(s, "lastError"),
                   duration(number(s, "lastErrorAgeSeconds"), age, sizeof(age)));
}

static void add_server(struct table *t, struct json_object *s)
{
    const char *emulated = text(s, "emulatedVersion"), *address = text(s, "address");
    const char *mvproxy = text(s, "mvproxyVersion");

    table_cell(t, TABLE_PLAIN, "%s", text(s, "hostname"));
    table_cell(t, mood_of(s), "%s", text(s, "state"));
    table_cell(t, TABLE_PLAIN, "%s%s%s", text(s, "version"), emulated[0] == '\0' ? "" : " as ", emulated);
    table_cell(t, TABLE_PLAIN, "%s",
               truth(s, "local")         ? "this one"
               : !truth(s, "hasMvproxy") ? "none"
               : mvproxy[0] == '\0'      ? "yes"
                                         : mvproxy);
    table_cell(t, address[0] == '\0' ? TABLE_BAD : TABLE_PLAIN, "%s", address[0] == '\0' ? "none" : address);
    table_cell(t, TABLE_PLAIN, "%s", text(s, "addressSource"));
    add_age(t, s, "leaseAgeSeconds", "none");
    add_age(t, s, "discoveryAgeSeconds", "unread");
    table_cell(t, TABLE_PLAIN, "%.0f/%.0f", number(s, "groups"), number(s, "resources"));
    table_cell(t, TABLE_PLAIN, "%.0f", number(s, "requestsInFlight"));
    add_error(t, s);
}

static void print_servers(struct json_object *servers)
{
    static const char *const columns[] = {"SERVER", "STATE",     "VERSION",          "MVPROXY",   "ADDRESS",    "FROM",
                                          "LEASE",  "DISCOVERY", "GROUPS/RESOURCES", "IN FLIGHT", "LAST ERROR", NULL};
    struct table *t = table_new(columns);

    for (size_t i = 0; i < count(servers); i++)
        add_server(t, json_object_array_get_idx(servers, i));
    table_print(t);
}

static void print_listeners(struct json_object *list)
{
    fputs("Listening:  ", stdout);
    for (size_t i = 0; i < count(list); i++)
        printf("%s%s", i == 0 ? "" : ", ", item(list, i) == NULL ? "" : item(list, i));
    putchar('\n');
}

static void print_failing(struct json_object *failing)
{
    for (size_t i = 0; i < count(failing); i++) {
        struct json_object *one = json_object_array_get_idx(failing, i);

        printf("  %s: %s\n    Look at: %s\n", text(one, "check"), text(one, "reason"), text(one, "look"));
    }
}

static void print_refused(struct json_object *config, const char *name, const char *since, const char *what)
{
    char age[32];

    if (text(config, name)[0] != '\0')
        printf("  %s%s%s for %s: %s\n", table_colour(TABLE_BAD), what, table_no_colour(),
               duration(number(config, since), age, sizeof(age)), text(config, name));
}

/* Those that want renewal: all others are `mvproxyctl certs`. */
static void print_expiring(struct json_object *list)
{
    char left[32];

    for (size_t i = 0; i < count(list); i++) {
        struct json_object *c = json_object_array_get_idx(list, i);
        double rest = number(c, "remainingSeconds");

        if (!truth(c, "endsSoon"))
            continue;
        printf("  %scertificate %s%s%s: %s %s\n", table_colour(rest <= 0 ? TABLE_BAD : TABLE_WARNING),
               rest <= 0 ? "has expired" : "expires in ", rest <= 0 ? "" : duration(rest, left, sizeof(left)),
               table_no_colour(), text(c, "option"), text(c, "file"));
    }
}

static void print_process(struct json_object *result)
{
    struct json_object *config = get(result, "config"), *cluster = get(result, "cluster"), *skew = get(result, "skew");
    char up[32];

    printf("\nServer:     %s (%s)\nVersion:    %s, %s, pid %.0f, up %s\n", text(result, "hostname"),
           text(cluster, "serverID"), text(result, "version"), text(result, "phase"), number(result, "pid"),
           duration(number(result, "upSeconds"), up, sizeof(up)));
    print_listeners(get(result, "listeners"));
    printf("Traffic:    %.0f connections, %.0f requests, %.0f tunnels\n", number(result, "connections"),
           number(result, "requestsInFlight"), number(result, "tunnels"));
    printf("Skew:       %.0f of %.0f group/versions are not the same on all servers",
           number(skew, "groupVersionsUneven"), number(skew, "groupVersions"));
    if (get(skew, "groupVersionsUnevenSeconds") != NULL)
        printf(" (for %s)", duration(number(skew, "groupVersionsUnevenSeconds"), up, sizeof(up)));
    printf(", the schemas of %zu differ", count(get(skew, "schemasDiffer")));
    if (get(skew, "schemasDifferSeconds") != NULL)
        printf(" (for %s)", duration(number(skew, "schemasDifferSeconds"), up, sizeof(up)));
    putchar('\n');
    printf("Failover:   %s\n", text(cluster, "localFailover"));
    printf("Records:    %s\n", text(cluster, "endpointRecords"));
    printf("Config:     %s\n", text(config, "file")[0] == '\0' ? "defaults and command line" : text(config, "file"));
    print_refused(config, "lastReloadRefused", "lastReloadRefusedSeconds", "last reload refused");
    if (text(config, "lastReloadRefused")[0] != '\0')
        printf("    once that is mended: mvproxyctl reload\n");
    print_refused(config, "lastFilesRefused", "lastFilesRefusedSeconds", "changed certificate files refused");
    print_expiring(get(result, "certificates"));
}

enum { CHANGES_SHOWN = 10 };

/* The latest first. */
static void print_changes(struct json_object *list, const char *title)
{
    static const char *const columns[] = {"TIME", "WHAT", "WHO", "HOW", NULL};
    struct table *t;

    if (count(list) == 0)
        return;
    printf("\n%s\n", title);
    t = table_new(columns);
    for (size_t i = 0; i < count(list) && i < CHANGES_SHOWN; i++) {
        struct json_object *c = json_object_array_get_idx(list, i);
        const char *kind = text(c, "kind");

        table_cell(t, TABLE_PLAIN, "%.19sZ", text(c, "time"));
        table_cell(t, strcmp(kind, "failed") == 0 ? TABLE_BAD : TABLE_PLAIN, "%s", kind);
        table_cell(t, TABLE_PLAIN, "%s", text(c, "subject"));
        table_cell(t, TABLE_PLAIN, "%s", text(c, "text"));
    }
    table_print(t);
}

bool show_status(struct json_object *result)
{
    bool ready = truth(result, "ready");

    headline(table_colour(ready ? TABLE_GOOD : TABLE_BAD), ready ? "Ready" : "Not ready", "");
    print_failing(get(result, "notReady"));
    print_process(result);
    putchar('\n');
    print_servers(get(result, "servers"));
    print_changes(get(result, "changes"), "Recent changes:");
    print_changes(get(result, "disbelieved"), "Not believed:");
    return ready;
}

bool show_peers(struct json_object *result)
{
    print_servers(get(result, "servers"));
    return true;
}

/* ---- skew ---- */

static void add_skew_row(struct table *t, struct json_object *row, size_t n)
{
    struct json_object *by = get(row, "servedBy");
    const char *group = text(row, "group");

    table_cell(t, TABLE_PLAIN, "%s%s%s %s", group, group[0] == '\0' ? "" : "/", text(row, "version"),
               text(row, "resource"));
    for (size_t i = 0; i < n; i++) {
        const char *state = item(by, i);
        enum table_mood mood = state == NULL || state[0] == 'u' ? TABLE_PLAIN
                               : state[0] == 'y'                ? TABLE_GOOD
                                                                : TABLE_WARNING;

        table_cell(t, mood, "%s", state == NULL || state[0] == 'u' ? "?" : state);
    }
}

static void add_schema_row(struct table *t, struct json_object *row, size_t n)
{
    struct json_object *by = get(row, "byServer");
    const char *group = text(row, "group");

    table_cell(t, TABLE_PLAIN, "%s%s%s", group, group[0] == '\0' ? "" : "/", text(row, "version"));
    for (size_t i = 0; i < n; i++) {
        const char *variant = item(by, i);

        table_cell(t, variant == NULL || variant[0] == 'A' ? TABLE_PLAIN : TABLE_WARNING, "%s",
                   variant == NULL ? "" : variant);
    }
}

static void print_by_server(const char *title, struct json_object *rows, struct json_object *servers,
                            void (*add)(struct table *t, struct json_object *row, size_t n))
{
    size_t n = count(servers);
    const char **columns;
    struct table *t;

    if (count(rows) == 0)
        return;
    columns = must_zalloc((n + 2) * sizeof(columns[0]));
    columns[0] = title;
    for (size_t i = 0; i < n; i++)
        columns[i + 1] = json_object_get_string(json_object_array_get_idx(servers, i));
    t = table_new(columns);
    for (size_t i = 0; i < count(rows); i++)
        add(t, json_object_array_get_idx(rows, i), n);
    putchar('\n');
    table_print(t);
    mem_free(columns);
}

/* What of a list did not find room in the answer. */
static bool print_left_out(struct json_object *result)
{
    double rows = number(result, "rowsLeftOut");

    if (rows > 0)
        printf("\n%.0f more rows are not shown: there are too many.\n", rows);
    return rows > 0;
}

bool show_skew(struct json_object *result)
{
    struct json_object *servers = get(result, "servers"), *schemas = get(result, "schemas");
    char age[32];

    printf("%.0f of %.0f resources are served by some servers only", number(result, "uneven"),
           number(result, "compared"));
    if (get(result, "unevenSeconds") != NULL)
        printf(number(result, "uneven") > 0 ? " (for %s)"
                                            : "; subresources or verbs are not the same (for %s): see the status page",
               duration(number(result, "unevenSeconds"), age, sizeof(age)));
    puts(".");
    print_by_server("RESOURCE", get(result, "resources"), servers, add_skew_row);
    if (count(schemas) > 0)
        printf("\nThe schemas of %zu group/versions differ, for %s (the same letter: the same schema).\n",
               count(schemas), duration(number(result, "schemasDifferSeconds"), age, sizeof(age)));
    print_by_server("GROUP/VERSION", schemas, servers, add_schema_row);
    (void)print_left_out(result);
    return true;
}

/* ---- upgrade ---- */

static void add_asker(struct table *t, struct json_object *row, struct json_object *asker)
{
    struct json_object *servers = get(row, "servers");
    const char *group = text(row, "group");
    char names[256] = "", age[32];

    for (size_t i = 0, at = 0; i < count(servers) && at < sizeof(names); i++)
        at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", i == 0 ? "" : ",",
                               json_object_get_string(json_object_array_get_idx(servers, i)));
    table_cell(t, TABLE_PLAIN, "%s%s%s %s", group, group[0] == '\0' ? "" : "/", text(row, "version"),
               text(row, "resource"));
    table_cell(t, TABLE_PLAIN, "%s", names);
    if (asker == NULL) {
        for (size_t i = 0; i < 5; i++)
            table_cell(t, TABLE_PLAIN, "%s", i == 2 ? "nobody" : "");
        return;
    }
    table_cell(t, TABLE_PLAIN, "%.0f", number(asker, "requests"));
    table_cell(t, TABLE_PLAIN, "%.0f", number(asker, "requestsLately"));
    table_cell(t, TABLE_PLAIN, "%s", text(asker, "userAgent"));
    table_cell(t, TABLE_PLAIN, "%s", text(asker, "user")[0] == '\0' ? "(by token)" : text(asker, "user"));
    table_cell(t, TABLE_PLAIN, "%s ago", duration(number(asker, "lastSeconds"), age, sizeof(age)));
}

/* How many asked for what is served by this kind of servers only. */
static size_t print_kind(struct json_object *rows, const char *kind, const char *heading)
{
    static const char *const columns[] = {"RESOURCE",   "SERVED BY", "24 H", "LATELY",
                                          "USER AGENT", "USER",      "LAST", NULL};
    struct table *t = NULL;
    size_t askers = 0;

    for (size_t i = 0; i < count(rows); i++) {
        struct json_object *row = json_object_array_get_idx(rows, i), *list = get(row, "askers");

        if (strcmp(text(row, "servedBy"), kind) != 0)
            continue;
        t = t == NULL ? table_new(columns) : t;
        if (count(list) == 0)
            add_asker(t, row, NULL);
        for (size_t k = 0; k < count(list); k++, askers++)
            add_asker(t, row, json_object_array_get_idx(list, k));
    }
    if (t != NULL) {
        printf("\n%s\n", heading);
        table_print(t);
    }
    return askers;
}

bool show_upgrade(struct json_object *result)
{
    struct json_object *rows = get(result, "resources");
    size_t leaving;

    if (count(rows) == 0) {
        puts("All servers serve the same resources.");
        return true;
    }
    printf("%zu resources are not served by all servers; who asked for them in the last %.0f hours:\n", count(rows),
           number(result, "hours"));
    leaving = print_kind(rows, "old", "Gone when the last old server is upgraded:");
    (void)print_kind(rows, "new", "Served by the new servers only:");
    (void)print_kind(rows, "some", "Served by some servers, whatever their release:");
    if (number(result, "askersForgotten") > 0)
        printf("\n%.0f who asked longest ago were forgotten for others.\n", number(result, "askersForgotten"));
    return leaving == 0;
}

/* ---- explain ---- */

static void add_state(struct table *t, struct json_object *one)
{
    bool good = truth(one, "answers") && truth(one, "healthy") && !truth(one, "drained");
    const char *error = text(one, "lastError");
    char age[32];

    table_cell(t, good ? TABLE_GOOD : TABLE_WARNING, "%s", text(one, "state"));
    if (error[0] == '\0')
        table_cell(t, TABLE_PLAIN, "-");
    else
        table_cell(t, TABLE_PLAIN, "%s ago: %s", duration(number(one, "lastErrorAgeSeconds"), age, sizeof(age)), error);
}

static void print_candidates(struct json_object *list)
{
    static const char *const columns[] = {"PEER", "ADDRESS", "STATE", "LAST ERROR", NULL};
    struct table *t;

    if (count(list) == 0)
        return;
    t = table_new(columns);
    for (size_t i = 0; i < count(list); i++) {
        struct json_object *one = json_object_array_get_idx(list, i);

        table_cell(t, TABLE_PLAIN, "%s", text(one, "server"));
        table_cell(t, TABLE_PLAIN, "%s", text(one, "address"));
        add_state(t, one);
    }
    putchar('\n');
    table_print(t);
}

/* Where it goes; and what the client sees if nobody there answers. */
static void print_verdict(struct json_object *result)
{
    static const struct {
        const char *action, *answered, *unanswered;
    } verdicts[] = {
        {"local", "Goes to the local server", "Goes to the local server, which does not answer: 503"},
        {"peer", "Goes to a peer", "Goes to a peer, and none of them answers: 503"},
        {"discovery", "Is answered with merged discovery, or by the local server", ""},
        {"heal", "Goes to the local server, whose answer is completed with what peers have",
         "Goes to the local server, which does not answer: 503"},
        {"refuse", "", "Is refused with 503"},
    };
    bool answered = truth(result, "answered");
    const char *unauthorized = text(result, "unauthorized");

    if (unauthorized[0] != '\0') {
        headline(table_colour(TABLE_BAD), "Is answered with 401: ", unauthorized);
        return;
    }
    for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++)
        if (strcmp(text(result, "action"), verdicts[i].action) == 0)
            headline(table_colour(answered ? TABLE_GOOD : TABLE_BAD),
                     answered ? verdicts[i].answered : verdicts[i].unanswered, "");
}

static void print_local(struct json_object *local)
{
    const char *error = text(local, "lastError");
    char age[32];

    printf("Local:      %s, %s", text(local, "server"), text(local, "state"));
    if (!truth(local, "answers") && error[0] != '\0')
        printf(" (for %s: %s)", duration(number(local, "lastErrorAgeSeconds"), age, sizeof(age)), error);
    putchar('\n');
}

static void print_request(struct json_object *result)
{
    const char *group = text(result, "group"), *sub = text(result, "subresource"), *name = text(result, "name");

    if (!truth(result, "resourceRequest")) {
        printf("Request:    %s %s\n", text(result, "verb"), text(result, "path"));
        return;
    }
    printf("Request:    %s %s%s%s in %s%s%s%s%s%s\n", text(result, "verb"), text(result, "resource"),
           sub[0] == '\0' ? "" : "/", sub, group, group[0] == '\0' ? "" : "/", text(result, "version"),
           name[0] == '\0' ? "" : ", name ", name, truth(result, "longRunning") ? ", long-running" : "");
}

bool show_explain(struct json_object *result)
{
    print_verdict(result);
    printf("  %s\n\nRow:        %s\n", text(result, "reason"), text(result, "row"));
    if (strcmp(text(result, "action"), "refuse") == 0)
        printf("Message:    %s\n", text(result, "message"));
    print_request(result);
    printf("Identity:   %s\n", text(result, "identity"));
    print_local(get(result, "localServer"));
    print_candidates(get(result, "candidates"));
    return true;
}

/* ---- the others ---- */

enum { PATH_SHOWN = 400 };

static void add_path(struct table *t, struct json_object *request)
{
    const char *path = text(request, "path");
    double bytes = get(request, "pathBytes") == NULL ? (double)strlen(path) : number(request, "pathBytes");

    if (bytes > PATH_SHOWN)
        table_cell(t, TABLE_PLAIN, "%.*s... (%.0f bytes)", PATH_SHOWN, path, bytes);
    else
        table_cell(t, TABLE_PLAIN, "%s", path);
}

bool show_requests(struct json_object *result)
{
    static const char *const columns[] = {"AGE", "METHOD", "PATH", "CLIENT", "SERVER", "STATE", "ROW", "OUT", NULL};
    struct table *t = table_new(columns);
    char age[32];

    for (size_t i = 0; i < count(result); i++) {
        struct json_object *r = json_object_array_get_idx(result, i);

        table_cell(t, TABLE_PLAIN, "%s", duration(number(r, "ageSeconds"), age, sizeof(age)));
        table_cell(t, TABLE_PLAIN, "%s", text(r, "method"));
        add_path(t, r);
        table_cell(t, TABLE_PLAIN, "%s", text(r, "client"));
        table_cell(t, TABLE_PLAIN, "%s", text(r, "server"));
        table_cell(t, TABLE_PLAIN, "%s", text(r, "state"));
        table_cell(t, TABLE_PLAIN, "%s", text(r, "row"));
        table_cell(t, TABLE_PLAIN, "%.0f", number(r, "bytesOut"));
    }
    table_print(t);
    return true;
}

bool show_reload(struct json_object *result)
{
    struct json_object *errors = get(result, "errors");

    if (truth(result, "reloaded")) {
        puts("Reloaded.");
        return true;
    }
    fprintf(stderr, "mvproxyctl: refused, the running configuration stays:\n");
    for (size_t i = 0; i < count(errors); i++)
        fprintf(stderr, "  %s\n", item(errors, i) == NULL ? "" : item(errors, i));
    return false;
}

bool show_level(struct json_object *result)
{
    printf("%.0f\n", number(result, "level"));
    return true;
}

bool show_config(struct json_object *result)
{
    static const char *const columns[] = {"OPTION", "VALUE", "ORIGIN", NULL};
    struct table *t = table_new(columns);

    for (size_t i = 0; i < count(result); i++) {
        struct json_object *o = json_object_array_get_idx(result, i);

        table_cell(t, TABLE_PLAIN, "%s", text(o, "name"));
        table_cell(t, TABLE_PLAIN, "%s", text(o, "value"));
        table_cell(t, TABLE_PLAIN, "%s", text(o, "origin"));
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

    for (size_t i = 0; i < count(result); i++) {
        struct json_object *c = json_object_array_get_idx(result, i);
        double rest = number(c, "remainingSeconds");

        table_cell(t, TABLE_PLAIN, "%s", text(c, "option"));
        table_cell(t, TABLE_PLAIN, "%s", text(c, "notAfter"));
        table_cell(t,
                   rest <= 0              ? TABLE_BAD
                   : truth(c, "endsSoon") ? TABLE_WARNING
                                          : TABLE_GOOD,
                   "%s", rest <= 0 ? "expired" : duration(rest, left, sizeof(left)));
        table_cell(t, TABLE_PLAIN, "%s", text(c, "file"));
        good = good && rest > 0;
    }
    table_print(t);
    return good;
}

bool show_drain(struct json_object *result)
{
    const char *peer = text(result, "peer"), *id = text(result, "id");

    if (truth(result, "drained"))
        printf("Drained: %s (%s) gets no new requests while another server can have them; %.0f are under way there.\n",
               peer, id, number(result, "requestsInFlight"));
    else
        printf("Not drained: %s (%s) gets requests again.\n", peer, id);
    return true;
}

const char *show_text(struct json_object *o, const char *name)
{
    return text(o, name);
}

bool show_refreshed(struct json_object *servers, bool all_read, bool json)
{
    bool well = all_read;

    if (json) {
        show_json(slice_str(
            json_object_to_json_string_ext(servers, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE)));
    } else {
        show_printable(servers);
        print_servers(servers);
    }
    for (size_t i = 0; i < count(servers); i++) {
        struct json_object *one = json_object_array_get_idx(servers, i);

        well = well && !truth(one, "failing") && text(one, "address")[0] != '\0';
    }
    if (!all_read)
        fputs("mvproxyctl: not all of them have answered yet\n", stderr);
    return well;
}

bool show_version(struct json_object *result)
{
    printf("mvproxy %s\n", text(result, "version"));
    return true;
}

/* Line by line. Labels have names that other servers chose, and what a program reads may end on a terminal. */
bool show_metrics(struct json_object *result)
{
    struct slice rest = slice_str(is_composed(result) ? "" : json_object_get_string(result)), line;

    while (slice_split(&rest, '\n', &line)) {
        char *copy = must_zalloc(line.n + 1);

        memcpy(copy, line.p, line.n);
        utf8_make_printable(copy);
        printf("%s%s", copy, rest.p == NULL ? "" : "\n");
        mem_free(copy);
    }
    return true;
}
