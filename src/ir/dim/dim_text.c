/*
 * The text of symbolic integers: "2*batch*seq+1", "floor((h+1)/2)", "mod(n,8)", "min(a,b)". Names that are not
 * identifiers, or are keywords of this notation, are in double quotes, with \" \\ and \xHH escaped.
 *
 *     sum      = product { ("+" | "-") product }
 *     product  = factor { "*" factor }
 *     factor   = number | "-" factor | name | "(" sum ")" | "floor(" sum "/" sum ")"
 *              | ("mod" | "min" | "max") "(" sum "," sum ")"
 */
#include "ir/dim/dim_pool.h"

#include <inttypes.h>
#include <string.h>

enum { PARSE_DEPTH = 64 };

static const char *const words[] = {
    [IG_DIM_DIV] = "floor", [IG_DIM_MOD] = "mod", [IG_DIM_MIN] = "min", [IG_DIM_MAX] = "max"};

static bool is_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_part(char c) {
    return is_start(c) || is_digit(c) || c == '.';
}

bool ig_dim_is_name(const char *text) {
    bool plain = is_start(*text);
    for (const char *c = text; *c; c++)
        plain = plain && is_part(*c) && *c != '.';
    return plain;
}

/* The kind that a keyword of the notation denotes, or CONST. */
static enum ig_dim_kind word_kind(const char *name, size_t length) {
    for (int kind = IG_DIM_DIV; kind <= IG_DIM_MAX; kind++) {
        if (strlen(words[kind]) == length && memcmp(words[kind], name, length) == 0) return (enum ig_dim_kind)kind;
    }
    return IG_DIM_CONST;
}

/* ---- Printing */

void ig_quote(const char *name, struct ig_text *text) {
    ig_text_add(text, "\"");
    for (const char *c = name; *c != 0; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte < 0x20 || byte == 0x7f)
            ig_text_printf(text, "\\x%02x", byte);
        else
            ig_text_printf(text, byte == '"' || byte == '\\' ? "\\%c" : "%c", byte);
    }
    ig_text_add(text, "\"");
}

static void print_name(const char *name, struct ig_text *text) {
    bool plain = is_start(name[0]) && word_kind(name, strlen(name)) == IG_DIM_CONST;
    for (const char *c = name; *c != 0; c++)
        plain = plain && is_part(*c);
    if (plain)
        ig_text_add(text, name);
    else
        ig_quote(name, text);
}

static void print_divisor(const struct ig_dims *dims, ig_dim dim, bool whole_product, struct ig_text *text) {
    const struct ig_dim_sum *s = ig_sum(dims, dim);
    bool simple =
        ig_dim_is_const(dims, dim, NULL) || ig_sum_atom(dims, dim) != NULL || (whole_product && s->count == 1);
    if (!simple) ig_text_add(text, "(");
    ig_dim_print(dims, dim, text);
    if (!simple) ig_text_add(text, ")");
}

static void print_atom(const struct ig_dims *dims, uint32_t index, struct ig_text *text) {
    const struct ig_dim_atom *atom = &dims->atoms.at[index];
    if (atom->kind == IG_DIM_SYMBOL) {
        print_name(atom->name, text);
        return;
    }
    ig_text_printf(text, "%s(", words[atom->kind]);
    if (atom->kind == IG_DIM_DIV)
        print_divisor(dims, atom->a, true, text);
    else
        ig_dim_print(dims, atom->a, text);
    ig_text_add(text, atom->kind == IG_DIM_DIV ? "/" : ",");
    if (atom->kind == IG_DIM_DIV)
        print_divisor(dims, atom->b, false, text);
    else
        ig_dim_print(dims, atom->b, text);
    ig_text_add(text, ")");
}

void ig_dim_print(const struct ig_dims *dims, ig_dim dim, struct ig_text *text) {
    if (dim == IG_DIM_NONE) {
        ig_text_add(text, "?");
        return;
    }
    const struct ig_dim_sum *s = ig_sum(dims, dim);
    if (s->count == 0) ig_text_add(text, "0");
    for (uint32_t i = 0; i < s->count; i++) {
        const struct ig_dim_mono *mono = &dims->monos.at[s->terms[i].mono];
        int64_t coef = s->terms[i].coef;
        if (i > 0 && coef > 0) ig_text_add(text, "+");
        if (mono->degree == 0)
            ig_text_printf(text, "%" PRId64, coef);
        else if (coef == -1)
            ig_text_add(text, "-");
        else if (coef != 1)
            ig_text_printf(text, "%" PRId64 "*", coef);
        for (uint32_t j = 0; j < mono->degree; j++) {
            if (j > 0) ig_text_add(text, "*");
            print_atom(dims, mono->atoms[j], text);
        }
    }
}

const char *ig_dim_text(const struct ig_dims *dims, ig_dim dim) {
    struct ig_text text;
    ig_text_init(&text, dims->job);
    ig_dim_print(dims, dim, &text);
    return text.at;
}

/* ---- Parsing: recursive descent; `bad` is sticky and every function then returns at once */

struct parser {
    struct ig_dims *dims;
    const char *at;
    int depth;
    bool bad;
};

static ig_dim parse_sum(struct parser *p);

static ig_dim fail(struct parser *p) {
    p->bad = true;
    return ig_dim_const(p->dims, 0);
}

static void skip_spaces(struct parser *p) {
    while (*p->at == ' ')
        p->at++;
}

static bool accept(struct parser *p, char c) {
    skip_spaces(p);
    if (*p->at != c) return false;
    p->at++;
    return true;
}

static void expect(struct parser *p, char c) {
    if (!accept(p, c)) p->bad = true;
}

static ig_dim parse_number(struct parser *p, bool negative) {
    int64_t value = 0;
    while (is_digit(*p->at)) {
        int digit = *p->at++ - '0';
        if (__builtin_mul_overflow(value, 10, &value)) return fail(p);
        if (__builtin_add_overflow(value, negative ? -digit : digit, &value)) return fail(p);
    }
    return ig_dim_const(p->dims, value);
}

static int hex_digit(char c) {
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads one escape after its backslash; 0 if it is invalid. */
static char unescape(const char **inout_text) {
    const char *at = *inout_text;
    if (*at == '"' || *at == '\\') {
        *inout_text = at + 1;
        return *at;
    }
    int high = *at == 'x' ? hex_digit(at[1]) : -1, low = high < 0 ? -1 : hex_digit(at[2]);
    if (low < 0) return 0;
    *inout_text = at + 3;
    return (char)(high * 16 + low);
}

const char *ig_unquote(struct ig_job *job, const char **inout_text) {
    const char *at = *inout_text;
    struct ig_text name;
    if (*at++ != '"') return NULL;
    ig_text_init(&name, job);
    ig_text_add(&name, "");
    while (*at != '"') {
        char c = *at++;
        if (c == '\\')
            c = unescape(&at);
        else if (c == '\n')
            c = 0;
        if (c == 0) return NULL;
        ig_text_add_n(&name, &c, 1);
    }
    *inout_text = at + 1;
    return name.at;
}

static ig_dim parse_quoted(struct parser *p) {
    const char *name = ig_unquote(p->dims->job, &p->at);
    return name != NULL ? ig_dim_symbol(p->dims, name) : fail(p);
}

static ig_dim combine(struct parser *p, enum ig_dim_kind kind, ig_dim a, ig_dim b) {
    int64_t divisor;
    if (kind == IG_DIM_MIN) return ig_dim_min(p->dims, a, b);
    if (kind == IG_DIM_MAX) return ig_dim_max(p->dims, a, b);
    if (ig_dim_is_const(p->dims, b, &divisor) && divisor == 0) return fail(p);
    return kind == IG_DIM_DIV ? ig_dim_div(p->dims, a, b) : ig_dim_mod(p->dims, a, b);
}

static ig_dim parse_word(struct parser *p) {
    const char *start = p->at;
    while (is_part(*p->at))
        p->at++;
    enum ig_dim_kind kind = word_kind(start, (size_t)(p->at - start));
    if (kind == IG_DIM_CONST) return ig_dim_symbol(p->dims, ig_strndup(p->dims->job, start, (size_t)(p->at - start)));
    expect(p, '(');
    ig_dim a = parse_sum(p);
    expect(p, kind == IG_DIM_DIV ? '/' : ',');
    ig_dim b = parse_sum(p);
    expect(p, ')');
    return p->bad ? fail(p) : combine(p, kind, a, b);
}

static ig_dim parse_factor(struct parser *p) {
    ig_dim result;
    skip_spaces(p);
    if (p->bad || p->depth == PARSE_DEPTH) return fail(p);
    p->depth++;
    if (accept(p, '-')) {
        skip_spaces(p);
        result = is_digit(*p->at) ? parse_number(p, true) : ig_sum_scale(p->dims, parse_factor(p), -1);
    } else if (accept(p, '(')) {
        result = parse_sum(p);
        expect(p, ')');
    } else if (*p->at == '"') {
        result = parse_quoted(p);
    } else if (is_digit(*p->at)) {
        result = parse_number(p, false);
    } else {
        result = is_start(*p->at) ? parse_word(p) : fail(p);
    }
    p->depth--;
    return result;
}

static ig_dim parse_product(struct parser *p) {
    ig_dim product = parse_factor(p);
    while (!p->bad && accept(p, '*'))
        product = ig_dim_mul(p->dims, product, parse_factor(p));
    return product;
}

static ig_dim parse_sum(struct parser *p) {
    ig_dim sum = parse_product(p);
    while (!p->bad) {
        if (accept(p, '+'))
            sum = ig_dim_add(p->dims, sum, parse_product(p));
        else if (accept(p, '-'))
            sum = ig_dim_sub(p->dims, sum, parse_product(p));
        else
            break;
    }
    return sum;
}

ig_dim ig_dim_parse(struct ig_dims *dims, const char *text, const char **out_end) {
    struct parser p = {.dims = dims, .at = text};
    ig_dim dim = parse_sum(&p);
    if (out_end != NULL) *out_end = p.at;
    return p.bad ? IG_DIM_NONE : dim;
}
