/*
 * Casts to narrow types. Sources: onnx.ai, operator Cast, whose tables of special values changed with opset 24, and the
 * technical notes "Float stored in 8 bits", "Float stored in 4 bits" and "4 bit integer types".
 */
#include "import/onnx/op/narrow.h"

#include <math.h>

#include "base/narrow.h"
#include "import/onnx/op/arith.h"

/* The core operator rounds down to a power of two; the others lie at most one above. */
static ig_value to_power_of_two(struct ig_onnx_node *n, ig_value x, bool saturate) {
    enum { UP, DOWN, NEAREST };
    static const char *const modes[] = {"up", "down", "nearest"};
    int mode = ig_onnx_choice(n, "round_mode", modes, 3, UP);
    struct ig_graph *g = n->g;
    x = ig_build_cast(g, x, INGOT_F32);
    ig_value y = saturate ? ig_build_cast_saturating(g, x, INGOT_F8E8M0) : ig_build_cast(g, x, INGOT_F8E8M0);
    if (mode == DOWN) return y;
    ig_value size = ig_abs(g, x), down = ig_build_cast(g, y, INGOT_F32), up = ig_mul_n(g, down, 2);
    ig_value stays = mode == UP ? ig_le(g, size, down) : ig_lt(g, size, ig_mul_n(g, down, 1.5));
    ig_value is_nan = ig_map1(g, IG_OP_isnan, down);
    x = ig_build_where(g, ig_map2(g, IG_OP_or, stays, is_nan), down, up);
    return saturate ? ig_build_cast_saturating(g, x, INGOT_F8E8M0) : ig_build_cast(g, x, INGOT_F8E8M0);
}

/* Before opset 24, infinities became NaN in types that have no other sign of them, even if saturated. */
static ig_value without_infinities(struct ig_onnx_node *n, ig_value x, enum ingot_dtype to) {
    bool has_no_sign = to == INGOT_F8E4M3FNUZ || to == INGOT_F8E5M2FNUZ;
    if (!has_no_sign || n->opset >= 24 || *n->op->domain || !ig_dtype_is_float(ig_onnx_type(n, x))) return x;
    return ig_build_where(n->g, ig_map1(n->g, IG_OP_isinf, x), ig_like(n->g, x, (double)NAN), x);
}

ig_value ig_onnx_cast(struct ig_onnx_node *n, ig_value x, enum ingot_dtype to) {
    bool saturate = ig_onnx_flag(n, "saturate", true);
    if (ig_narrow_is_float(ig_onnx_type(n, x))) x = ig_build_cast(n->g, x, INGOT_F32);
    if (to == INGOT_F8E8M0) return to_power_of_two(n, x, saturate);
    if (ig_narrow_is_float(to)) {
        x = without_infinities(n, x, to);
        return saturate ? ig_build_cast_saturating(n->g, x, to) : ig_build_cast(n->g, x, to);
    }
    if (ig_dtype_is_narrow(to) && ig_dtype_is_float(ig_onnx_type(n, x))) x = ig_round(n->g, x);
    return ig_build_cast(n->g, x, to);
}
