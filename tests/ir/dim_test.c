/* Symbolic integers: canonical form, division, ranges, text; random expressions against plain arithmetic. */
#include "ir/dim/dim.h"
#include "support/support.h"

#include <string.h>

static struct ig_job job;
static struct ig_dims *dims;
static struct ingot_error error;

static int set_up(void **state) {
    ig_job_init(&job, &ig_libc_allocator);
    dims = NULL;
    return 0;
}

static int tear_down(void **state) {
    ig_job_deinit(&job);
    return 0;
}

static void run(void (*body)(struct ig_job *, void *)) {
    enum ingot_status status = ig_job_run(&job, body, NULL, &error);
    if (status != INGOT_OK) fail_msg("%s", error.message);
}

static ig_dim parse(const char *text) {
    const char *end;
    ig_dim dim = ig_dim_parse(dims, text, &end);
    if (dim == IG_DIM_NONE || *end != 0) fail_msg("'%s' does not parse", text);
    return dim;
}

/* Checks that `text` prints as `expected`, which parses to the same expression. */
static void check(const char *text, const char *expected) {
    ig_dim dim = parse(text);
    assert_string_equal(ig_dim_text(dims, dim), expected);
    assert_int_equal(parse(expected), dim);
}

static void check_range(const char *text, int64_t lo, int64_t hi) {
    int64_t found_lo, found_hi;
    ig_dim_range(dims, parse(text), &found_lo, &found_hi);
    if (found_lo != lo || found_hi != hi)
        fail_msg("%s is in [%lld, %lld]", text, (long long)found_lo, (long long)found_hi);
}

static void canonical_body(struct ig_job *j, void *argument) {
    dims = ig_dims_create(j);
    check("(batch+1)*2", "2*batch+2");
    check("b+a-b", "a");
    check("1+x*y-3*x+y*x", "2*x*y-3*x+1");
    check("a-a", "0");
    check("-(a-3)", "-a+3");
    check("(a+b)*(a-b)", "a*a-b*b");
    check("-9223372036854775808", "-9223372036854775808");
    assert_int_equal(parse("c*(a+b)"), parse("b*c+a*c"));
}

static void division_body(struct ig_job *j, void *argument) {
    dims = ig_dims_create(j);
    check("floor(64*x/64)", "x");
    check("floor((64*x+3)/64)", "x");
    check("floor((64*x+65)/64)", "x+1");
    check("floor(2*b*s/(2*s))", "b");
    check("floor(b*s*768/(64*s))", "12*b");
    check("floor((b*s+2*s)/(2*s))", "floor(b/2)+1");
    check("floor((b*s+b)/(s+1))", "b");
    check("floor((s*s-1)/(s+1))", "s-1");
    check("floor((floor((h+1)/2)+1)/2)", "floor((h+3)/4)");
    check("floor(floor(h/2)/3)", "floor(h/6)");
    check("floor((2*h+1)/2)", "h");
    check("floor((4*h+6)/8)", "floor((h+1)/2)");
    check("-floor(-x/4)", "floor((x+3)/4)");
}

static void modulo_body(struct ig_job *j, void *argument) {
    dims = ig_dims_create(j);
    check("mod(64*x,64)", "0");
    check("mod(64*x+y,8)", "mod(y,8)");
    check("mod(mod(x,8),4)", "mod(x,4)");
    check("mod(mod(x,4),8)", "mod(x,4)");
    check("mod(2*x,8)", "2*mod(x,4)");
    check("mod(2*x+5,8)", "2*mod(x+2,4)+1");
    check("mod(b*s,s)", "0");
    check("floor(mod(x,8)/8)", "0");
    check("mod(7,-4)", "-1");
}
static void extremes_body(struct ig_job *j, void *argument) {
    dims = ig_dims_create(j);
    check("max(a,a)", "a");
    check("min(batch,batch)", "batch");
    check("max(a,0)", "a");
    check("min(x,x+1)", "x");
    check("max(min(a,b),a)", "a");
    check("max(max(a,b),b)", "max(a,b)");
    check("max(b,a)", "max(a,b)");
    check("floor(min(64*x,64*y)/64)", "min(x,y)");
    check("max(x-1,0)", "max(x-1,0)");
    check("min(min(n,9),5)", "min(n,5)");
    check("max(3,max(n,9))", "max(n,9)");
    check("max(min(n,9),5)", "max(min(n,9),5)");
    ig_dim_set_range(dims, parse("x"), 1, 100);
    check("max(x-1,0)", "x-1");
    check("min(x,100)", "x");
}

static void range_body(struct ig_job *j, void *argument) {
    dims = ig_dims_create(j);
    ig_dim_set_range(dims, parse("h"), 8, 64);
    ig_dim_set_range(dims, parse("b"), 1, 4);
    check_range("h", 8, 64);
    check_range("2*h-3", 13, 125);
    check_range("floor((h-3)/2)+1", 3, 31);
    check_range("h-floor(h/2)", 4, 32);
    check_range("2*floor(h/2)-h", -1, 0);
    check_range("h-min(h,n)", 0, 64);
    check_range("max(h,n)-n", 0, 64);
    check_range("b*n-n", 0, INT64_C(3) * INT32_MAX);
    check_range("mod(n,8)", 0, 7);
    check_range("n*m*k", 0, INT64_MAX);
    assert_int_equal(ig_dim_equal(dims, parse("2*n"), parse("2*m+1")), IG_NO);
    assert_int_equal(ig_dim_equal(dims, parse("n"), parse("m")), IG_MAYBE);
    assert_int_equal(ig_dim_equal(dims, parse("n+m"), parse("m+n")), IG_YES);
    assert_int_equal(ig_dim_equal(dims, parse("n"), parse("n+1")), IG_NO);
    assert_int_equal(ig_dim_less(dims, parse("b"), parse("h")), IG_YES);
    assert_int_equal(ig_dim_less(dims, parse("h"), parse("b")), IG_NO);
    assert_int_equal(ig_dim_less(dims, parse("n"), parse("h")), IG_MAYBE);
    assert_true(ig_dim_divides(dims, parse("4"), parse("8*n+4")));
    assert_false(ig_dim_divides(dims, parse("8"), parse("8*n+4")));
    assert_true(ig_dim_divides(dims, parse("n"), parse("n*m+n")));
}

static void text_body(struct ig_job *j, void *argument) {
    static const char *const bad[] = {"",
                                      "+",
                                      "a+",
                                      "a b+",
                                      "floor(a)",
                                      "floor(a/0)",
                                      "mod(a)",
                                      "min(a,b",
                                      "(a",
                                      "\"a",
                                      "99999999999999999999",
                                      "max(1,,2)",
                                      "\"\\q\"",
                                      "/",
                                      "*a"};
    dims = ig_dims_create(j);
    check("\"past + 1\"+1", "\"past + 1\"+1");
    check("\"a\\\"b\\\\\"", "\"a\\\"b\\\\\"");
    check("\"\\x01\"", "\"\\x01\"");
    check("\"floor\"", "\"floor\"");
    check("\"\"", "\"\"");
    check("\"batch\"", "batch");
    check("floor((a+b)/(c*d))", "floor((a+b)/(c*d))");
    check("floor(a*b/c)*floor(c/a)", "floor(a*b/c)*floor(c/a)");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *end;
        ig_dim dim = ig_dim_parse(dims, bad[i], &end);
        if (dim != IG_DIM_NONE && *end == 0) fail_msg("'%s' parses", bad[i]);
    }
    char deep[400];
    memset(deep, '(', sizeof deep);
    deep[399] = 0;
    assert_int_equal(ig_dim_parse(dims, deep, NULL), IG_DIM_NONE);
}

static void count_symbol(void *user, ig_dim symbol) {
    (*(int *)user)++;
}

static void walk_body(struct ig_job *j, void *argument) {
    dims = ig_dims_create(j);
    ig_dim symbols[2] = {parse("a"), parse("b")}, values[2] = {parse("2*n"), parse("4")};
    int64_t numbers[2] = {7, 3}, result;
    int n_symbols = 0;
    assert_int_equal(ig_dim_substitute(dims, parse("floor(a*b/8)"), symbols, values, 2), parse("n"));
    assert_true(ig_dim_eval(dims, parse("floor(a/b)*10+mod(a,b)"), symbols, numbers, 2, &result));
    assert_int_equal(result, 21);
    assert_false(ig_dim_eval(dims, parse("a+c"), symbols, numbers, 2, &result));
    numbers[1] = 0;
    assert_false(ig_dim_eval(dims, parse("floor(a/b)"), symbols, numbers, 2, &result));
    ig_dim_symbols(dims, parse("a*floor(b/3)+min(a,c)"), count_symbol, &n_symbols);
    assert_int_equal(n_symbols, 3);
    /* A usual value does not change a symbol's range or form. */
    assert_false(ig_dim_usual(dims, parse("2*a+1"), &result));
    ig_dim_set_usual(dims, parse("a"), 128);
    assert_true(ig_dim_usual(dims, parse("2*a+floor(a/3)"), &result));
    assert_int_equal(result, 298);
    assert_true(ig_dim_usual(dims, parse("5"), &result));
    assert_int_equal(result, 5);
    assert_false(ig_dim_usual(dims, parse("a*b"), &result));
}

/* Rebuilds an expression from ig_dim_look. */
static ig_dim rebuild(ig_dim dim) {
    struct ig_dim_view view = ig_dim_look(dims, dim);
    switch (view.kind) {
    case IG_DIM_CONST: return ig_dim_const(dims, view.value);
    case IG_DIM_SYMBOL: return ig_dim_symbol(dims, view.name);
    case IG_DIM_ADD: return ig_dim_add(dims, rebuild(view.a), rebuild(view.b));
    case IG_DIM_MUL: return ig_dim_mul(dims, rebuild(view.a), rebuild(view.b));
    case IG_DIM_DIV: return ig_dim_div(dims, rebuild(view.a), rebuild(view.b));
    case IG_DIM_MOD: return ig_dim_mod(dims, rebuild(view.a), rebuild(view.b));
    case IG_DIM_MIN: return ig_dim_min(dims, rebuild(view.a), rebuild(view.b));
    case IG_DIM_MAX: return ig_dim_max(dims, rebuild(view.a), rebuild(view.b));
    }
    return IG_DIM_NONE;
}

/* ---- Random expressions against plain arithmetic at random points */

enum { N_SYMBOLS = 3, N_POINTS = 24 };

static uint32_t random_state;

static uint32_t next_random(uint32_t bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % bound;
}

struct sample {
    ig_dim dim;
    int64_t at[N_POINTS]; /* its value at each point; INT64_MIN: none */
};

static int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

static int64_t apply(int op, int64_t a, int64_t b) {
    if (a == INT64_MIN || b == INT64_MIN) return INT64_MIN;
    if ((op == 3 || op == 4 || op == 7) && b == 0) return INT64_MIN;
    switch (op) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return floor_div(a, b);
    case 4: return a - floor_div(a, b) * b;
    case 5: return a < b ? a : b;
    case 6: return a > b ? a : b;
    default: return floor_div(a + b - 1, b);
    }
}

static ig_dim build(int op, ig_dim a, ig_dim b) {
    static ig_dim (*const ops[])(struct ig_dims *, ig_dim, ig_dim) = {
        ig_dim_add, ig_dim_sub, ig_dim_mul, ig_dim_div, ig_dim_mod, ig_dim_min, ig_dim_max, ig_dim_ceil_div};
    return ops[op](dims, a, b);
}

static void make_sample(struct sample *s, ig_dim *symbols, int64_t points[N_POINTS][N_SYMBOLS], int depth) {
    struct sample a, b;
    if (depth == 0 || next_random(6) == 0) {
        uint32_t which = next_random(N_SYMBOLS + 2);
        int64_t constant = (int64_t)next_random(9) - 2;
        s->dim = which < N_SYMBOLS ? symbols[which] : ig_dim_const(dims, constant);
        for (int i = 0; i < N_POINTS; i++)
            s->at[i] = which < N_SYMBOLS ? points[i][which] : constant;
        return;
    }
    make_sample(&a, symbols, points, depth - 1);
    make_sample(&b, symbols, points, depth - 1);
    int op = (int)next_random(8);
    int64_t zero;
    if (ig_dim_is_const(dims, b.dim, &zero) && zero == 0) op = 0;
    s->dim = build(op, a.dim, b.dim);
    for (int i = 0; i < N_POINTS; i++)
        s->at[i] = apply(op, a.at[i], b.at[i]);
}

static void check_sample(const struct sample *s, const ig_dim *symbols, int64_t points[N_POINTS][N_SYMBOLS]) {
    int64_t lo, hi, value;
    ig_dim_range(dims, s->dim, &lo, &hi);
    for (int i = 0; i < N_POINTS; i++) {
        if (s->at[i] == INT64_MIN) continue;
        bool found = ig_dim_eval(dims, s->dim, symbols, points[i], N_SYMBOLS, &value);
        if (!found || value != s->at[i] || value < lo || value > hi)
            fail_msg("%s at %lld %lld %lld is %lld in [%lld, %lld], not %lld", ig_dim_text(dims, s->dim),
                     (long long)points[i][0], (long long)points[i][1], (long long)points[i][2],
                     found ? (long long)value : -1, (long long)lo, (long long)hi, (long long)s->at[i]);
    }
    assert_int_equal(parse(ig_dim_text(dims, s->dim)), s->dim);
    assert_int_equal(rebuild(s->dim), s->dim);
}

static void random_body(struct ig_job *j, void *argument) {
    for (int round = 0; round < 3000; round++) {
        int64_t points[N_POINTS][N_SYMBOLS];
        struct sample sample;
        random_state = (uint32_t)round * 7919u + 1;
        dims = round % 100 == 0 ? ig_dims_create(j) : dims;
        ig_dim symbols[N_SYMBOLS] = {parse("x"), parse("y"), parse("z")};
        ig_dim_set_range(dims, symbols[2], -6, 6);
        ig_dim_set_range(dims, symbols[1], 1, 30);
        for (int i = 0; i < N_POINTS; i++) {
            points[i][0] = next_random(12);
            points[i][1] = 1 + next_random(i < 8 ? 3 : 30);
            points[i][2] = (int64_t)next_random(13) - 6;
        }
        make_sample(&sample, symbols, points, 4);
        check_sample(&sample, symbols, points);
    }
}

static void overflow_body(struct ig_job *j, void *argument) {
    dims = ig_dims_create(j);
    ig_dim_mul(dims, parse("9223372036854775807*n"), parse("2"));
}

static void growth_body(struct ig_job *j, void *argument) {
    dims = ig_dims_create(j);
    ig_dim x = parse("x");
    for (int i = 0; i < 100; i++)
        x = ig_dim_max(dims, ig_dim_mul(dims, x, ig_dim_symbol(dims, "y")), ig_dim_add(dims, x, x));
}

static void canonical(void **state) {
    run(canonical_body);
}
static void division(void **state) {
    run(division_body);
}
static void modulo(void **state) {
    run(modulo_body);
}
static void extremes(void **state) {
    run(extremes_body);
}
static void ranges(void **state) {
    run(range_body);
}
static void text(void **state) {
    run(text_body);
}
static void walking(void **state) {
    run(walk_body);
}
static void random_expressions(void **state) {
    run(random_body);
}

static void limits(void **state) {
    assert_int_equal(ig_job_run(&job, overflow_body, NULL, &error), INGOT_BAD_MODEL);
    assert_int_equal(ig_job_run(&job, growth_body, NULL, &error), INGOT_UNSUPPORTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(canonical, set_up, tear_down),
        cmocka_unit_test_setup_teardown(division, set_up, tear_down),
        cmocka_unit_test_setup_teardown(modulo, set_up, tear_down),
        cmocka_unit_test_setup_teardown(extremes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ranges, set_up, tear_down),
        cmocka_unit_test_setup_teardown(text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(walking, set_up, tear_down),
        cmocka_unit_test_setup_teardown(random_expressions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(limits, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
