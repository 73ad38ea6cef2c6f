/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/yaml_text.h"

#include <yaml.h>

#include "kube/jscan.h"

enum { TEXT_BYTES = 1 << 20 };

/* A container that is open. */
struct level {
    bool is_object, first;
};

struct writer {
    yaml_emitter_t emitter;
    struct jscan in;
    struct arena *texts; /* of one scalar, where it has escapes */
    struct level levels[YAML_TEXT_DEPTH];
    size_t depth;
};

static int on_text(void *out, unsigned char *text, size_t n)
{
    return buf_append(out, slice_of((const char *)text, n)) ? 1 : 0;
}

/* ---- scalars ---- */

static bool is_word_of_yaml(struct slice s)
{
    static const struct slice words[] = {SLICE_LIT("y"),    SLICE_LIT("n"),     SLICE_LIT("yes"),
                                         SLICE_LIT("no"),   SLICE_LIT("on"),    SLICE_LIT("off"),
                                         SLICE_LIT("true"), SLICE_LIT("false"), SLICE_LIT("null")};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (slice_ieq(s, words[i]))
            return true;
    return false;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Nobody takes it for anything but this string: no number, time, truth or mark of YAML's. */
static bool is_plain(struct slice s)
{
    if (s.n == 0 || (!is_letter(s.p[0]) && s.p[0] != '/') || is_word_of_yaml(s))
        return false;
    for (size_t i = 1; i < s.n; i++)
        if (!is_letter(s.p[i]) && !(s.p[i] >= '-' && s.p[i] <= '9') && s.p[i] != '_')
            return false;
    return true;
}

static bool emit_scalar(struct writer *w, struct slice text, bool is_string)
{
    bool plain = !is_string || is_plain(text);
    yaml_event_t event;

    return yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text.p, (int)text.n, plain, !plain,
                                        plain ? YAML_PLAIN_SCALAR_STYLE : YAML_DOUBLE_QUOTED_SCALAR_STYLE) == 1 &&
           yaml_emitter_emit(&w->emitter, &event) == 1;
}

static bool emit_string(struct writer *w, const struct jscan_value *v)
{
    struct slice text;

    arena_reset(w->texts);
    return jscan_text(w->texts, v, &text) && emit_scalar(w, text, true);
}

/* ---- containers ---- */

static bool emit_begin(struct writer *w, bool is_object)
{
    yaml_event_t event;
    int made = is_object ? yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE)
                         : yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE);

    return made == 1 && yaml_emitter_emit(&w->emitter, &event) == 1;
}

static bool emit_end(struct writer *w, bool is_object)
{
    yaml_event_t event;
    int made = is_object ? yaml_mapping_end_event_initialize(&event) : yaml_sequence_end_event_initialize(&event);

    return made == 1 && yaml_emitter_emit(&w->emitter, &event) == 1;
}

static bool enter(struct writer *w, bool is_object)
{
    struct level *l = &w->levels[w->depth];

    if (w->depth == YAML_TEXT_DEPTH)
        return false;
    l->is_object = is_object;
    w->depth++;
    return (is_object ? jscan_enter_object(&w->in, &l->first) : jscan_enter_array(&w->in, &l->first)) &&
           emit_begin(w, is_object);
}

static bool put_value(struct writer *w)
{
    enum jscan_type type;
    struct jscan_value v;

    if (!jscan_peek(&w->in, &type))
        return false;
    if (type == JSCAN_OBJECT || type == JSCAN_ARRAY)
        return enter(w, type == JSCAN_OBJECT);
    if (!jscan_value(&w->in, &v))
        return false;
    return type == JSCAN_STRING ? emit_string(w, &v) : emit_scalar(w, v.raw, false);
}

/* The next member or element of the innermost container, or its end. */
static bool step(struct writer *w)
{
    struct level *l = &w->levels[w->depth - 1];
    struct jscan_value key;

    if (l->is_object ? jscan_member(&w->in, &l->first, &key) : jscan_element(&w->in, &l->first))
        return (!l->is_object || emit_string(w, &key)) && put_value(w);
    w->depth--;
    return w->in.error == NULL && emit_end(w, l->is_object);
}

/* ---- the document ---- */

static bool emit_frame(struct writer *w, bool begin)
{
    yaml_event_t event;
    int made;

    if (begin && (yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) != 1 ||
                  yaml_emitter_emit(&w->emitter, &event) != 1))
        return false;
    made = begin ? yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1)
                 : yaml_document_end_event_initialize(&event, 1);
    return made == 1 && yaml_emitter_emit(&w->emitter, &event) == 1 &&
           (begin || (yaml_stream_end_event_initialize(&event) == 1 && yaml_emitter_emit(&w->emitter, &event) == 1));
}

static bool put_document(struct writer *w)
{
    if (!emit_frame(w, true) || !put_value(w))
        return false;
    while (w->depth > 0)
        if (!step(w))
            return false;
    return jscan_end(&w->in) && emit_frame(w, false);
}

bool yaml_text_from_json(struct slice json, struct buf *out)
{
    struct writer w = {.texts = arena_new(TEXT_BYTES)};
    bool ok = w.texts != NULL && yaml_emitter_initialize(&w.emitter) == 1;

    if (ok) {
        yaml_emitter_set_output(&w.emitter, on_text, out);
        yaml_emitter_set_unicode(&w.emitter, 1);
        yaml_emitter_set_width(&w.emitter, -1);
        jscan_init(&w.in, json, YAML_TEXT_DEPTH);
        ok = put_document(&w);
        yaml_emitter_delete(&w.emitter);
    }
    arena_free(w.texts);
    out->failed = out->failed || !ok;
    return ok;
}
