/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/show_skew.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "ctl/fields.h"
#include "ctl/table.h"

/* ---- skew ---- */

static void add_skew_row(struct table *t, struct json_object *row, size_t n)
{
    struct json_object *by = field(row, "servedBy");
    const char *group = field_text(row, "group");

    table_cell(t, TABLE_PLAIN, "%s%s%s %s", group, group[0] == '\0' ? "" : "/", field_text(row, "version"),
               field_text(row, "resource"));
    for (size_t i = 0; i < n; i++) {
        const char *state = field_item(by, i);
        enum table_mood mood = state == NULL || state[0] == 'u' ? TABLE_PLAIN
                               : state[0] == 'y'                ? TABLE_GOOD
                                                                : TABLE_WARNING;

        table_cell(t, mood, "%s", state == NULL || state[0] == 'u' ? "?" : state);
    }
}

static void add_schema_row(struct table *t, struct json_object *row, size_t n)
{
    struct json_object *by = field(row, "byServer");
    const char *group = field_text(row, "group");

    table_cell(t, TABLE_PLAIN, "%s%s%s", group, group[0] == '\0' ? "" : "/", field_text(row, "version"));
    for (size_t i = 0; i < n; i++) {
        const char *variant = field_item(by, i);

        table_cell(t, variant == NULL || variant[0] == 'A' ? TABLE_PLAIN : TABLE_WARNING, "%s",
                   variant == NULL ? "" : variant);
    }
}

static void print_by_server(const char *title, struct json_object *rows, struct json_object *servers,
                            void (*add)(struct table *t, struct json_object *row, size_t n))
{
    size_t n = field_count(servers);
    const char **columns;
    struct table *t;

    if (field_count(rows) == 0)
        return;
    columns = must_zalloc((n + 2) * sizeof(columns[0]));
    columns[0] = title;
    for (size_t i = 0; i < n; i++)
        columns[i + 1] = field_item(servers, i) == NULL ? "?" : field_item(servers, i);
    t = table_new(columns);
    for (size_t i = 0; i < field_count(rows); i++)
        add(t, json_object_array_get_idx(rows, i), n);
    putchar('\n');
    table_print(t);
    mem_free(columns);
}

static bool print_hosts(struct json_object *list, const char *what)
{
    if (field_count(list) == 0)
        return false;
    printf("%sNot known%s %s:", table_colour(TABLE_WARNING), table_no_colour(), what);
    for (size_t i = 0; i < field_count(list); i++)
        printf("%s%s", i == 0 ? " " : ", ", field_item(list, i) == NULL ? "" : field_item(list, i));
    puts(".");
    return true;
}

static bool peers_off(struct json_object *o)
{
    return field(o, "peersEnabled") != NULL && !field_truth(o, "peersEnabled");
}

void show_newest(struct json_object *skew, struct json_object *whole, const char *margin)
{
    if (strcmp(field_text(skew, "skewedResources"), "newest") == 0 && !peers_off(whole))
        printf("%sskewed-resources: newest is in force: requests for resources whose schemas differ go to the newest "
               "server that has them.\n",
               margin);
}

/* Servers that may serve anything. */
static bool print_unread(struct json_object *result)
{
    bool off = peers_off(result);
    bool never = field(result, "leasesNeverRead") != NULL;
    bool missing =
        print_hosts(field(result, "missing"), "any more what these serve, which have been away for too long");

    if (off)
        printf("%sNot known%s what other servers serve: peers are off (feature-gates).\n", table_colour(TABLE_WARNING),
               table_no_colour());
    if (never)
        printf("%sNot known%s which servers there are, whose identity Leases have never been read: %s\n",
               table_colour(TABLE_WARNING), table_no_colour(), field_text(result, "leasesNeverRead"));
    return print_hosts(field(result, "unread"), "what these serve, whose discovery has not been read yet") || off ||
           never || missing;
}

static void add_lacking(struct table *t, struct json_object *row, struct json_object *server)
{
    struct json_object *lacks = field(server, "lacks");
    const char *group = field_text(row, "group");
    char text[256] = "";
    size_t n = 0, i = 0;

    for (; i < field_count(lacks) && n < sizeof(text); i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i == 0 ? "" : ", ",
                              field_item(lacks, i) == NULL ? "?" : field_item(lacks, i));
    table_cell(t, TABLE_PLAIN, "%s%s%s %s", group, group[0] == '\0' ? "" : "/", field_text(row, "version"),
               field_text(row, "resource"));
    table_cell(t, TABLE_PLAIN, "%s", field_text(server, "server"));
    table_cell(t, TABLE_WARNING, "%s%s", text, n < sizeof(text) ? "" : "...");
}

/* What servers lack of resources that they serve. True: one of the newest lacks something. */
static bool print_partly(struct json_object *result, const char *heading)
{
    static const char *const columns[] = {"RESOURCE", "SERVER", "LACKS", NULL};
    struct json_object *rows = field(result, "partly");
    bool newest = false;
    struct table *t;

    if (field_count(rows) == 0)
        return false;
    t = table_new(columns);
    for (size_t i = 0; i < field_count(rows); i++) {
        struct json_object *row = json_object_array_get_idx(rows, i), *servers = field(row, "servers");

        for (size_t k = 0; k < field_count(servers); k++) {
            struct json_object *server = json_object_array_get_idx(servers, k);

            if (field_count(field(server, "lacks")) == 0)
                continue;
            add_lacking(t, row, server);
            newest |= field_truth(server, "newest");
        }
    }
    printf("\n%s\n", heading);
    table_print(t);
    return newest;
}

/* What of a list did not find room in the answer. */
static bool print_left_out(struct json_object *result)
{
    double rows = field_number(result, "rowsLeftOut");

    if (rows > 0)
        printf("\n%.0f more rows are not shown: there are too many.\n", rows);
    return rows > 0;
}

bool show_skew(struct json_object *result)
{
    struct json_object *servers = field(result, "servers"), *schemas = field(result, "schemas");
    size_t partly = field_count(field(result, "partly"));
    bool unread = print_unread(result);
    char age[32];

    printf("%s%.0f of %.0f resources are served by some servers only", unread ? "Of those that are known " : "",
           field_number(result, "uneven"), field_number(result, "compared"));
    if (partly > 0)
        printf(", %zu not with all verbs and subresources", partly);
    else if (field(result, "unevenSeconds") != NULL && field_number(result, "uneven") == 0)
        printf(", but they are not described alike");
    if (field(result, "unevenSeconds") != NULL)
        printf(" (for %s)", field_duration(field_number(result, "unevenSeconds"), age, sizeof(age)));
    puts(".");
    show_newest(result, result, "");
    print_by_server("RESOURCE", field(result, "resources"), servers, add_skew_row);
    (void)print_partly(result, "Served, but without what others have of it (/SUBRESOURCE, VERB, /SUBRESOURCE:VERB):");
    if (field_count(schemas) > 0)
        printf("\nThe schemas of %zu group/versions differ, for %s (the same letter: the same schema).\n",
               field_count(schemas), field_duration(field_number(result, "schemasDifferSeconds"), age, sizeof(age)));
    print_by_server("GROUP/VERSION", schemas, servers, add_schema_row);
    (void)print_left_out(result);
    return !unread;
}

/* ---- upgrade ---- */

#define NOT_COUNTED "Served, but without what others have of it; who asks for that is not counted:"

/* As many as there is room for. */
static void add_servers(struct table *t, struct json_object *servers)
{
    char names[256] = "";
    size_t n = field_count(servers), i = 0, at = 0;

    for (; i < n; i++) {
        const char *name = field_item(servers, i);

        if (name == NULL || at + strlen(name) + 2 > sizeof(names))
            break;
        at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", i == 0 ? "" : ",", name);
    }
    if (i < n)
        table_cell(t, TABLE_PLAIN, "%s and %zu more", names, n - i);
    else
        table_cell(t, TABLE_PLAIN, "%s", names);
}

static void add_row(struct table *t, struct json_object *row)
{
    const char *group = field_text(row, "group");

    table_cell(t, TABLE_PLAIN, "%s%s%s %s", group, group[0] == '\0' ? "" : "/", field_text(row, "version"),
               field_text(row, "resource"));
    add_servers(t, field(row, "servers"));
}

static void add_asker(struct table *t, struct json_object *row, struct json_object *asker)
{
    char age[32];

    add_row(t, row);
    table_cell(t, TABLE_PLAIN, "%.0f", field_number(asker, "requests"));
    table_cell(t, TABLE_PLAIN, "%.0f", field_number(asker, "requestsLately"));
    table_cell(t, TABLE_PLAIN, "%s", field_text(asker, "userAgent"));
    table_cell(t, TABLE_PLAIN, "%s", field_text(asker, "user")[0] == '\0' ? "(by token)" : field_text(asker, "user"));
    table_cell(t, TABLE_PLAIN, "%s", field_text(asker, "address"));
    table_cell(t, TABLE_PLAIN, "%s ago", field_duration(field_number(asker, "lastSeconds"), age, sizeof(age)));
}

/* Nobody; or it is not known who, or whether. */
static void add_nobody(struct table *t, struct json_object *row, const char *who, double requests, double lately)
{
    add_row(t, row);
    if (requests > 0)
        table_cell(t, TABLE_WARNING, "%.0f", requests);
    else
        table_cell(t, TABLE_PLAIN, "%s", "");
    if (requests > 0)
        table_cell(t, TABLE_PLAIN, "%.0f", lately);
    else
        table_cell(t, TABLE_PLAIN, "%s", "");
    table_cell(t, TABLE_PLAIN, "%s", who);
    for (int user_address_last = 0; user_address_last < 3; user_address_last++)
        table_cell(t, TABLE_PLAIN, "%s", "");
}

enum { HOUR_S = 3600, DAY_S = 24 * HOUR_S };

/* Of this resource it has been counted for less than the others, or than a day. */
static const char *nobody_in(struct json_object *row, char text[64])
{
    double counted = field_number(row, "countedSeconds");
    char age[32];

    if (field(row, "countedSeconds") == NULL || counted >= DAY_S)
        return "nobody";
    (void)snprintf(text, 64, "nobody in %s", field_duration(counted, age, sizeof(age)));
    return text;
}

/* All who are known, and how many requests were by others. True: somebody has asked, or that is not known. */
static bool add_askers(struct table *t, struct json_object *row)
{
    struct json_object *list = field(row, "askers");
    double requests = field_number(row, "requests"), lately = field_number(row, "requestsLately");
    char nobody[64];

    for (size_t i = 0; i < field_count(list); i++) {
        struct json_object *asker = json_object_array_get_idx(list, i);

        add_asker(t, row, asker);
        requests -= field_number(asker, "requests");
        lately -= field_number(asker, "requestsLately");
    }
    if (requests > 0)
        add_nobody(t, row, "(others, forgotten)", requests, lately);
    else if (field_truth(row, "forgotten"))
        add_nobody(t, row, "(not known any more)", 0, 0);
    else if (field_count(list) == 0)
        add_nobody(t, row, nobody_in(row, nobody), 0, 0);
    return requests > 0 || field_count(list) > 0 || field_truth(row, "forgotten");
}

/* What is served by this kind of servers only: how many resources, and of how many it cannot be said that nobody asks.
 */
struct tally {
    size_t rows, asked, young;
};

static struct tally print_kind(struct json_object *rows, const char *kind, const char *heading)
{
    static const char *const columns[] = {"RESOURCE", "SERVED BY", "24 H", "LATELY", "USER AGENT",
                                          "USER",     "ADDRESS",   "LAST", NULL};
    struct tally all = {0, 0, 0};
    struct table *t = NULL;

    for (size_t i = 0; i < field_count(rows); i++) {
        struct json_object *row = json_object_array_get_idx(rows, i);

        if (strcmp(field_text(row, "servedBy"), kind) != 0)
            continue;
        t = t == NULL ? table_new(columns) : t;
        all.rows++;
        all.young += field(row, "countedSeconds") != NULL && field_number(row, "countedSeconds") < HOUR_S;
        all.asked += add_askers(t, row);
    }
    if (t != NULL) {
        printf("\n%s\n", heading);
        table_print(t);
    }
    return all;
}

/* No row: of one server, or none, that says nothing if there are more. */
static const char *alike(struct json_object *result, bool unread)
{
    if (!unread)
        return "All servers serve the same resources.";
    return field(result, "serversRead") != NULL && field_number(result, "serversRead") < 2
               ? "No two servers could be compared."
               : "All others serve the same resources.";
}

bool show_upgrade(struct json_object *result)
{
    struct json_object *rows = field(result, "resources");
    double counted = field_number(result, "countedSeconds"), hours = field_number(result, "hours");
    /* What was noted before servers were alike for a while, or peers were off, stands in the rows as well. */
    double noted = field(result, "notedSeconds") == NULL ? counted : field_number(result, "notedSeconds");
    bool unread = print_unread(result), left_out = field_number(result, "rowsLeftOut") > 0;
    struct tally leaving;
    bool partly;
    char period[32];

    if (field_count(rows) == 0 && !left_out) {
        puts(alike(result, unread));
        partly = print_partly(result, NOT_COUNTED);
        return !unread && !partly;
    }
    if (noted < hours * HOUR_S)
        (void)field_duration(noted, period, sizeof(period));
    else
        (void)snprintf(period, sizeof(period), "%.0f hours", hours);
    printf("%zu resources are not served by all servers. Who asked for them in the last %s:\n", field_count(rows),
           period);
    leaving = print_kind(rows, "old", "Gone when the last old server is upgraded:");
    if (leaving.rows == 0 && !left_out)
        printf("\nNo resource is served by old servers only%s.\n",
               unread ? ", as far as servers were read" : ": upgrading them takes none away");
    (void)print_kind(rows, "new", "Served by the new servers only:");
    (void)print_kind(rows, "some", "Served by some servers, whatever their release:");
    partly = print_partly(result, NOT_COUNTED);
    (void)print_left_out(result);
    if (leaving.young > 0 || (leaving.rows > 0 && counted < HOUR_S))
        printf(
            "\nIt is counted since mvproxy was started, or since servers began to differ: who asks less often is not "
            "listed yet.\n");
    return leaving.asked == 0 && !unread && !left_out && !partly && leaving.young == 0 &&
           (leaving.rows == 0 || counted >= HOUR_S);
}
