/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/contract.h"
#include "base/limits.h"
#include "base/log_out.h"
#include "base/utf8.h"

enum {
    LAST_WORDS_MS = 250, /* that a process which ends waits for whoever reads its log */
    WAIT_MS = 10,
    SHORT_VALUE = 1 << 10,     /* where the line would be too long: 32 such pairs are none */
    PAIRS_CUT_BYTES = 1 << 10, /* the names of the values that were cut */
};

/* The logger's own state: the documented exception to "no mutable globals". No memory is ever allocated here. */
static struct {
    struct log_out out; /* no stream: stderr, not looked at yet */
    enum log_format format;
    int verbosity;
    bool buffered;
    bool priorities; /* lines start with <N> for the journal */
    int pid;
    time_t second; /* of the cached date */
    char date[32];
    char storage[LIMIT_LOG_BUFFER];
    size_t used;
    uint64_t dropped; /* lines, in all */
    uint64_t unread;  /* of them, since that was last said: nobody read in time */
    uint64_t failed;  /* likewise: they could not be written */
    int error;        /* why the last of these could not */
} logger;

/* What is not taken stays, in order. Nobody at the other end, a full disk: as if it had been written. */
static bool write_out(void)
{
    uint64_t lines = 0;
    int error;
    size_t done = log_out_write(&logger.out, logger.storage, logger.used, &error);

    if (error != 0) {
        for (size_t i = done; i < logger.used; i++)
            lines += logger.storage[i] == '\n';
        logger.dropped += lines;
        logger.failed += lines;
        logger.error = error;
        done = logger.used;
    }
    logger.used -= done;
    if (done > 0)
        memmove(logger.storage, logger.storage + done, logger.used);
    return error == 0;
}

static void say_dropped(void);

void log_flush(void)
{
    if (logger.used > 0 && write_out() && logger.used == 0 && logger.unread + logger.failed > 0)
        say_dropped();
}

void log_finish(void)
{
    log_flush();
    for (unsigned ms = 0; logger.used > 0 && ms < LAST_WORDS_MS; ms += WAIT_MS) {
        log_out_wait(&logger.out, WAIT_MS);
        log_flush();
    }
}

uint64_t log_dropped(void)
{
    return logger.dropped;
}

/* systemd names the device and inode of the journal's socket; stderr may have been redirected since. */
static bool is_journal(FILE *f)
{
    const char *names = getenv("JOURNAL_STREAM");
    struct slice rest = slice_str(names), field;
    uint64_t dev, ino;
    struct stat st;
    int fd = fileno(f);

    if (fd < 0 || fstat(fd, &st) != 0)
        return false;
    if (!slice_split(&rest, ':', &field) || !slice_u64(field, &dev) || !slice_u64(rest, &ino))
        return false;
    return st.st_dev == dev && st.st_ino == ino;
}

static void say_broken(const char *file, int line, const char *what)
{
    log_emit(LOG_FATAL, 0, file, line, "An invariant does not hold", LOG_KVS(LT("condition", what)));
}

void log_set_stream(FILE *f)
{
    contract_set_words(say_broken);
    log_finish();
    logger.used = 0;
    log_out_open(&logger.out, f);
    logger.priorities = is_journal(f);
    logger.pid = (int)getpid();
    logger.second = 0;
}

void log_set_verbosity(int v)
{
    logger.verbosity = v;
}

int log_verbosity(void)
{
    return logger.verbosity;
}

bool log_enabled(int verbosity)
{
    return verbosity <= logger.verbosity;
}

void log_set_format(enum log_format format)
{
    logger.format = format;
}

void log_set_buffered(bool on)
{
    logger.buffered = on;
    if (!on)
        log_flush();
}

/* ---- lines ---- */

struct event {
    enum log_level level;
    int verbosity;
    const char *file; /* basename */
    int line;
    int64_t wall_us;
    const char *msg;
    const struct log_kv *kv;
};

static void put_escaped(struct buf *b, struct slice bytes, uint32_t code)
{
    switch (code) {
    case '\n':
        buf_append(b, SLICE_LIT("\\n"));
        break;
    case '\r':
        buf_append(b, SLICE_LIT("\\r"));
        break;
    case '\t':
        buf_append(b, SLICE_LIT("\\t"));
        break;
    case '"':
        buf_append(b, SLICE_LIT("\\\""));
        break;
    case '\\':
        buf_append(b, SLICE_LIT("\\\\"));
        break;
    default:
        if (!utf8_unprintable(code))
            buf_append(b, bytes);
        else
            buf_printf(b, code < 0x80 ? "\\x%02x" : "\\u%04x", code);
    }
}

/* One character, or a byte (n is 0) that is of none. As Go's %q, which is what klog prints values with. */
static void put_text_char(struct buf *b, struct slice s, size_t n, uint32_t code)
{
    if (n == 0)
        buf_printf(b, "\\x%02x", (unsigned char)s.p[0]);
    else
        put_escaped(b, slice_of(s.p, n), code);
}

static void put_json_char(struct buf *b, struct slice s, size_t n, uint32_t code)
{
    if (n > 1 && utf8_unprintable(code))
        buf_printf(b, "\\u%04x", code);
    else
        buf_append_json(b, slice_of(s.p, n == 0 ? 1 : n));
}

/* Bytes at the front that stand for themselves in either format. */
static size_t plain(struct slice s)
{
    size_t n = 0;

    while (n < s.n && s.p[n] >= ' ' && s.p[n] < 0x7f && s.p[n] != '"' && s.p[n] != '\\')
        n++;
    return n;
}

/* Puts the character at the front, or all up to the next that has to be escaped. What it took of s. */
static size_t put_some(struct buf *b, struct slice s, size_t room)
{
    size_t n = plain(s);
    uint32_t code = 0;

    if (n > 0) {
        buf_append(b, slice_of(s.p, n < room ? n : room));
        return n < room ? n : room;
    }
    n = utf8_next(s, &code);
    (logger.format == LOG_JSON ? put_json_char : put_text_char)(b, s, n, code);
    return n == 0 ? 1 : n;
}

/* In at most `room` bytes between its quotes, the last character whole. False: there was more. */
static bool put_string(struct buf *b, struct slice s, size_t room)
{
    size_t start, before;

    buf_append_char(b, '"');
    for (start = b->end; s.n > 0 && b->end - start < room && !b->failed;) {
        size_t taken;

        before = b->end;
        taken = put_some(b, s, room - (before - start));
        if (b->end - start > room) {
            b->end = before; /* an escape that did not fit */
            break;
        }
        s = slice_from(s, taken);
    }
    buf_append_char(b, '"');
    return s.n == 0;
}

/* As klog prints a list of strings: in JSON, whatever the format of the line. */
static bool put_list(struct buf *b, const struct log_kv *kv, size_t room)
{
    size_t start = b->end;
    bool all = true;

    buf_append_char(b, '[');
    for (size_t i = 0; i < kv->u && all; i++) {
        all = b->end - start < room;
        if (i > 0 && all)
            buf_append_char(b, ',');
        all = all && put_string(b, kv->list[i], room - (b->end - start));
    }
    buf_append_char(b, ']');
    return all;
}

static bool put_value(struct buf *b, const struct log_kv *kv, size_t room)
{
    switch (kv->kind) {
    case LOG_KV_TEXT:
        return put_string(b, kv->text, room);
    case LOG_KV_LIST:
        return put_list(b, kv, room);
    case LOG_KV_UINT:
        return buf_append_u64(b, kv->u);
    case LOG_KV_INT:
        return buf_printf(b, "%lld", (long long)kv->i);
    case LOG_KV_BOOL:
        break;
    }
    return buf_append_str(b, kv->u != 0 ? "true" : "false");
}

static void put_key(struct buf *b, const char *key)
{
    if (logger.format == LOG_JSON)
        buf_printf(b, ",\"%s\":", key);
    else
        buf_printf(b, " %s=", key);
}

/* Which values were cut is said by a pair behind them: nothing in a value can claim it. */
static void put_pairs(struct buf *b, const struct log_kv *kv, size_t room)
{
    char cut[PAIRS_CUT_BYTES];
    struct buf names = {.p = cut, .cap = sizeof(cut), .ceiling = sizeof(cut)};

    for (; kv != NULL && kv->key != NULL; kv++) {
        put_key(b, kv->key);
        if (!put_value(b, kv, room))
            buf_printf(&names, "%s%s", buf_len(&names) == 0 ? "" : ",", kv->key);
    }
    if (buf_len(&names) == 0)
        return;
    put_key(b, "truncated");
    (void)put_string(b, buf_slice(&names), sizeof(cut) + 2);
}

static void put_text_line(struct buf *b, const struct event *e, size_t room)
{
    time_t second = (time_t)(e->wall_us / 1000000);

    if (second != logger.second) {
        struct tm tm = {0};

        localtime_r(&second, &tm);
        strftime(logger.date, sizeof(logger.date), "%m%d %H:%M:%S", &tm);
        logger.second = second;
    }
    buf_printf(b, "%c%s.%06u %7d %s:%d] ", "FEWI"[e->level], logger.date, (unsigned)(e->wall_us % 1000000), logger.pid,
               e->file, e->line);
    (void)put_string(b, slice_str(e->msg), room);
    put_pairs(b, e->kv, room);
}

/* The members and their order as k8s.io/component-base/logs/json writes them: only errors have no "v". */
static void put_json_line(struct buf *b, const struct event *e, size_t room)
{
    buf_printf(b, "{\"ts\":%lld.%03u,\"caller\":", (long long)(e->wall_us / 1000), (unsigned)(e->wall_us % 1000));
    buf_append_char(b, '"');
    buf_append_json(b, slice_str(e->file));
    buf_printf(b, ":%d\",\"msg\":", e->line);
    (void)put_string(b, slice_str(e->msg), room);
    if (e->level != LOG_ERROR && e->level != LOG_FATAL)
        buf_printf(b, ",\"v\":%d", e->verbosity);
    put_pairs(b, e->kv, room);
    buf_append_char(b, '}');
}

static int priority(const struct event *e)
{
    switch (e->level) {
    case LOG_FATAL:
        return 2;
    case LOG_ERROR:
        return 3;
    case LOG_WARNING:
        return 4;
    case LOG_INFO:
        break;
    }
    return e->verbosity >= 4 ? 7 : 6;
}

/* Formats into what is left of the storage, `room` bytes a value; false if it does not fit. */
static bool put_event(const struct event *e, size_t room)
{
    /* A buffer whose memory is given and as large as its ceiling never allocates. */
    struct buf b = {.p = logger.storage, .end = logger.used, .cap = LIMIT_LOG_BUFFER, .ceiling = LIMIT_LOG_BUFFER};

    if (logger.priorities)
        buf_printf(&b, "<%d>", priority(e));
    if (logger.format == LOG_JSON)
        put_json_line(&b, e, room);
    else
        put_text_line(&b, e, room);
    buf_append_char(&b, '\n');
    if (b.failed || b.end - logger.used > LIMIT_LOG_LINE)
        return false;
    logger.used = b.end;
    return true;
}

/* False: that cannot be written either, and is still to be said. */
static bool say_lost(uint64_t *lines, const char *why)
{
    struct event e = {LOG_WARNING,
                      0,
                      "log.c",
                      __LINE__,
                      clock_wall_us(),
                      "Log lines dropped",
                      LOG_KVS(LU("lines", *lines), LT("err", why))};

    (void)put_event(&e, LIMIT_LOG_VALUE);
    if (!write_out())
        return false;
    *lines = 0;
    return true;
}

/* There is room: what waited is written. */
static void say_dropped(void)
{
    if (logger.unread > 0 && !say_lost(&logger.unread, "nobody read them in time"))
        return;
    if (logger.failed > 0)
        (void)say_lost(&logger.failed, strerror(logger.error));
}

/* Into the storage, after what waits there; false: it is full, and nobody takes anything. */
static bool keep_event(const struct event *e)
{
    if (put_event(e, LIMIT_LOG_VALUE))
        return true;
    log_flush();
    return put_event(e, LIMIT_LOG_VALUE) || put_event(e, SHORT_VALUE);
}

void log_emit(enum log_level level, int verbosity, const char *file, int line, const char *msg, const struct log_kv *kv)
{
    const char *slash = strrchr(file, '/');
    struct event e = {level, verbosity, slash == NULL ? file : slash + 1, line, clock_wall_us(), msg, kv};

    if (!log_enabled(verbosity))
        return;
    if (logger.out.stream == NULL)
        log_set_stream(stderr);
    if (!keep_event(&e)) {
        logger.dropped++;
        logger.unread++;
    }
    if (level == LOG_FATAL)
        log_finish();
    else if (!logger.buffered || level != LOG_INFO)
        log_flush();
}
