/* The table of supported ONNX operators, and its lookup. */
#include "import/onnx/importer.h"

#include <string.h>

static const struct ig_onnx_op operators[] = {
#define IG_ONNX(domain, op, since, function, arg) {domain, #op, since, ig_import_##function, arg},
#include "import/onnx/operators.def"
#undef IG_ONNX
};

const struct ig_onnx_op *ig_onnx_find_op(const char *domain, const char *name, int64_t opset) {
    const struct ig_onnx_op *best = NULL;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        const struct ig_onnx_op *op = &operators[i];
        if (op->since > opset || strcmp(op->name, name) != 0 || strcmp(op->domain, domain) != 0) continue;
        if (!best || op->since > best->since) best = op;
    }
    return best;
}

int ig_onnx_newest_opset(void) {
    int newest = 0;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (operators[i].since > newest) newest = operators[i].since;
    }
    return newest;
}
