/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/control.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <json-c/json.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/nearest.h"
#include "net/listener.h"
#include "net/loop_internal.h"

enum { BACKLOG = 16, JSON_DEPTH = 8, PIECE_BYTES = 1 << 20 };

#define BUSY "{\"v\":1,\"ok\":false,\"error\":\"busy: as many others as there may be are connected\"}\n"
#define TOO_LONG "the answer is too long, or there is no memory for it"
#define SUCCESS "{\"v\":1,\"ok\":true,\"result\":"

struct control {
    struct control_opts opts;
    char *path;
    struct loop *loop;
    struct event_base *base;
    struct listener *listener;
    dev_t device; /* of the file, to know it again */
    ino_t inode;
    bool said; /* that it is gone and cannot be made again */
    struct list clients;
};

struct client {
    struct list_node node;
    struct control *control;
    struct bufferevent *bev;
    bool asked_all; /* it sends nothing more, but still reads (nc -N): its last answers are still due */
    bool ending;    /* closes when the rest of the answer is written */
    const struct control_command *asked; /* of the answer that is being made */
    const struct control_job *kind;      /* of the answer that is being made in pieces; NULL: none is */
    void *job;
    size_t sent;               /* of that, bytes */
    struct loop_deferred next; /* its next piece, when there was nothing to send */
    struct loop_timer *pause;  /* likewise; NULL: not needed so far */
};

/* ---- requests ---- */

static struct json_object *member(const struct json_object *request, const char *name)
{
    struct json_object *v = NULL;

    return json_object_object_get_ex(request, name, &v) ? v : NULL;
}

const char *control_text(const struct json_object *request, const char *name)
{
    struct json_object *v = member(request, name);

    return v != NULL && json_object_is_type(v, json_type_string) ? json_object_get_string(v) : "";
}

int64_t control_number(const struct json_object *request, const char *name, int64_t fallback)
{
    struct json_object *v = member(request, name);

    return v != NULL && json_object_is_type(v, json_type_int) ? json_object_get_int64(v) : fallback;
}

bool control_flag(const struct json_object *request, const char *name)
{
    struct json_object *v = member(request, name);

    return v != NULL && json_object_is_type(v, json_type_boolean) && json_object_get_boolean(v);
}

/* NULL with *err. The line must be one object and nothing behind it. */
static struct json_object *parse(struct slice line, struct err *err)
{
    struct json_tokener *t = json_tokener_new_ex(JSON_DEPTH);
    struct json_object *o;

    if (t == NULL) {
        (void)err_set(err, "out of memory");
        return NULL;
    }
    json_tokener_set_flags(t, JSON_TOKENER_STRICT);
    o = json_tokener_parse_ex(t, line.p, (int)line.n);
    if (o == NULL || json_tokener_get_parse_end(t) != line.n || !json_object_is_type(o, json_type_object)) {
        json_object_put(o);
        o = NULL;
        (void)err_set(err, "a request is one line with a JSON object");
    }
    json_tokener_free(t);
    return o;
}

static const struct control_command *find(const struct control *c, const char *name, struct err *err)
{
    struct nearest n = nearest_to(slice_str(name));

    for (const struct control_command *k = c->opts.commands; k->name != NULL; k++) {
        if (strcmp(k->name, name) == 0)
            return k;
        nearest_try(&n, k->name);
    }
    (void)err_set(err, n.best == NULL ? "unknown command \"%.64s\"" : "unknown command \"%.64s\": did you mean %s?",
                  name, n.best);
    return NULL;
}

/* Either the whole result, or the client has a job from now on. */
static bool begin(struct client *cl, const struct control_command *k, const struct json_object *request,
                  struct buf *result, struct err *err)
{
    void *arg = cl->control->opts.arg;

    cl->asked = k;
    if (k->fn != NULL)
        return k->fn(request, result, err, arg);
    cl->job = k->job->begin(request, err, arg);
    cl->kind = cl->job == NULL ? NULL : k->job;
    return cl->job != NULL;
}

static void log_too_long(const struct client *cl)
{
    log_warning("Answer of the control socket given up: " TOO_LONG, LT("command", cl->asked->name));
}

static bool carry_out(struct client *cl, struct slice line, struct buf *result, struct err *err)
{
    const struct control *c = cl->control;
    struct json_object *request = parse(line, err);
    const struct control_command *k;
    bool ok = false;

    if (request == NULL)
        return false;
    if (control_number(request, "v", 0) != 1) {
        (void)err_set(err, "only version 1 of the protocol is spoken here");
    } else {
        k = find(c, control_text(request, "command"), err);
        ok = k != NULL && begin(cl, k, request, result, err);
        if (ok && result->failed) {
            log_too_long(cl);
            ok = err_set(err, TOO_LONG);
        }
    }
    json_object_put(request);
    return ok;
}

static void answer(struct client *cl, struct slice line)
{
    struct buf result, text;
    struct err err;

    err_clear(&err);
    buf_init(&result, LIMIT_CONTROL_ANSWER);
    buf_init(&text, LIMIT_CONTROL_ANSWER + 4096);
    if (carry_out(cl, line, &result, &err)) {
        buf_append_str(&text, SUCCESS);
        buf_append(&text, buf_slice(&result));
    } else {
        buf_append_str(&text, "{\"v\":1,\"ok\":false,\"error\":\"");
        buf_append_json(&text, slice_str(err.text));
        buf_append_char(&text, '"');
    }
    if (cl->job == NULL)
        buf_append_str(&text, "}\n");
    if (text.failed || bufferevent_write(cl->bev, buf_slice(&text).p, buf_len(&text)) != 0)
        cl->ending = true;
    buf_free(&text);
    buf_free(&result);
}

/* ---- connections ---- */

static void end_job(struct client *cl)
{
    if (cl->job != NULL)
        cl->kind->end(cl->job);
    cl->job = NULL;
    cl->sent = 0;
    loop_defer_cancel(cl->control->loop, &cl->next);
    if (cl->pause != NULL)
        loop_timer_free(cl->pause);
    cl->pause = NULL;
}

static void free_client(struct client *cl)
{
    end_job(cl);
    list_remove(&cl->control->clients, &cl->node);
    bufferevent_free(cl->bev);
    mem_free(cl);
}

static void refuse(struct client *cl, const char *why)
{
    struct evbuffer *out = bufferevent_get_output(cl->bev);

    evbuffer_add_printf(out, "{\"v\":1,\"ok\":false,\"error\":\"%s\"}\n", why);
    bufferevent_disable(cl->bev, EV_READ);
    cl->ending = true;
}

/* Its line cannot be taken back: it ends there, and the next one says why. */
static void break_off(struct client *cl)
{
    log_too_long(cl);
    (void)bufferevent_write(cl->bev, "\n", 1);
    refuse(cl, TOO_LONG);
}

static void next_piece(void *arg);

static void wait_for_piece(struct client *cl)
{
    struct loop *l = cl->control->loop;

    if (cl->kind->pause_ms > 0 && cl->pause == NULL)
        cl->pause = loop_timer_new(l, next_piece, cl);
    if (cl->pause != NULL)
        loop_timer_set(cl->pause, cl->kind->pause_ms);
    else
        loop_defer(l, &cl->next, next_piece, cl);
}

/* One a turn. */
static void next_piece(void *arg)
{
    struct client *cl = arg;
    struct buf piece;
    bool more;

    buf_init(&piece, PIECE_BYTES);
    more = cl->kind->more(cl->job, &piece);
    cl->sent += buf_len(&piece);
    if (!more)
        buf_append_str(&piece, "}\n");
    if (piece.failed || cl->sent > LIMIT_CONTROL_ANSWER)
        break_off(cl);
    else
        cl->ending = bufferevent_write(cl->bev, buf_slice(&piece).p, buf_len(&piece)) != 0;
    if (!more || cl->ending)
        end_job(cl);
    else if (buf_len(&piece) == 0)
        wait_for_piece(cl);
    buf_free(&piece);
    if (cl->ending && evbuffer_get_length(bufferevent_get_output(cl->bev)) == 0)
        free_client(cl);
}

/* One answer at a time: the next request is looked at when the client has taken the last answer. */
static void look_for_request(struct bufferevent *bev, struct client *cl)
{
    struct evbuffer *in = bufferevent_get_input(bev);
    struct evbuffer_ptr end;

    if (cl->ending || cl->job != NULL || evbuffer_get_length(bufferevent_get_output(bev)) > 0)
        return;
    end = evbuffer_search_eol(in, NULL, NULL, EVBUFFER_EOL_LF);
    if (end.pos >= 0) {
        const char *line = (const char *)evbuffer_pullup(in, end.pos + 1);

        if (line != NULL)
            answer(cl, slice_of(line, (size_t)end.pos));
        evbuffer_drain(in, (size_t)end.pos + 1);
    } else if (evbuffer_get_length(in) >= LIMIT_CONTROL_LINE) {
        refuse(cl, "the request is too long");
    }
}

/*
 * libevent asks for the read callback again as long as the input is full and reading is on
 * (bufferevent_inbuf_wm_check), and its loop ends no turn meanwhile: for who asks more than he lets be answered,
 * reading is off.
 */
static void read_if_there_is_room(struct client *cl)
{
    if (cl->ending || cl->asked_all)
        return;
    if (evbuffer_get_length(bufferevent_get_input(cl->bev)) < LIMIT_CONTROL_LINE)
        bufferevent_enable(cl->bev, EV_READ);
    else
        bufferevent_disable(cl->bev, EV_READ);
}

static void on_read(struct bufferevent *bev, void *arg)
{
    struct client *cl = arg;
    struct loop *l = cl->control->loop;

    loop_enter(l);
    look_for_request(bev, cl);
    read_if_there_is_room(cl);
    loop_leave(l);
}

static void go_on(struct bufferevent *bev, struct client *cl)
{
    if (cl->job != NULL) {
        next_piece(cl);
        return;
    }
    if (!cl->ending)
        look_for_request(bev, cl);
    read_if_there_is_room(cl);
    if (cl->job == NULL && evbuffer_get_length(bufferevent_get_output(bev)) == 0 && (cl->ending || cl->asked_all))
        free_client(cl);
}

static void on_written(struct bufferevent *bev, void *arg)
{
    struct client *cl = arg;
    struct loop *l = cl->control->loop;

    loop_enter(l);
    go_on(bev, cl);
    loop_leave(l);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct client *cl = arg;
    bool answering = cl->job != NULL || evbuffer_get_length(bufferevent_get_output(bev)) > 0;

    /* Who reads slowly asks nothing meanwhile; that he reads on, the other timeout watches. */
    if ((what & BEV_EVENT_TIMEOUT) != 0 && (what & BEV_EVENT_READING) != 0 && answering) {
        read_if_there_is_room(cl);
        return;
    }
    if ((what & BEV_EVENT_EOF) != 0 && answering) {
        cl->asked_all = true;
        bufferevent_disable(bev, EV_READ);
        return;
    }
    if ((what & BEV_EVENT_READING) != 0 && (what & (BEV_EVENT_EOF | BEV_EVENT_TIMEOUT)) != 0 && !cl->ending &&
        evbuffer_get_length(bufferevent_get_input(bev)) > 0) {
        refuse(cl, "the request has no end: it is one line");
        return;
    }
    free_client(cl); /* it is over, broken, or took too long */
}

static void on_accept(int fd, void *arg)
{
    const struct timeval patience = {.tv_sec = TIMEOUT_CONTROL_MS / 1000};
    struct control *c = arg;
    struct client *cl;

    cl = c->clients.count < LIMIT_CONTROL_CLIENTS ? mem_zalloc(sizeof(*cl)) : NULL;
    if (cl == NULL) {
        (void)send(fd, BUSY, sizeof(BUSY) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        close(fd);
        return;
    }
    cl->control = c;
    cl->bev = bufferevent_socket_new(c->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (cl->bev == NULL) {
        close(fd);
        mem_free(cl);
        return;
    }
    list_push_back(&c->clients, &cl->node);
    bufferevent_setcb(cl->bev, on_read, on_written, on_event, cl);
    bufferevent_setwatermark(cl->bev, EV_READ, 0, LIMIT_CONTROL_LINE);
    bufferevent_set_timeouts(cl->bev, &patience, &patience);
    bufferevent_enable(cl->bev, EV_READ | EV_WRITE);
}

/* ---- the socket ---- */

static bool to_address(const char *path, struct sockaddr_un *out, struct err *err)
{
    memset(out, 0, sizeof(*out));
    out->sun_family = AF_UNIX;
    if (path[0] != '/' || strlen(path) >= sizeof(out->sun_path))
        return err_set(err, "\"%s\" is not an absolute path of at most %zu bytes", path, sizeof(out->sun_path) - 1);
    memcpy(out->sun_path, path, strlen(path) + 1);
    return true;
}

static int listen_at(const char *path, struct err *err)
{
    struct sockaddr_un addr;
    mode_t before;
    int fd, bound;

    if (!to_address(path, &addr, err))
        return -1;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    (void)unlink(path);
    before = umask(0177);
    bound = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&addr, sizeof(addr));
    (void)umask(before);
    if (bound == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    (void)err_set(err, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Made under another name first: whoever opens the path finds a socket that is listened on, at any moment. */
static int open_socket(struct control *c, struct err *err)
{
    char fresh[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    struct sockaddr_un addr;
    struct stat st;
    int fd;

    if (!to_address(c->path, &addr, err))
        return -1;
    if (snprintf(fresh, sizeof(fresh), "%s.%ld", c->path, (long)getpid()) >= (int)sizeof(fresh)) {
        (void)err_set(err, "\"%s\" is too long", c->path);
        return -1;
    }
    fd = listen_at(fresh, err);
    if (fd < 0)
        return -1;
    if (stat(fresh, &st) == 0 && rename(fresh, c->path) == 0) {
        c->device = st.st_dev;
        c->inode = st.st_ino;
        return fd;
    }
    (void)err_set(err, "%s: %s", c->path, strerror(errno));
    (void)unlink(fresh);
    close(fd);
    return -1;
}

struct control *control_new(struct loop *l, const struct control_opts *o, struct err *err)
{
    struct control *c = must_zalloc(sizeof(*c));
    int fd;

    c->opts = *o;
    c->path = must_strdup(o->path);
    c->loop = l;
    c->base = loop_base(l);
    list_init(&c->clients);
    fd = open_socket(c, err);
    if (fd >= 0) {
        c->listener = listener_adopt(l, fd, on_accept, c, err);
        if (c->listener != NULL)
            return c;
    }
    control_free(c);
    return NULL;
}

void control_keep(struct control *c)
{
    struct listener *fresh = NULL;
    struct stat st;
    struct err err;
    int fd;

    if (lstat(c->path, &st) == 0 || errno != ENOENT)
        return;
    err_clear(&err);
    fd = open_socket(c, &err);
    if (fd >= 0)
        fresh = listener_adopt(c->loop, fd, on_accept, c, &err);
    if (fresh != NULL) {
        listener_close(c->listener);
        c->listener = fresh;
        log_warning("The control socket had been removed, and is there again", LT("path", c->path));
    } else if (!c->said) {
        log_warning("The control socket was removed, and cannot be made again: mvproxyctl cannot be used",
                    LT("err", err.text));
    }
    c->said = fresh == NULL;
}

void control_free(struct control *c)
{
    struct list_node *n;
    struct stat st;

    if (c == NULL)
        return;
    if (c->inode != 0 && lstat(c->path, &st) == 0 && st.st_dev == c->device && st.st_ino == c->inode)
        (void)unlink(c->path);
    listener_close(c->listener);
    while ((n = list_first(&c->clients)) != NULL)
        free_client(list_entry(n, struct client, node));
    mem_free(c->path);
    mem_free(c);
}
