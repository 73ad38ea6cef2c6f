/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/control_client.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <json-c/json.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/metric.h"
#include "net/lifetime.h"
#include "net/loop_internal.h"

enum { PIECE_BYTES = 1 << 20 };

#define REFUSAL(why) "{\"v\":1,\"ok\":false,\"error\":\"" why "\"}\n"
#define CROWDED_OUT REFUSAL("closed to make room: others wait, and nothing whole was asked here for longest")
#define TOO_LONG "the answer is too long, or there is no memory for it"
#define NO_END "the request has no end: it is one line"
#define NO_ROOM "there is no memory for the request"
#define SUCCESS "{\"v\":1,\"ok\":true,\"result\":"

/* Whose turn it is. */
enum turn { TURN_CLIENT_ASKS, TURN_WE_WORK, TURN_CLIENT_TAKES };

struct control_client {
    struct list_node node;
    struct lifetime life;
    struct control_host *host;
    struct bufferevent *bev;
    bool asked_all; /* it sends nothing more, but still reads (nc -N): its last answers are still due */
    bool ending;    /* closes, for that reason, when the rest of the answer is written */
    enum control_close reason;
    const struct control_command *asked; /* of the answer that is being made */
    const struct control_job *kind;      /* of the answer that is being made in pieces; NULL: none is */
    void *job;
    size_t sent;               /* of that, bytes */
    struct lifetime_work next; /* its next piece, when there was nothing to send */
    struct loop_timer *pause;  /* likewise */
    enum turn turn;
    uint64_t since_ms; /* the turn's begin */
    uint64_t taken_ms; /* for so long we have waited for this answer to be taken, before this turn */
    struct loop_timer *deadline;
    uint64_t answers; /* begun */
};

/* ---- the end ---- */

static const char *const close_names[CONTROL_CLOSE_COUNT] = {
    [CONTROL_CLOSE_CLIENT] = "client",
    [CONTROL_CLOSE_CLIENT_GONE] = "client_gone",
    [CONTROL_CLOSE_IDLE_TIMEOUT] = "idle_timeout",
    [CONTROL_CLOSE_REQUEST_TIMEOUT] = "request_timeout",
    [CONTROL_CLOSE_ANSWER_TIMEOUT] = "answer_timeout",
    [CONTROL_CLOSE_BAD_REQUEST] = "bad_request",
    [CONTROL_CLOSE_ANSWER_ABORTED] = "answer_aborted",
    [CONTROL_CLOSE_CROWDED_OUT] = "crowded_out",
    [CONTROL_CLOSE_NO_MEMORY] = "no_memory",
    [CONTROL_CLOSE_SHUTDOWN] = "shutdown",
};

void control_host_count(struct control_host *h, struct metrics *m)
{
    static const char *const labels[] = {"reason", NULL};
    struct metric_family *f =
        metric_family(m, METRIC_COUNTER, "mvproxy_control_closed_total",
                      "Connections with the control socket that ended, by reason.", labels, CONTROL_CLOSE_COUNT);

    for (size_t i = 0; i < CONTROL_CLOSE_COUNT; i++) {
        struct slice value = slice_str(close_names[i]);

        h->closed[i] = metric_child(f, &value);
    }
}

static void tell(struct control_host *h, enum control_close reason, uint64_t answers)
{
    log_v(4, "Control connection closed", LT("reason", close_names[reason]), LU("answers", answers));
    if (h->closed[reason] != NULL)
        metric_inc(h->closed[reason]);
}

static void end_job(struct control_client *cl)
{
    if (cl->job != NULL)
        cl->kind->end(cl->job);
    cl->job = NULL;
    cl->sent = 0;
    lifetime_cancel(&cl->next);
    loop_timer_cancel(cl->pause);
}

static void close_client(struct control_client *cl, enum control_close reason)
{
    struct control_host *h = cl->host;

    tell(h, reason, cl->answers);
    end_job(cl);
    list_remove(&h->clients, &cl->node);
    bufferevent_free(cl->bev);
    lifetime_retire(&cl->life, mem_free, cl);
    h->on_left(h->on_left_arg);
}

static size_t unread(const struct control_client *cl)
{
    return evbuffer_get_length(bufferevent_get_input(cl->bev));
}

static size_t untaken(const struct control_client *cl)
{
    return evbuffer_get_length(bufferevent_get_output(cl->bev));
}

/* Closes when it has been told why, or, if there is no memory for that, when things are settled. */
static void refuse(struct control_client *cl, const char *why, enum control_close reason)
{
    evbuffer_add_printf(bufferevent_get_output(cl->bev), REFUSAL("%s"), why);
    bufferevent_disable(cl->bev, EV_READ);
    cl->ending = true;
    cl->reason = reason;
}

static void crowd_out(struct control_client *cl)
{
    /* In the middle of an answer it would be read as part of that. */
    if (cl->turn == TURN_CLIENT_ASKS)
        (void)send(bufferevent_getfd(cl->bev), CROWDED_OUT, sizeof(CROWDED_OUT) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    close_client(cl, CONTROL_CLOSE_CROWDED_OUT);
}

/* ---- whose turn it is ---- */

/* Each answer is taken in turns, one for each piece, and has one deadline. */
static void begin_turn(struct control_client *cl, enum turn turn)
{
    uint64_t now = loop_now_ms(cl->host->loop), left = cl->host->timeout_ms;

    if (cl->turn == TURN_CLIENT_TAKES)
        cl->taken_ms += now - cl->since_ms;
    if (turn == TURN_CLIENT_ASKS)
        cl->taken_ms = 0;
    cl->turn = turn;
    cl->since_ms = now;
    if (turn == TURN_CLIENT_TAKES)
        left = cl->taken_ms < left ? left - cl->taken_ms : 0;
    if (turn == TURN_WE_WORK)
        loop_timer_cancel(cl->deadline);
    else
        loop_timer_set(cl->deadline, left);
}

/* After everything that may have changed it. */
static void settle(struct control_client *cl)
{
    enum turn turn;

    if (lifetime_over(&cl->life))
        return;
    if (cl->ending && cl->job == NULL && untaken(cl) == 0) {
        close_client(cl, cl->reason);
        return;
    }
    turn = untaken(cl) > 0 ? TURN_CLIENT_TAKES : cl->job != NULL ? TURN_WE_WORK : TURN_CLIENT_ASKS;
    if (turn != cl->turn)
        begin_turn(cl, turn);
}

static void on_deadline(void *arg)
{
    struct control_client *cl = arg;

    if (cl->turn == TURN_CLIENT_TAKES) {
        close_client(cl, cl->ending ? cl->reason : CONTROL_CLOSE_ANSWER_TIMEOUT);
    } else if (unread(cl) == 0) {
        close_client(cl, CONTROL_CLOSE_IDLE_TIMEOUT);
    } else {
        refuse(cl, NO_END, CONTROL_CLOSE_REQUEST_TIMEOUT);
        settle(cl);
    }
}

/* ---- requests ---- */

/* Either the whole result, or the client has a job from now on. */
static bool begin(struct control_client *cl, const struct control_command *k, const struct json_object *request,
                  struct buf *result, struct err *err)
{
    void *arg = cl->host->arg;

    cl->asked = k;
    if (k->fn != NULL)
        return k->fn(request, result, err, arg);
    cl->job = k->job->begin(request, err, arg);
    cl->kind = cl->job == NULL ? NULL : k->job;
    return cl->job != NULL;
}

static void log_too_long(const struct control_client *cl)
{
    log_warning("Answer of the control socket given up: " TOO_LONG, LT("command", cl->asked->name));
}

static bool carry_out(struct control_client *cl, struct slice line, struct buf *result, struct err *err)
{
    struct json_object *request = control_request_parse(line, err);
    const struct control_command *k;
    bool ok;

    if (request == NULL)
        return false;
    k = control_request_command(request, cl->host->commands, err);
    ok = k != NULL && begin(cl, k, request, result, err);
    if (ok && result->failed) {
        log_too_long(cl);
        ok = err_set(err, TOO_LONG);
    }
    json_object_put(request);
    return ok;
}

static void answer(struct control_client *cl, struct slice line)
{
    struct buf result, text;
    struct err err;

    err_clear(&err);
    cl->answers++;
    buf_init(&result, LIMIT_CONTROL_ANSWER);
    buf_init(&text, LIMIT_CONTROL_ANSWER + 4096);
    if (carry_out(cl, line, &result, &err)) {
        buf_append_str(&text, SUCCESS);
        buf_append(&text, buf_slice(&result));
    } else {
        buf_append_quoted(&text, "{\"v\":1,\"ok\":false,\"error\":", slice_str(err.text));
    }
    if (cl->job == NULL)
        buf_append_str(&text, "}\n");
    if (text.failed || bufferevent_write(cl->bev, buf_slice(&text).p, buf_len(&text)) != 0) {
        cl->ending = true;
        cl->reason = CONTROL_CLOSE_NO_MEMORY;
        end_job(cl);
    }
    buf_free(&text);
    buf_free(&result);
}

/* ---- answers in pieces ---- */

/* Its line cannot be taken back: it ends there, and the next one says why. */
static void break_off(struct control_client *cl)
{
    log_too_long(cl);
    (void)bufferevent_write(cl->bev, "\n", 1);
    refuse(cl, TOO_LONG, CONTROL_CLOSE_ANSWER_ABORTED);
}

static void wait_for_piece(struct control_client *cl)
{
    if (cl->kind->pause_ms > 0)
        loop_timer_set(cl->pause, cl->kind->pause_ms);
    else
        lifetime_queue(&cl->next);
}

/* One a turn of the loop. */
static void next_piece(struct control_client *cl)
{
    struct buf piece;
    bool more;

    buf_init(&piece, PIECE_BYTES);
    more = cl->kind->more(cl->job, &piece);
    cl->sent += buf_len(&piece);
    if (!more)
        buf_append_str(&piece, "}\n");
    if (piece.failed || cl->sent > LIMIT_CONTROL_ANSWER) {
        break_off(cl);
    } else if (bufferevent_write(cl->bev, buf_slice(&piece).p, buf_len(&piece)) != 0) {
        cl->ending = true;
        cl->reason = CONTROL_CLOSE_NO_MEMORY;
    }
    if (!more || cl->ending)
        end_job(cl);
    else if (buf_len(&piece) == 0)
        wait_for_piece(cl);
    buf_free(&piece);
}

static void on_piece(void *arg)
{
    struct control_client *cl = arg;

    next_piece(cl);
    settle(cl);
}

/* ---- what comes and goes ---- */

static void take_request(struct control_client *cl, size_t bytes)
{
    struct evbuffer *in = bufferevent_get_input(cl->bev);
    const char *line;

    if (cl->host->wanted && cl->answers > 0) {
        crowd_out(cl);
        return;
    }
    line = (const char *)evbuffer_pullup(in, (ev_ssize_t)bytes + 1);
    if (line == NULL) {
        refuse(cl, NO_ROOM, CONTROL_CLOSE_NO_MEMORY);
        return;
    }
    answer(cl, slice_of(line, bytes));
    evbuffer_drain(in, bytes + 1);
}

/* One answer at a time: the next request is looked at when the client has taken the last answer. */
static void look_for_request(struct control_client *cl)
{
    struct evbuffer_ptr end;

    if (cl->ending || cl->job != NULL || untaken(cl) > 0)
        return;
    end = evbuffer_search_eol(bufferevent_get_input(cl->bev), NULL, NULL, EVBUFFER_EOL_LF);
    if (end.pos >= 0)
        take_request(cl, (size_t)end.pos);
    else if (unread(cl) >= LIMIT_CONTROL_LINE)
        refuse(cl, "the request is too long", CONTROL_CLOSE_BAD_REQUEST);
}

/*
 * libevent asks for the read callback again as long as the input is full and reading is on
 * (bufferevent_inbuf_wm_check), and its loop ends no turn meanwhile: for who asks more than he lets be answered,
 * reading is off.
 */
static void read_if_there_is_room(struct control_client *cl)
{
    if (lifetime_over(&cl->life) || cl->ending || cl->asked_all)
        return;
    if (unread(cl) < LIMIT_CONTROL_LINE)
        bufferevent_enable(cl->bev, EV_READ);
    else
        bufferevent_disable(cl->bev, EV_READ);
}

static void close_if_over(struct control_client *cl)
{
    if (lifetime_over(&cl->life) || cl->ending || cl->job != NULL || untaken(cl) > 0 || !cl->asked_all)
        return;
    if (unread(cl) > 0)
        refuse(cl, NO_END, CONTROL_CLOSE_BAD_REQUEST);
    else
        close_client(cl, CONTROL_CLOSE_CLIENT);
}

static void on_read(struct bufferevent *bev, void *arg)
{
    struct control_client *cl = arg;
    struct loop *l = cl->host->loop;

    (void)bev;
    loop_enter(l);
    look_for_request(cl);
    read_if_there_is_room(cl);
    close_if_over(cl);
    settle(cl);
    loop_leave(l);
}

static void go_on(struct control_client *cl)
{
    if (cl->job != NULL) {
        next_piece(cl);
        return;
    }
    look_for_request(cl);
    read_if_there_is_room(cl);
    close_if_over(cl);
}

static void on_written(struct bufferevent *bev, void *arg)
{
    struct control_client *cl = arg;
    struct loop *l = cl->host->loop;

    (void)bev;
    loop_enter(l);
    /* What follows is another request, also if it came with the one before. */
    if (cl->job == NULL && cl->turn == TURN_CLIENT_TAKES)
        begin_turn(cl, TURN_CLIENT_ASKS);
    go_on(cl);
    settle(cl);
    loop_leave(l);
}

static void on_end_of_input(struct control_client *cl)
{
    if (cl->job != NULL || untaken(cl) > 0) {
        cl->asked_all = true;
        bufferevent_disable(cl->bev, EV_READ);
    } else if (unread(cl) > 0) {
        refuse(cl, NO_END, CONTROL_CLOSE_BAD_REQUEST);
    } else {
        close_client(cl, CONTROL_CLOSE_CLIENT);
    }
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct control_client *cl = arg;
    struct loop *l = cl->host->loop;

    (void)bev;
    loop_enter(l);
    if ((what & BEV_EVENT_EOF) != 0)
        on_end_of_input(cl);
    else
        close_client(cl, CONTROL_CLOSE_CLIENT_GONE);
    settle(cl);
    loop_leave(l);
}

/* ---- all of them ---- */

static struct control_client *new_client(struct control_host *h, int fd)
{
    struct control_client *cl = mem_zalloc(sizeof(*cl));

    if (cl == NULL)
        return NULL;
    lifetime_init(&cl->life, h->loop, "client of the control socket");
    lifetime_work_init(&cl->life, &cl->next, LOOP_DEFERRED, on_piece, cl);
    cl->host = h;
    cl->pause = lifetime_timer(&cl->life, on_piece, cl);
    cl->deadline = lifetime_timer(&cl->life, on_deadline, cl);
    if (cl->pause != NULL && cl->deadline != NULL)
        cl->bev = bufferevent_socket_new(loop_base(h->loop), fd, BEV_OPT_CLOSE_ON_FREE);
    if (cl->bev != NULL)
        return cl;
    lifetime_retire(&cl->life, mem_free, cl);
    return NULL;
}

void control_client_serve(struct control_host *h, int fd)
{
    struct control_client *cl = new_client(h, fd);

    if (cl == NULL) {
        tell(h, CONTROL_CLOSE_NO_MEMORY, 0);
        close(fd);
        return;
    }
    list_push_back(&h->clients, &cl->node);
    bufferevent_setcb(cl->bev, on_read, on_written, on_event, cl);
    bufferevent_setwatermark(cl->bev, EV_READ, 0, LIMIT_CONTROL_LINE);
    bufferevent_enable(cl->bev, EV_READ | EV_WRITE);
    begin_turn(cl, TURN_CLIENT_ASKS);
}

/* Both ways, which no read tells while an answer is being made. */
static bool has_left(const struct control_client *cl)
{
    struct pollfd p = {.fd = bufferevent_getfd(cl->bev)};

    return poll(&p, 1, 0) > 0 && (p.revents & POLLHUP) != 0;
}

bool control_client_make_room(struct control_host *h, uint64_t grace_ms)
{
    uint64_t now = loop_now_ms(h->loop);
    struct control_client *first = NULL;

    for (struct list_node *n = list_first(&h->clients); n != NULL; n = list_next(&h->clients, n)) {
        struct control_client *cl = list_entry(n, struct control_client, node);

        if (cl->turn == TURN_WE_WORK && has_left(cl)) {
            close_client(cl, CONTROL_CLOSE_CLIENT_GONE);
            return true;
        }
        if (cl->turn != TURN_WE_WORK && now - cl->since_ms >= grace_ms &&
            (first == NULL || cl->since_ms < first->since_ms))
            first = cl;
    }
    if (first != NULL)
        crowd_out(first);
    return first != NULL;
}

void control_client_close_all(struct control_host *h)
{
    struct list_node *n;

    while ((n = list_first(&h->clients)) != NULL)
        close_client(list_entry(n, struct control_client, node), CONTROL_CLOSE_SHUTDOWN);
}
