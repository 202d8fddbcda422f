/*
 * What distinguishes two groups of regions, in words, from the texts of their fingerprints (src/kernel/fingerprint.c):
 *
 *     contract on x86-64-v4, 64 bytes, 32 registers
 *     input 1: f32[768,3072] constant
 *     2 = matmul(0, 1) {acc=f32, packed=0}: f32[s0,3072], anchor
 *     symbol s0: 1 to 32
 *
 * Lines consist of tokens: words, and single other characters. Texts of the same lines and numbers of tokens are compared
 * token by token; of others, the operators are compared.
 */
#include <stdlib.h>
#include <string.h>

#include "inspect/inspect.h"

/* More differences than this: not nearly equal. */
enum { MOST_TOKENS = 8, MOST_OPERATORS = 3 };

struct token {
    const char *at;
    int length;
};

static bool is_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || strchr("_.+*-/", c);
}

/* The next token of a line; its length is 0 at the end. */
static struct token next_token(const char **line) {
    while (**line == ' ')
        ++*line;
    struct token t = {*line, 0};
    if (!**line || **line == '\n') return t;
    do {
        ++*line;
        t.length++;
    } while (is_word(*t.at) && **line && is_word(**line));
    return t;
}

static bool same(struct token a, struct token b) {
    return a.length == b.length && memcmp(a.at, b.at, (size_t)a.length) == 0;
}

static bool is_token(struct token t, const char *text) {
    return (size_t)t.length == strlen(text) && memcmp(t.at, text, (size_t)t.length) == 0;
}

static const char *next_line(const char *text) {
    const char *end = strchr(text, '\n');
    return end ? end + 1 : text + strlen(text);
}

/* ---- Token by token ---------------------------------------------------------------------------------------------- */

/* Where in a line a token is. */
struct place {
    struct token head;   /* "input", or the number of a result */
    struct token second; /* of "input 1": 1 */
    struct token op;     /* of a result */
    struct token attr;   /* name of the attribute that it belongs to */
    bool in_type;        /* behind the colon */
    bool in_dims;        /* within the brackets */
    int index;           /* of the element of a list, or of the dim */
};

/* "symbol s0: 1 to 32, usually 8" */
static void name_bound(struct place *p, struct token t) {
    p->in_type = false;
    if (is_token(t, ":")) p->attr = (struct token){"least", 5};
    if (is_token(t, "to")) p->attr = (struct token){"most", 4};
    if (is_token(t, "usually")) p->attr = (struct token){"usually", 7};
}

static void advance(struct place *p, struct token t, struct token before) {
    if (!p->head.length)
        p->head = t;
    else if (!p->second.length)
        p->second = t;
    if (is_token(t, "(") && !p->op.length) p->op = before;
    if (is_token(t, "=")) p->attr = p->in_type ? (struct token){"value", 5} : before, p->index = 0, p->in_type = false;
    if (is_token(t, "[")) p->in_dims = true, p->index = 0;
    if (is_token(t, "]")) p->in_dims = false;
    if (is_token(t, ",")) p->index++;
    if (is_token(t, ":")) p->in_type = true, p->attr.length = 0;
    if (is_token(p->head, "symbol")) name_bound(p, t);
}

static char *where(const struct place *p) {
    char *thing = is_token(p->head, "input") || is_token(p->head, "symbol") || is_token(p->head, "output")
                      ? cli_format("%.*s %.*s", p->head.length, p->head.at, p->second.length, p->second.at)
                  : p->op.length ? cli_format("%.*s", p->op.length, p->op.at)
                                 : NULL;
    char *text;
    if (!thing) return cli_strdup("operator");
    if (p->in_type && p->in_dims)
        text = cli_format("%s, dim %d", thing, p->index);
    else if (p->in_type)
        text = cli_format("%s, type", thing);
    else if (p->attr.length && p->in_dims)
        text = cli_format("%s, %.*s %d", thing, p->attr.length, p->attr.at, p->index);
    else if (p->attr.length)
        text = cli_format("%s, %.*s", thing, p->attr.length, p->attr.at);
    else
        text = cli_format("%s", thing);
    free(thing);
    return text;
}

static void add_difference(json_t *to, const struct place *p, struct token a, struct token b) {
    char *place = where(p);
    char *text = cli_format("%s: %.*s instead of %.*s", place, a.length, a.at, b.length, b.at);
    json_array_append_new(to, json_string(text));
    free(place);
    free(text);
}

/* Is this the value of a literal operand? It stands with the inputs too. */
static bool is_operand(const struct place *p) {
    return p->op.length && p->attr.length && *p->attr.at >= '0' && *p->attr.at <= '9';
}

/* Compares two lines; false if they have not the same number of tokens. The types of results follow from all others and
 * are not told. */
static bool compare_lines(const char *a, const char *b, json_t *to) {
    struct place p = {0};
    struct token before = {"", 0};
    for (;;) {
        struct token x = next_token(&a), y = next_token(&b);
        if (!x.length || !y.length) return x.length == y.length;
        bool result = p.op.length && p.in_type;
        bool told = is_operand(&p) && json_array_size(to) > 0;
        if (!same(x, y) && !result && !told) add_difference(to, &p, x, y);
        advance(&p, x, before);
        before = x;
    }
}

static json_t *compare_texts(const char *a, const char *b) {
    json_t *to = json_array();
    bool alike = true;
    for (; alike && (*a || *b); a = next_line(a), b = next_line(b))
        alike = *a && *b && compare_lines(a, b, to) && json_array_size(to) <= MOST_TOKENS;
    if (alike) return to;
    json_decref(to);
    return NULL;
}

/* ---- By operators ------------------------------------------------------------------------------------------------ */

/* The operator of a line that has one: "2 = matmul(". */
static struct token operator_of(const char *line) {
    struct token number = next_token(&line), t = next_token(&line);
    if (!number.length || !is_token(t, "=")) return (struct token){"", 0};
    return next_token(&line);
}

static int count_operator(const char *text, struct token op) {
    int count = 0;
    for (; *text; text = next_line(text))
        count += same(operator_of(text), op);
    return count;
}

static bool is_first(const char *text, const char *line, struct token op) {
    for (; text < line; text = next_line(text)) {
        if (same(operator_of(text), op)) return false;
    }
    return true;
}

/* Adds the operators that `a` has more of than `b`; returns how many it has more. */
static int add_operators(const char *a, const char *b, const char *words, json_t *to) {
    int more = 0;
    for (const char *line = a; *line; line = next_line(line)) {
        struct token op = operator_of(line);
        int n = op.length && is_first(a, line, op) ? count_operator(a, op) - count_operator(b, op) : 0;
        if (n <= 0) continue;
        char *text = n > 1 ? cli_format("%s %.*s, %d times", words, op.length, op.at, n)
                           : cli_format("%s %.*s", words, op.length, op.at);
        json_array_append_new(to, json_string(text));
        free(text);
        more += n;
    }
    return more;
}

static int count_operators(const char *text) {
    int count = 0;
    for (; *text; text = next_line(text))
        count += operator_of(text).length > 0;
    return count;
}

static json_t *compare_operators(const char *a, const char *b) {
    json_t *to = json_array();
    int more = add_operators(a, b, "computes also", to), less = add_operators(b, a, "does not compute", to);
    int all = count_operators(a) + count_operators(b);
    if (more + less > 0 && more <= MOST_OPERATORS && less <= MOST_OPERATORS && 2 * (more + less) < all) return to;
    json_decref(to);
    return NULL;
}

/* ---- Pairs ------------------------------------------------------------------------------------------------------- */

/* Of the families and targets that the first lines tell. */
static bool same_kind(const char *a, const char *b) {
    size_t length = (size_t)(next_line(a) - a);
    return length == (size_t)(next_line(b) - b) && memcmp(a, b, length) == 0;
}

/* The group before `index` that differs least from it. */
static json_t *nearest(const json_t *groups, size_t index) {
    const char *text = json_text(json_array_get(groups, index), "text");
    json_t *best = NULL;
    size_t from = 0;
    for (int pass = 0; pass < 2 && !best; pass++) {
        for (size_t i = 0; i < index; i++) {
            const char *other = json_text(json_array_get(groups, i), "text");
            if (!same_kind(text, other)) continue;
            json_t *what = pass ? compare_operators(text, other) : compare_texts(text, other);
            bool nearer = what && (!best || json_array_size(what) < json_array_size(best));
            json_t *worse = nearer ? best : what;
            if (nearer) best = what, from = i;
            json_decref(worse);
        }
    }
    if (!best) return NULL;
    return json_pack("{s:I, s:I, s:o}", "group", (json_int_t)index, "from", (json_int_t)from, "what", best);
}

json_t *inspect_differences(const json_t *groups) {
    json_t *differences = json_array();
    for (size_t i = 0; i < json_array_size(groups); i++) {
        json_t *difference = nearest(groups, i);
        if (difference) json_array_append_new(differences, difference);
    }
    return differences;
}
