/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log_out.h"
#include "base/utf8.h"

enum {
    LAST_WORDS_MS = 250, /* that a process which ends waits for whoever reads its log */
    WAIT_MS = 10,
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
    uint64_t unsaid;  /* of them: since that was last said */
} logger;

static void drop(uint64_t lines)
{
    logger.dropped += lines;
    logger.unsaid += lines;
}

/* What is not taken stays, in order. Nobody at the other end: as if it had been written. */
static bool write_out(void)
{
    bool broken;
    size_t done = log_out_write(&logger.out, logger.storage, logger.used, &broken);

    if (broken) {
        for (size_t i = done; i < logger.used; i++)
            drop(logger.storage[i] == '\n');
        done = logger.used;
    }
    logger.used -= done;
    if (logger.used > 0 && done > 0)
        memmove(logger.storage, logger.storage + done, logger.used);
    return !broken;
}

static void say_dropped(void);

void log_flush(void)
{
    if (logger.used > 0 && write_out() && logger.used == 0 && logger.unsaid > 0)
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

void log_set_stream(FILE *f)
{
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

/* ------------------------------------------------------------------------------------------------------------ lines */

struct event {
    enum log_level level;
    int verbosity;
    const char *file; /* basename */
    int line;
    int64_t wall_us;
    const char *msg;
    const struct log_kv *kv;
};

/* Characters that a terminal would act upon or that hide text: controls, and the invisible and direction marks. */
static bool is_unprintable(uint32_t code)
{
    return code < ' ' || (code >= 0x7f && code <= 0xa0) || (code >= 0x200b && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) || code == 0xfeff;
}

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
        if (!is_unprintable(code))
            buf_append(b, bytes);
        else
            buf_printf(b, code < 0x80 ? "\\x%02x" : "\\u%04x", code);
    }
}

/* As Go's %q, which is what klog prints values with. */
static void put_quoted(struct buf *b, struct slice s)
{
    buf_append_char(b, '"');
    while (s.n > 0) {
        uint32_t code;
        size_t n = utf8_next(s, &code);

        if (n == 0)
            buf_printf(b, "\\x%02x", (unsigned char)s.p[0]);
        else
            put_escaped(b, slice_of(s.p, n), code);
        s = slice_from(s, n == 0 ? 1 : n);
    }
    buf_append_char(b, '"');
}

static void put_json_string(struct buf *b, struct slice s)
{
    buf_append_char(b, '"');
    buf_append_json(b, s);
    buf_append_char(b, '"');
}

static void put_value(struct buf *b, const struct log_kv *kv, void (*put_text)(struct buf *b, struct slice s))
{
    struct slice text = kv->text;

    switch (kv->kind) {
    case LOG_KV_TEXT:
        if (text.n > LIMIT_LOG_VALUE)
            text.n = LIMIT_LOG_VALUE;
        put_text(b, text);
        break;
    case LOG_KV_UINT:
        buf_append_u64(b, kv->u);
        break;
    case LOG_KV_INT:
        buf_printf(b, "%lld", (long long)kv->i);
        break;
    case LOG_KV_BOOL:
        buf_append_str(b, kv->u != 0 ? "true" : "false");
        break;
    }
}

static void put_text_line(struct buf *b, const struct event *e)
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
    put_quoted(b, slice_str(e->msg));
    for (const struct log_kv *kv = e->kv; kv != NULL && kv->key != NULL; kv++) {
        buf_append_char(b, ' ');
        buf_append_str(b, kv->key);
        buf_append_char(b, '=');
        put_value(b, kv, put_quoted);
    }
}

/* The members and their order as k8s.io/component-base/logs/json writes them: only errors have no "v". */
static void put_json_line(struct buf *b, const struct event *e)
{
    buf_printf(b, "{\"ts\":%lld.%03u,\"caller\":", (long long)(e->wall_us / 1000), (unsigned)(e->wall_us % 1000));
    buf_append_char(b, '"');
    buf_append_json(b, slice_str(e->file));
    buf_printf(b, ":%d\",\"msg\":", e->line);
    put_json_string(b, slice_str(e->msg));
    if (e->level != LOG_ERROR && e->level != LOG_FATAL)
        buf_printf(b, ",\"v\":%d", e->verbosity);
    for (const struct log_kv *kv = e->kv; kv != NULL && kv->key != NULL; kv++) {
        buf_append_char(b, ',');
        put_json_string(b, slice_str(kv->key));
        buf_append_char(b, ':');
        put_value(b, kv, put_json_string);
    }
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

/* Formats into what is left of the storage; false if it does not fit. */
static bool put_event(const struct event *e)
{
    /* A buffer whose memory is given and as large as its ceiling never allocates. */
    struct buf b = {.p = logger.storage, .end = logger.used, .cap = LIMIT_LOG_BUFFER, .ceiling = LIMIT_LOG_BUFFER};

    if (logger.priorities)
        buf_printf(&b, "<%d>", priority(e));
    if (logger.format == LOG_JSON)
        put_json_line(&b, e);
    else
        put_text_line(&b, e);
    buf_append_char(&b, '\n');
    if (b.failed)
        return false;
    logger.used = b.end;
    return true;
}

/* There is room: what waited is written. */
static void say_dropped(void)
{
    struct event e = {LOG_WARNING,
                      0,
                      "log.c",
                      __LINE__,
                      clock_wall_us(),
                      "Log lines dropped, because nobody read them in time",
                      LOG_KVS(LU("lines", logger.unsaid))};

    logger.unsaid = 0;
    (void)put_event(&e);
    (void)write_out();
}

/* Into the storage, after what waits there; false: it is full, and nobody takes anything. */
static bool keep_event(struct event *e)
{
    if (put_event(e))
        return true;
    log_flush();
    if (put_event(e))
        return true;
    if (logger.used > LIMIT_LOG_BUFFER / 2)
        return false;
    e->kv = NULL; /* pairs beyond all measure */
    return put_event(e);
}

void log_emit(enum log_level level, int verbosity, const char *file, int line, const char *msg, const struct log_kv *kv)
{
    const char *slash = strrchr(file, '/');
    struct event e = {level, verbosity, slash == NULL ? file : slash + 1, line, clock_wall_us(), msg, kv};

    if (!log_enabled(verbosity))
        return;
    if (logger.out.stream == NULL)
        log_set_stream(stderr);
    if (!keep_event(&e))
        drop(1);
    if (level == LOG_FATAL)
        log_finish();
    else if (!logger.buffered || level != LOG_INFO)
        log_flush();
}

void contract_broken(const char *file, int line, const char *what)
{
    log_emit(LOG_FATAL, 0, file, line, "An invariant does not hold", LOG_KVS(LT("condition", what)));
    abort();
}
