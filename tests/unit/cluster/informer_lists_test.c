/* SPDX-License-Identifier: Apache-2.0 */
/* What a list may answer, told word for word, and an informer that is stopped or begun anew after any turn of it. */
#include "cluster/informer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/strmap.h"
#include "cluster/api.h"
#include "cluster/work.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

#define OBJECT(name) "{\"metadata\":{\"name\":\"" name "\"}}"
#define LIST(meta, items) "{\"kind\":\"List\",\"metadata\":{" meta "},\"items\":[" items "]}"
#define D64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define LONG D64 D64 D64 D64
#define GOOD LIST("\"resourceVersion\":\"9\"", OBJECT("a"))

enum { SECOND_MS = 20000 };

struct answer {
    unsigned status;
    const char *body;
};

struct recorder {
    struct cluster_kit w;
    struct api *api;
    struct sim_server *sim;
    struct origin *origin;
    struct informer *informer;
    struct strmap *objects;
    const struct answer *answers; /* of lists, in order; the last one for ever */
    size_t n_answers, lists, watches;
    char targets[8][200], watched[200], failure[200];
    unsigned synced, failures, recoveries;
    unsigned gone, gone_in_turn, gone_in_turn_most, gone_when_synced, gone_then, gone_twice;
    uint64_t gone_turn;
    bool slow;
    unsigned told, then_at;  /* objects taken or gone */
    void (*then)(void *arg); /* when so many are told (0: the first), and others are not */
    struct loop_deferred later;
};

static void serve(void *arg, struct sim_request *q)
{
    struct recorder *r = arg;
    const struct answer *a = &r->answers[r->lists < r->n_answers ? r->lists : r->n_answers - 1];
    struct slice target = sim_request_head(q)->target;

    if (sim_query(q, "watch").n > 0) {
        r->watches++;
        (void)snprintf(r->watched, sizeof(r->watched), "%.*s", (int)target.n, target.p);
        sim_head(q, 200, "application/json", NULL);
        return;
    }
    if (r->lists < ROWS(r->targets))
        (void)snprintf(r->targets[r->lists], sizeof(r->targets[0]), "%.*s", (int)target.n, target.p);
    r->lists++;
    sim_reply(q, a->status, "application/json", NULL, slice_str(a->body));
}

static void one_is_told(struct recorder *r)
{
    if (r->slow) /* each takes the rest of a turn */
        clock_fake(clock_us() + WORK_TURN_US, clock_wall_us());
    if (++r->told < r->then_at)
        return;
    if (r->then != NULL)
        loop_defer(r->w.loop, &r->later, r->then, r);
    r->then = NULL;
}

static bool on_object(void *arg, struct slice key, struct slice json)
{
    struct recorder *r = arg;

    (void)json;
    one_is_told(r);
    return strmap_put(r->objects, key, r, NULL);
}

static void on_gone(void *arg, struct slice key)
{
    struct recorder *r = arg;
    uint64_t turn = sim_turns(r->w.loop);

    r->gone++;
    r->gone_in_turn = turn == r->gone_turn ? r->gone_in_turn + 1 : 1;
    r->gone_turn = turn;
    if (r->gone_in_turn > r->gone_in_turn_most)
        r->gone_in_turn_most = r->gone_in_turn;
    r->gone_twice += strmap_remove(r->objects, key) == NULL;
    one_is_told(r);
}

static void on_synced(void *arg)
{
    struct recorder *r = arg;

    r->synced++;
    r->gone_when_synced = r->gone;
}

static void on_health(void *arg, const char *why)
{
    struct recorder *r = arg;

    r->failures += why != NULL;
    r->recoveries += why == NULL;
    if (why != NULL)
        (void)snprintf(r->failure, sizeof(r->failure), "%s", why);
}

static const struct informer_handler handler = {
    .on_object = on_object, .on_gone = on_gone, .on_synced = on_synced, .on_health = on_health};

static void start(struct recorder *r, const struct answer *answers, size_t n, unsigned page)
{
    memset(r, 0, sizeof(*r));
    cluster_kit_init(&r->w, KIT_BASE);
    r->answers = answers;
    r->n_answers = n;
    r->sim = sim_server_new(r->w.back, r->w.loop, "10.0.0.9:6443", serve, r);
    r->origin = cluster_kit_origin(r->w.back, "local", "10.0.0.9");
    r->objects = strmap_new();
    r->api = cluster_kit_api(&r->w, r->origin);
    r->informer = informer_new(&(struct informer_opts){.api = r->api,
                                                       .name = "things",
                                                       .path = "/apis/x/v1/things",
                                                       .query = "a=b",
                                                       .page = page,
                                                       .list_ceiling = 1 << 12,
                                                       .object_limit = 1 << 10},
                               &handler, r);
    if (r->informer == NULL)
        tap_bail("out of memory");
}

static void end(struct recorder *r)
{
    informer_free(r->informer);
    api_free(r->api);
    origin_unref(r->origin);
    strmap_free(r->objects);
    cluster_kit_end(&r->w);
}

static void answers(void)
{
    static const struct {
        struct answer first;
        const char *failure;
        unsigned refused;
    } rows[] = {
        {{200, "{"}, "", 0},
        {{200, LIST("", OBJECT("b"))}, "list without resourceVersion", 0},
        {{200, LIST("\"resourceVersion\":\"\"", OBJECT("b"))}, "list without resourceVersion", 0},
        {{200, LIST("\"resourceVersion\":\"a b\"", OBJECT("b"))}, "list without resourceVersion", 0},
        {{200, LIST("\"resourceVersion\":\"" LONG "\"", OBJECT("b"))}, "list without resourceVersion", 0},
        {{200, LIST("\"resourceVersion\":\"9\",\"continue\":\"a b\"", OBJECT("b"))}, "unusable continue token", 0},
        {{200, LIST("\"resourceVersion\":\"9\",\"continue\":\"a/b\"", OBJECT("b"))}, "unusable continue token", 0},
        {{500, "{}"}, "answered 500", 0},
        {{401, "{}"}, "answered 401", 401},
        {{403, "{}"}, "answered 403", 403},
        {{404, "{}"}, "answered 404", 404},
        {{405, "{}"}, "answered 405", 405},
        {{400, "{}"}, "answered 400", 0},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct answer all[] = {rows[i].first, {200, GOOD}};
        struct recorder r;

        start(&r, all, ROWS(all), 0);
        sim_run_ms(r.w.loop, 50);
        ok(r.failures == 1 && strstr(r.failure, rows[i].failure) != NULL, "answer %zu: %s", i, r.failure);
        ok(informer_failure(r.informer) != NULL && strcmp(informer_failure(r.informer), r.failure) == 0, "that is why");
        is_u64(informer_refused(r.informer), rows[i].refused, "refused");
        ok(!informer_synced(r.informer) && r.synced == 0 && r.watches == 0, "nothing is known");
        sim_run_ms(r.w.loop, SECOND_MS);
        ok(r.synced == 1 && r.recoveries == 1 && r.lists == 2 && strmap_count(r.objects) == 1 && r.watches == 1,
           "and then it is: %zu lists", r.lists);
        ok(informer_failure(r.informer) == NULL && informer_refused(r.informer) == 0, "nothing is wrong");
        end(&r);
    }
}

static size_t times_said(const char *log, const char *why)
{
    size_t n = 0;

    while ((log = strstr(log, "cannot list or watch\"")) != NULL) {
        const char *end = strchr(log, '\n'), *found = strstr(log, why);

        n += strncmp(log - 6, "still ", 6) != 0 && found != NULL && found < end;
        log = end;
    }
    return n;
}

/* Who reads the log sees what it stays with, and not each way in which it fails once. */
static void said_again(void)
{
    static const struct answer all[] = {{500, "{}"}, {403, "{}"}, {500, "{}"}, {404, "{}"}, {403, "{}"},
                                        {403, "{}"}, {403, "{}"}, {500, "{}"}, {403, "{}"}};
    struct recorder r;
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    log_set_stream(f);
    start(&r, all, ROWS(all), 0);
    sim_run_ms(r.w.loop, 10 * 60000);
    ok(r.lists > ROWS(all), "%zu failures", r.lists);
    end(&r);
    log_flush();
    log_set_stream(stderr);
    (void)fclose(f);
    is_u64(times_said(text, "answered 500"), 1, "the first way: said");
    is_u64(times_said(text, "answered 404"), 0, "one that passes: not");
    is_u64(times_said(text, "answered 403"), 1, "the one that stays: said once");
    free(text);
}

/* Its version is too old before anything was listed: that is no failure. */
static void gone_at_once(void)
{
    static const struct answer all[] = {{410, "{}"}, {200, GOOD}};
    struct recorder r;

    start(&r, all, ROWS(all), 0);
    sim_run_ms(r.w.loop, SECOND_MS);
    ok(r.failures == 0 && r.synced == 1 && r.lists == 2, "410: listed again, and nothing is wrong");
    end(&r);
}

static const struct answer pages[] = {
    {200, LIST("\"resourceVersion\":\"9\",\"continue\":\"Az09-_.=\"", OBJECT("a") "," OBJECT("b"))},
    {200, LIST("\"resourceVersion\":\"9\",\"continue\":\"next\"", OBJECT("c") ",{}," OBJECT("d"))},
    {200, LIST("\"resourceVersion\":\"10\"", OBJECT("e"))},
};

static void in_pages(void)
{
    struct recorder r;

    start(&r, pages, ROWS(pages), 2);
    sim_run_ms(r.w.loop, 100);
    is_u64(strmap_count(r.objects), 5, "all of three pages, but what has no name");
    is_str(r.targets[0], "/apis/x/v1/things?a=b&limit=2", "the first");
    is_str(r.targets[1], "/apis/x/v1/things?a=b&limit=2&continue=Az09-_.=", "the second");
    is_str(r.targets[2], "/apis/x/v1/things?a=b&limit=2&continue=next", "the third");
    ok(strstr(r.watched, "/apis/x/v1/things?a=b&") != NULL && strstr(r.watched, "resourceVersion=10") != NULL,
       "watched from the last one's version: %s", r.watched);
    ok(r.synced == 1 && r.lists == 3, "synced once");
    end(&r);
}

/* A page that cannot be had: the whole list again. */
static void page_fails(void)
{
    static const struct answer all[] = {
        {200, LIST("\"resourceVersion\":\"9\",\"continue\":\"next\"", OBJECT("x"))}, {500, "{}"}, {200, GOOD}};
    struct recorder r;

    start(&r, all, ROWS(all), 2);
    sim_run_ms(r.w.loop, SECOND_MS);
    is_str(r.targets[2], "/apis/x/v1/things?a=b&limit=2", "from the beginning");
    ok(r.synced == 1 && strmap_count(r.objects) == 1, "and what is not in it is gone");
    end(&r);
}

/* ---- after any turn ---- */

struct turns {
    const struct loop *loop;
    uint64_t until;
};

static bool turned(void *arg)
{
    const struct turns *t = arg;

    return sim_turns(t->loop) >= t->until;
}

static void run_turns(struct recorder *r, unsigned n)
{
    struct turns t = {r->w.loop, sim_turns(r->w.loop) + n};

    (void)sim_run_until(r->w.loop, 1000, turned, &t);
}

static void begun_anew(void)
{
    bool over = false;

    for (unsigned n = 0; !over; n++) {
        struct recorder r;
        size_t before;

        start(&r, pages, ROWS(pages), 2);
        r.slow = true;
        run_turns(&r, n);
        over = r.synced > 0;
        before = r.lists;
        r.lists = 0;
        informer_restart(r.informer);
        sim_run_ms(r.w.loop, 1000);
        ok(r.lists == 3 && strmap_count(r.objects) == 5 && r.failures == 0 && informer_watching(r.informer),
           "begun anew after %u turns and %zu lists", n, before);
        is_u64(r.synced, over ? 2 : 1, "synced as often as listed");
        end(&r);
        start(&r, pages, ROWS(pages), 2);
        r.slow = true;
        run_turns(&r, n);
        end(&r);
    }
}

static void anew(void *arg)
{
    struct recorder *r = arg;

    r->gone_then = r->gone;
    informer_restart(r->informer);
}

static void stop(void *arg)
{
    struct recorder *r = arg;

    r->gone_then = r->gone;
    informer_free(r->informer);
    r->informer = NULL;
}

/* In the middle of a page, of which no more is taken. */
static void amid_page(void)
{
    struct recorder r;

    start(&r, pages, ROWS(pages), 2);
    r.slow = true;
    r.then = stop;
    sim_run_ms(r.w.loop, 1000);
    ok(r.informer == NULL && strmap_count(r.objects) == 1 && r.lists == 1, "stopped after the first object");
    end(&r);
    start(&r, pages, ROWS(pages), 2);
    r.slow = true;
    r.then = anew;
    sim_run_ms(r.w.loop, 1000);
    ok(r.lists == 3 && r.synced == 1 && r.failures == 0 && informer_watching(r.informer), "begun anew after it");
    is_str(r.targets[1], "/apis/x/v1/things?a=b&limit=2", "from the beginning");
    end(&r);
}

/* ---- what is gone ---- */

#define TEN(p)                                                                                                         \
    OBJECT(p "0")                                                                                                      \
    "," OBJECT(p "1") "," OBJECT(p "2") "," OBJECT(p "3") "," OBJECT(p "4") "," OBJECT(p "5") "," OBJECT(              \
        p "6") "," OBJECT(p "7") "," OBJECT(p "8") "," OBJECT(p "9")

enum { MANY = 30 };

/* All of the first are gone when the second is listed, and all of that when the third is. */
static const struct answer many[] = {
    {200, LIST("\"resourceVersion\":\"8\"", TEN("n") "," TEN("o") "," TEN("p"))},
    {200, GOOD},
    {200, LIST("\"resourceVersion\":\"10\"", TEN("n") "," TEN("o") "," TEN("p"))},
};

/* The first list is taken, and the second one asked for; `then` is called when so many are gone. */
static void list_many_again(struct recorder *r, void (*then)(void *arg), unsigned gone)
{
    start(r, many, ROWS(many), 0);
    sim_run_ms(r->w.loop, 100);
    if (r->synced != 1 || strmap_count(r->objects) != MANY || r->watches != 1)
        tap_bail("not listed");
    r->slow = true;
    r->told = 0;
    r->then_at = 1 + gone; /* its one object is told first */
    r->then = then;
    informer_restart(r->informer);
    sim_run_ms(r->w.loop, 1000);
}

static void gone_in_steps(void)
{
    struct recorder r;

    list_many_again(&r, NULL, 0);
    is_u64(r.gone, MANY, "all that vanished are told as gone");
    is_u64(r.gone_in_turn_most, 1, "no more in a turn of the loop than there is time for");
    ok(r.synced == 2 && r.gone_when_synced == MANY && r.watches == 2, "synced after the last one, and watched");
    ok(strmap_count(r.objects) == 1 && r.gone_twice == 0 && r.failures == 0, "what was listed is there");
    end(&r);
}

/* Between any two steps. */
static void amid_gone(void)
{
    for (unsigned gone = 1; gone <= MANY; gone++) {
        struct recorder r;

        list_many_again(&r, stop, gone);
        ok(r.informer == NULL && r.gone_then >= gone && r.gone == r.gone_then &&
               strmap_count(r.objects) == MANY + 1 - r.gone,
           "stopped when %u of many were told as gone", r.gone_then);
        ok(r.synced == 1 && r.watches == 1, "not synced by then, nor watched");
        end(&r);
        list_many_again(&r, anew, gone);
        ok(r.lists == 3 && r.synced == 2 && r.failures == 0 && informer_watching(r.informer),
           "begun anew when %u were, and synced once", r.gone_then);
        is_u64(r.gone, r.gone_then + 1, "what is listed by then is not gone, and what no longer is, is");
        ok(strmap_count(r.objects) == MANY && r.gone_twice == 0, "all that are listed are there");
        end(&r);
    }
}

int main(void)
{
    answers();
    said_again();
    gone_at_once();
    in_pages();
    page_fails();
    begun_anew();
    amid_page();
    gone_in_steps();
    amid_gone();
    return tap_end();
}
