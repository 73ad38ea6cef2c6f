#include "cluster/alike.h"

void alike_init(struct alike *a, const struct disco *const *servers, size_t n)
{
    *a = (struct alike){.servers = servers, .n = n, .at = 1};
}

static struct slice body(const struct alike *a, size_t server)
{
    return disco_doc_raw(disco_apis(a->servers[server]));
}

enum alike_answer alike_step(struct alike *a, size_t budget)
{
    for (; a->at < a->n; a->at++, a->at_byte = 0) {
        struct slice first = body(a, 0), other = body(a, a->at);
        size_t piece = first.n - a->at_byte;

        if (first.n != other.n)
            return ALIKE_NO;
        if (first.p == other.p)
            continue;
        if (piece > budget)
            piece = budget;
        if (memcmp(first.p + a->at_byte, other.p + a->at_byte, piece) != 0)
            return ALIKE_NO;
        a->at_byte += piece;
        budget -= piece;
        if (a->at_byte < first.n)
            return ALIKE_MORE;
    }
    return ALIKE_YES;
}
