/*
 * Parses the text form of graphs (docs/ir.md) by recursive descent, without backtracking. Nodes are appended exactly as
 * written, so that a parsed graph prints the same; types are inferred, and must agree with those in the text.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "ir/build_node.h"
#include "ir/text/print.h"
#include "ir/text/print_data.h"

enum { MAX_DEPTH = 32, MAX_OPERANDS = 4096, MAX_LIST = 65536 };

struct parser {
    struct ig_job *job;
    struct ig_dims *dims;
    const char *start, *at, *end;
    const char *counted; /* newlines before this are counted in `row` */
    int row;
    int depth;
    struct ig_initializers *initializers; /* of the outermost graph */
};

/* A graph under construction. */
struct scope {
    struct ig_graph *graph;
    struct ig_map values; /* number in the text -> value */
};

static void parse_graph(struct parser *p, struct ig_graph *graph);

/* ---- Lexing */

static _Noreturn void fail(struct parser *p, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static _Noreturn void fail(struct parser *p, const char *at, const char *format, ...) {
    char message[256];
    int row = 1, column = 1;
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    for (const char *c = p->start; c < at; c++) {
        column = *c == '\n' ? 1 : column + 1;
        row += *c == '\n';
    }
    ig_raise(p->job, INGOT_BAD_MODEL, "line %d, column %d: %s", row, column, message);
}

/* The current line number as text; counts on from the last call. */
static const char *row_text(struct parser *p) {
    for (; p->counted < p->at; p->counted++)
        p->row += *p->counted == '\n';
    return ig_format(p->job, "%d", p->row);
}

static void skip(struct parser *p) {
    for (;;) {
        while (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r')
            p->at++;
        if (*p->at != ';') return;
        while (*p->at != '\n' && *p->at != 0)
            p->at++;
    }
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool accept(struct parser *p, char c) {
    skip(p);
    if (*p->at != c) return false;
    p->at++;
    return true;
}

static void expect(struct parser *p, char c) {
    if (!accept(p, c)) fail(p, p->at, "expected '%c'", c);
}

static const char *parse_word(struct parser *p, const char *what) {
    skip(p);
    const char *word = p->at;
    while (is_word(*p->at))
        p->at++;
    if (p->at == word) fail(p, word, "expected %s", what);
    return ig_strndup(p->job, word, (size_t)(p->at - word));
}

static bool accept_word(struct parser *p, const char *word) {
    size_t length = strlen(word);
    skip(p);
    if (strncmp(p->at, word, length) != 0 || is_word(p->at[length])) return false;
    p->at += length;
    return true;
}

static const char *parse_string(struct parser *p) {
    skip(p);
    const char *at = p->at, *string = ig_unquote(p->job, &p->at);
    if (string == NULL) fail(p, at, "expected a string in double quotes");
    return string;
}

static int64_t parse_int(struct parser *p) {
    int64_t value = 0;
    skip(p);
    const char *at = p->at;
    bool negative = *p->at == '-';
    if (negative) p->at++;
    if (*p->at < '0' || *p->at > '9') fail(p, at, "expected a number");
    for (; *p->at >= '0' && *p->at <= '9'; p->at++) {
        int digit = *p->at - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            fail(p, at, "the number does not fit into 64 bits");
    }
    return value;
}

static double parse_float(struct parser *p) {
    char *end;
    skip(p);
    bool starts = *p->at == '-' || *p->at == 'n' || *p->at == 'i' || (*p->at >= '0' && *p->at <= '9');
    double value = starts ? strtod(p->at, &end) : 0;
    if (!starts || end == p->at) fail(p, p->at, "expected a number");
    p->at = end;
    return value;
}

static ig_dim parse_dim(struct parser *p) {
    skip(p);
    const char *at = p->at;
    if (accept(p, '?')) return IG_DIM_NONE;
    ig_dim dim = ig_dim_parse(p->dims, p->at, &p->at);
    if (dim == IG_DIM_NONE) fail(p, at, "expected a dimension");
    return dim;
}

/* ---- Types and attributes */

static enum ingot_dtype parse_dtype(struct parser *p) {
    skip(p);
    const char *at = p->at;
    enum ingot_dtype dtype = ig_dtype_parse(parse_word(p, "a type"));
    if (dtype == INGOT_DTYPE_NONE) fail(p, at, "there is no such type");
    return dtype;
}

static struct ig_type parse_type(struct parser *p) {
    struct ig_type type = {.dtype = parse_dtype(p)};
    expect(p, '[');
    while (!accept(p, ']')) {
        if (type.rank > 0) expect(p, ',');
        if (type.rank == INGOT_MAX_RANK) fail(p, p->at, "the rank is over %d", INGOT_MAX_RANK);
        const char *at = p->at;
        type.dim[type.rank++] = parse_dim(p);
        if (type.dim[type.rank - 1] == IG_DIM_NONE) fail(p, at, "a dimension must be known");
    }
    return type;
}

static struct ig_attr parse_list(struct parser *p, enum ig_attr_kind kind) {
    struct ig_attr attr = {.kind = kind};
    IG_VEC(int64_t) ints = {0};
    IG_VEC(double) floats = {0};
    IG_VEC(ig_dim) dims = {0};
    expect(p, '[');
    while (!accept(p, ']')) {
        if (attr.count > 0) expect(p, ',');
        if (attr.count == MAX_LIST) fail(p, p->at, "the list has more than %d elements", MAX_LIST);
        if (kind == IG_KIND_INTS)
            IG_PUSH(p->job, &ints, parse_int(p));
        else if (kind == IG_KIND_FLOATS)
            IG_PUSH(p->job, &floats, parse_float(p));
        else
            IG_PUSH(p->job, &dims, parse_dim(p));
        attr.count++;
    }
    if (kind == IG_KIND_INTS)
        attr.ints = ints.at;
    else if (kind == IG_KIND_FLOATS)
        attr.floats = floats.at;
    else
        attr.dims = dims.at;
    return attr;
}

static struct ig_attr parse_attr(struct parser *p, enum ig_attr_kind kind) {
    switch (kind) {
    case IG_KIND_INT: return ig_attr_of_int(parse_int(p));
    case IG_KIND_FLOAT: return ig_attr_of_float(parse_float(p));
    case IG_KIND_DTYPE: return ig_attr_of_dtype(parse_dtype(p));
    case IG_KIND_DIM: return ig_attr_of_dim(parse_dim(p));
    default: return parse_list(p, kind);
    }
}

/* A constant's data precede its type, which is needed to read them: they are skipped first and read later. */
struct pending_data {
    const char *at; /* NULL: none */
    const char *initializer;
};

static void skip_data(struct parser *p, struct pending_data *data) {
    skip(p);
    data->at = p->at;
    bool in_brackets = *p->at == '[';
    while (*p->at != 0 && *p->at != (in_brackets ? ']' : ',') && *p->at != '}')
        p->at++;
    if (in_brackets) expect(p, ']');
    if (accept(p, ',')) {
        if (!accept_word(p, "initializer")) fail(p, p->at, "expected 'initializer'");
        expect(p, '=');
        data->initializer = parse_string(p);
    }
}

static const struct ig_attr *parse_attrs(struct parser *p, enum ig_op op, struct pending_data *data) {
    const struct ig_op_info *info = ig_op_info(op);
    struct ig_attr *attrs = IG_NEW_ARRAY(p->job, struct ig_attr, (size_t)info->n_attrs + 1);
    if (info->n_attrs == 0) return attrs;
    expect(p, '{');
    for (int i = 0; i < info->n_attrs; i++) {
        if (i > 0) expect(p, ',');
        const char *name = ig_attr_name_text(info->attrs[i].name);
        if (!accept_word(p, name)) fail(p, p->at, "expected attribute '%s'", name);
        expect(p, '=');
        attrs[i].kind = info->attrs[i].kind;
        if (attrs[i].kind == IG_KIND_DATA)
            skip_data(p, data);
        else
            attrs[i] = parse_attr(p, info->attrs[i].kind);
    }
    expect(p, '}');
    return attrs;
}

/* One record for all constants of a name. */
static struct ig_initializer *record_of(struct parser *p, const struct ig_type *type, const struct ig_data *data) {
    int64_t dims[INGOT_MAX_RANK];
    uint32_t index;
    if (ig_map_get_name(&p->initializers->by_name, data->initializer, &index)) return p->initializers->list.at[index];
    IG_ASSERT(p->job, ig_type_is_static(p->dims, type, dims));
    return ig_initializers_add(p->initializers, data->initializer, type->dtype, (size_t)type->rank, dims, data->bytes,
                               data->size);
}

static void read_data(struct parser *p, const struct pending_data *pending, const struct ig_type *type,
                      struct ig_attr *attr) {
    const char *at = pending->at;
    int64_t count = -1;
    struct ig_data *data;
    if (!ig_dim_is_const(p->dims, ig_type_elements(p->dims, type), &count))
        fail(p, at, "a constant's dimensions must be numbers");
    const struct ig_data *parsed = ig_data_parse(p->job, type->dtype, count, (size_t)(p->end - at), &at);
    if (parsed == NULL) fail(p, pending->at, "the data do not fit the type");
    data = ig_memdup(p->job, parsed, sizeof *parsed);
    data->initializer = pending->initializer;
    if (data->initializer) data->record = record_of(p, type, data);
    attr->data = data;
}

/* ---- Nodes */

struct result {
    uint32_t number;
    const char *name, *at;
};
struct results {
    IG_VEC(struct result) list;
};

static uint32_t parse_number(struct parser *p) {
    expect(p, '%');
    const char *at = p->at;
    int64_t number = parse_int(p);
    if (number < 0 || number > INT32_MAX) fail(p, at, "no value has this number");
    return (uint32_t)number;
}

static void parse_results(struct parser *p, struct results *results) {
    skip(p);
    while (*p->at == '%') {
        struct result result = {.at = p->at};
        result.number = parse_number(p);
        skip(p);
        if (*p->at == '"') result.name = parse_string(p);
        IG_PUSH(p->job, &results->list, result);
        if (results->list.count > MAX_OPERANDS) fail(p, p->at, "too many results");
        if (!accept(p, ',')) return;
        skip(p);
    }
}

static ig_value parse_operand(struct parser *p, const struct scope *scope) {
    uint32_t value;
    skip(p);
    const char *at = p->at;
    if (accept(p, '-')) return IG_NO_VALUE;
    uint32_t number = parse_number(p);
    if (!ig_map_get(&scope->values, &number, sizeof number, &value)) fail(p, at, "%%%u is not defined", number);
    return value;
}

static void define(struct parser *p, struct scope *scope, uint32_t number, const char *at, ig_value value) {
    uint32_t old;
    if (ig_map_get(&scope->values, &number, sizeof number, &old)) fail(p, at, "%%%u is defined twice", number);
    ig_map_put(&scope->values, &number, sizeof number, value);
}

static void parse_operands(struct parser *p, const struct scope *scope, struct ig_node *node) {
    IG_VEC(ig_value) in = {0};
    expect(p, '(');
    while (!accept(p, ')')) {
        if (in.count > 0) expect(p, ',');
        if (in.count == MAX_OPERANDS) fail(p, p->at, "too many operands");
        IG_PUSH(p->job, &in, parse_operand(p, scope));
    }
    node->in = in.at;
    node->n_in = in.count;
}

static struct ig_graph *parse_body(struct parser *p, const char *word) {
    struct ig_graph *body = ig_graph_create(p->job, p->dims);
    if (!accept_word(p, word)) fail(p, p->at, "expected '%s'", word);
    if (p->depth == MAX_DEPTH) fail(p, p->at, "bodies are nested too deeply");
    p->depth++;
    parse_graph(p, body);
    p->depth--;
    return body;
}

static void check_types(struct parser *p, const char *at, const struct ig_node *node, const struct ig_type *inferred,
                        const struct ig_type *written) {
    struct ig_text text;
    for (uint32_t i = 0; i < node->n_out; i++) {
        bool same = inferred[i].dtype == written[i].dtype && inferred[i].rank == written[i].rank;
        for (int j = 0; same && j < inferred[i].rank; j++)
            same = ig_dim_equal(p->dims, inferred[i].dim[j], written[i].dim[j]) != IG_NO;
        if (same) continue;
        ig_text_init(&text, p->job);
        ig_type_print(p->dims, &inferred[i], &text);
        fail(p, at, "result %u is %s", i, text.at);
    }
}

/* Parses what follows the attributes: types, origin, region (a comment for readers), bodies. */
static struct ig_type *parse_tail(struct parser *p, struct scope *scope, struct ig_node *node) {
    struct ig_type *types = IG_NEW_ARRAY(p->job, struct ig_type, node->n_out + 1);
    for (uint32_t i = 0; i < node->n_out; i++) {
        expect(p, i == 0 ? ':' : ',');
        types[i] = parse_type(p);
    }
    scope->graph->origin = accept(p, '@') ? parse_string(p) : NULL;
    if (accept_word(p, "region")) parse_int(p);
    if (node->op == IG_OP_if) {
        node->body[0] = parse_body(p, "then");
        node->body[1] = parse_body(p, "else");
    } else if (node->op == IG_OP_loop) {
        node->body[0] = parse_body(p, "body");
    }
    return types;
}

static void parse_node(struct parser *p, struct scope *scope) {
    struct results results = {.list = {0}};
    struct pending_data data = {.at = NULL};
    struct ig_node node = {.n_out = 0};
    parse_results(p, &results);
    expect(p, '=');
    skip(p);
    const char *at = p->at;
    node.op = ig_op_parse(parse_word(p, "an operator"));
    if (node.op == IG_OP_COUNT) fail(p, at, "there is no such operator");
    node.n_out = results.list.count;
    parse_operands(p, scope, &node);
    const char *row = row_text(p);
    struct ig_attr *attrs = (struct ig_attr *)parse_attrs(p, node.op, &data);
    node.attr = attrs;
    struct ig_type *written = parse_tail(p, scope, &node);
    struct ig_type *types = ig_memdup(p->job, written, (node.n_out + 1) * sizeof *types);
    if (node.op == IG_OP_constant && node.n_out == 1) read_data(p, &data, &written[0], &attrs[0]);
    struct ig_where where = {.verb = "read line", .name = row};
    ig_where_push(p->job, &where);
    ig_value value = ig_build_verbatim(scope->graph, &node, types);
    ig_where_pop(p->job);
    check_types(p, at, &node, types, written);
    for (uint32_t i = 0; i < results.list.count; i++) {
        struct result *result = &results.list.at[i];
        define(p, scope, result->number, result->at, value + i);
        if (result->name != NULL) ig_build_name(scope->graph, value + i, result->name);
    }
}

/* ---- Ports and graphs */

static void parse_input(struct parser *p, struct scope *scope) {
    int64_t count;
    skip(p);
    const char *at = p->at;
    uint32_t number = parse_number(p);
    const char *name = parse_string(p);
    expect(p, ':');
    struct ig_type type = parse_type(p);
    ig_value value = ig_build_input(scope->graph, name, &type);
    define(p, scope, number, at, value);
    if (!accept(p, '=')) return;
    at = p->at;
    struct ig_attr elements = parse_list(p, IG_KIND_DIMS);
    bool takes = ig_dtype_is_integer(type.dtype) || type.dtype == INGOT_BOOL;
    if (!takes || !ig_dim_is_const(p->dims, ig_type_elements(p->dims, &type), &count) || count != elements.count)
        fail(p, at, "the elements do not fit the type");
    scope->graph->values.at[value].elements = elements.dims;
}

static void parse_output(struct parser *p, struct scope *scope) {
    const char *name = parse_string(p);
    expect(p, '=');
    skip(p);
    const char *at = p->at;
    ig_value value = parse_operand(p, scope);
    if (value == IG_NO_VALUE) fail(p, at, "expected a value");
    at = p->at;
    if (!accept_word(p, "updates")) {
        ig_build_output(scope->graph, name, value);
        return;
    }
    int64_t input = parse_int(p);
    const struct ig_graph *g = scope->graph;
    if (p->depth > 0 || input < 0 || input >= g->inputs.count) fail(p, at, "there is no input to update");
    if (!ig_type_same(ig_type_of(g, value), ig_type_of(g, g->inputs.at[input].value)))
        fail(p, at, "the output and the input that it updates are of different types");
    for (uint32_t i = 0; i < g->outputs.count; i++) {
        if (g->outputs.at[i].updates == (uint32_t)input + 1) fail(p, at, "the input is updated already");
    }
    ig_build_update(scope->graph, name, value, (uint32_t)input);
}

static void parse_graph(struct parser *p, struct ig_graph *graph) {
    struct scope scope = {.graph = graph};
    ig_map_init(&scope.values, p->job);
    expect(p, '{');
    while (!accept(p, '}')) {
        if (accept_word(p, "input"))
            parse_input(p, &scope);
        else if (accept_word(p, "output"))
            parse_output(p, &scope);
        else
            parse_node(p, &scope);
    }
    graph->origin = NULL;
}

static void parse_symbol(struct parser *p) {
    skip(p);
    const char *at = p->at;
    ig_dim symbol = parse_dim(p);
    if (symbol == IG_DIM_NONE || ig_dim_look(p->dims, symbol).kind != IG_DIM_SYMBOL) fail(p, at, "expected a symbol");
    if (!accept_word(p, "from")) fail(p, p->at, "expected 'from'");
    int64_t lo = parse_int(p);
    if (!accept_word(p, "to")) fail(p, p->at, "expected 'to'");
    int64_t hi = parse_int(p);
    if (lo > hi) fail(p, at, "the range is empty");
    ig_dim_set_range(p->dims, symbol, lo, hi);
}

struct ig_graph *ig_graph_parse(struct ig_job *job, struct ig_dims *dims, const char *text, size_t length) {
    struct parser p = {.job = job, .dims = dims, .start = ig_strndup(job, text, length), .row = 1};
    struct ig_graph *graph = ig_graph_create(job, dims);
    graph->initializers = p.initializers = ig_initializers_create(job);
    p.at = p.counted = p.start;
    p.end = p.start + strlen(p.start);
    while (accept_word(&p, "symbol"))
        parse_symbol(&p);
    if (!accept_word(&p, "graph")) fail(&p, p.at, "expected 'graph'");
    parse_graph(&p, graph);
    skip(&p);
    if (p.at != p.start + length) fail(&p, p.at, "expected the end of the text");
    return graph;
}
