/* The rules of the format that the writer and the reader share. See format.h. */
#include "engine/format.h"

const struct ig_part_rule ig_part_rules[IG_PART_COUNT] = {
    [IG_PART_STRINGS] = {"strings", 1, IG_ENGINE_ALIGNMENT},
    [IG_PART_TENSORS] = {"tensors", sizeof(struct ig_plan_tensor), IG_ENGINE_ALIGNMENT},
    [IG_PART_SYMBOLS] = {"symbols", sizeof(struct ig_plan_symbol), IG_ENGINE_ALIGNMENT},
    [IG_PART_SHAPE_PROGRAM] = {"shape program", sizeof(struct ig_shape_instr), IG_ENGINE_ALIGNMENT},
    [IG_PART_SUBPLANS] = {"plans", sizeof(struct ig_subplan), IG_ENGINE_ALIGNMENT},
    [IG_PART_RANKS] = {"ranks", sizeof(struct ig_plan_rank), IG_ENGINE_ALIGNMENT},
    [IG_PART_COPIES] = {"copies of weights", sizeof(struct ig_weight_copy), IG_ENGINE_ALIGNMENT},
    [IG_PART_BUFFERS] = {"buffers", sizeof(struct ig_plan_buffer), IG_ENGINE_ALIGNMENT},
    [IG_PART_STEPS] = {"steps", sizeof(struct ig_plan_step), IG_ENGINE_ALIGNMENT},
    [IG_PART_OPERANDS] = {"operands", sizeof(uint32_t), IG_ENGINE_ALIGNMENT},
    [IG_PART_DIMS] = {"dims", sizeof(ig_slot), IG_ENGINE_ALIGNMENT},
    [IG_PART_CHECKS] = {"checks", sizeof(struct ig_plan_check), IG_ENGINE_ALIGNMENT},
    [IG_PART_DEMAND_PROGRAM] = {"demand program", sizeof(struct ig_shape_instr), IG_ENGINE_ALIGNMENT},
    [IG_PART_DEMANDS] = {"demands", sizeof(struct ig_plan_demand), IG_ENGINE_ALIGNMENT},
    [IG_PART_KERNELS] = {"kernels", sizeof(struct ig_plan_kernel), IG_ENGINE_ALIGNMENT},
    [IG_PART_CALLS] = {"library calls", sizeof(struct ig_library_call), IG_ENGINE_ALIGNMENT},
    [IG_PART_COLLECTIVES] = {"collectives", sizeof(struct ig_collective), IG_ENGINE_ALIGNMENT},
    [IG_PART_RUNS] = {"repetitions", sizeof(struct ig_plan_run), IG_ENGINE_ALIGNMENT},
    [IG_PART_LISTED] = {"lists of repetitions", sizeof(uint32_t), IG_ENGINE_ALIGNMENT},
    [IG_PART_WEIGHT_TABLE] = {"weight table", sizeof(struct ig_weight_entry), IG_ENGINE_ALIGNMENT},
    [IG_PART_INITIALIZERS] = {"initialisers", sizeof(struct ig_initializer_entry), IG_ENGINE_ALIGNMENT},
    [IG_PART_SOURCES] = {"sources", sizeof(uint32_t), IG_ENGINE_ALIGNMENT},
    [IG_PART_NAMES] = {"names", 1, IG_ENGINE_ALIGNMENT},
    [IG_PART_RECIPES] = {"recipes", 1, IG_ENGINE_ALIGNMENT},
    [IG_PART_EXPLANATION] = {"explanation", 1, IG_ENGINE_ALIGNMENT},
    [IG_PART_CODE] = {"code", 1, IG_ENGINE_PAGE},
    [IG_PART_WEIGHTS] = {"weights", 1, IG_ENGINE_PAGE},
    [IG_PART_WEIGHT_CHECKSUMS] = {"weight checksums", sizeof(uint64_t), IG_ENGINE_ALIGNMENT},
};

bool ig_part_place(enum ig_part part, uint64_t end, uint64_t *out_offset) {
    uint64_t mask = ig_part_rules[part].alignment - 1;
    if (end > UINT64_MAX - mask) return false;
    *out_offset = (end + mask) & ~mask;
    return true;
}
