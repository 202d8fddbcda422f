/*
 * Evaluates the text of symbolic dims for given symbols. The notation (docs/ir.md):
 *
 *     sum      = product { ("+" | "-") product }
 *     product  = factor { "*" factor }
 *     factor   = number | "-" factor | name | "(" sum ")" | "floor(" sum "/" sum ")"
 *              | ("mod" | "min" | "max") "(" sum "," sum ")"
 *
 * Names that are not identifiers are in double quotes.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "shape.h"

void symbols_set(struct symbol_table *symbols, const char *name, int64_t value) {
    for (size_t i = 0; i < symbols->count; i++) {
        if (strcmp(symbols->at[i].name, name) == 0) {
            symbols->at[i].value = value;
            return;
        }
    }
    symbols->at = cli_resize(symbols->at, symbols->count + 1, sizeof *symbols->at);
    symbols->at[symbols->count].name = cli_strdup(name);
    symbols->at[symbols->count++].value = value;
}

const int64_t *symbols_get(const struct symbol_table *symbols, const char *name) {
    for (size_t i = 0; i < symbols->count; i++) {
        if (strcmp(symbols->at[i].name, name) == 0) return &symbols->at[i].value;
    }
    return NULL;
}

void symbols_free(struct symbol_table *symbols) {
    for (size_t i = 0; i < symbols->count; i++)
        free(symbols->at[i].name);
    free(symbols->at);
    *symbols = (struct symbol_table){0};
}

struct reader {
    const struct symbol_table *symbols;
    const char *at;
    int depth;
};

static bool read_sum(struct reader *r, int64_t *out_value);

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The name at the reader's position, plain or quoted; NULL: none. */
static char *read_name(struct reader *r) {
    char *name = cli_alloc(strlen(r->at) + 1, 1), *to = name;
    if (*r->at == '"') {
        for (r->at++; *r->at && *r->at != '"'; r->at++) {
            if (*r->at == '\\' && r->at[1] == 'x' && hex_digit(r->at[2]) >= 0 && hex_digit(r->at[3]) >= 0) {
                *to++ = (char)(hex_digit(r->at[2]) * 16 + hex_digit(r->at[3]));
                r->at += 3;
                continue;
            }
            if (*r->at == '\\' && r->at[1]) r->at++;
            *to++ = *r->at;
        }
        if (*r->at == '"') {
            r->at++;
            return name;
        }
    } else {
        while (isalnum((unsigned char)*r->at) || *r->at == '_' || *r->at == '.')
            *to++ = *r->at++;
        if (to > name) return name;
    }
    free(name);
    return NULL;
}

static int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* The rest of "floor(a/b)", "mod(a,b)", "min(a,b)", "max(a,b)" after the opening parenthesis. */
static bool read_call(struct reader *r, char which, int64_t *out_value) {
    int64_t a, b;
    if (!read_sum(r, &a) || *r->at++ != (which == 'f' ? '/' : ',') || !read_sum(r, &b) || *r->at++ != ')') return false;
    if ((which == 'f' || which == 'o') && (b == 0 || b == -1)) return false;
    *out_value = which == 'f'   ? floor_div(a, b)
                 : which == 'o' ? a - floor_div(a, b) * b
                 : which == 'i' ? (a < b ? a : b)
                                : (a > b ? a : b);
    return true;
}

static bool read_factor(struct reader *r, int64_t *out_value) {
    static const struct {
        const char *text;
        char which;
    } calls[] = {{"floor(", 'f'}, {"mod(", 'o'}, {"min(", 'i'}, {"max(", 'a'}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strncmp(r->at, calls[i].text, strlen(calls[i].text)) != 0) continue;
        r->at += strlen(calls[i].text);
        return read_call(r, calls[i].which, out_value);
    }
    if (*r->at == '(') {
        r->at++;
        return read_sum(r, out_value) && *r->at++ == ')';
    }
    if (*r->at == '-') {
        r->at++;
        if (!read_factor(r, out_value)) return false;
        return !__builtin_sub_overflow(0, *out_value, out_value);
    }
    if (*r->at >= '0' && *r->at <= '9') {
        *out_value = strtoll(r->at, (char **)(uintptr_t)&r->at, 10);
        return true;
    }
    char *name = read_name(r);
    const int64_t *value = name ? symbols_get(r->symbols, name) : NULL;
    free(name);
    if (value) *out_value = *value;
    return value != NULL;
}

static bool read_product(struct reader *r, int64_t *out_value) {
    int64_t factor;
    if (!read_factor(r, out_value)) return false;
    while (*r->at == '*') {
        r->at++;
        if (!read_factor(r, &factor) || __builtin_mul_overflow(*out_value, factor, out_value)) return false;
    }
    return true;
}

static bool read_sum(struct reader *r, int64_t *out_value) {
    int64_t product;
    if (++r->depth > 100 || !read_product(r, out_value)) return false;
    while (*r->at == '+' || *r->at == '-') {
        bool minus = *r->at++ == '-';
        if (!read_product(r, &product)) return false;
        if (minus ? __builtin_sub_overflow(*out_value, product, out_value)
                  : __builtin_add_overflow(*out_value, product, out_value)) {
            return false;
        }
    }
    r->depth--;
    return true;
}

bool symbols_evaluate(const struct symbol_table *symbols, const char *text, int64_t *out_value) {
    struct reader r = {symbols, text, 0};
    return read_sum(&r, out_value) && *r.at == 0;
}

char *symbol_of(const char *text) {
    struct reader r = {NULL, text, 0};
    if (*text >= '0' && *text <= '9') return NULL;
    char *name = read_name(&r);
    if (name && *r.at == 0) return name;
    free(name);
    return NULL;
}
