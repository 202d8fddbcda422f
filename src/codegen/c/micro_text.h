/* The printers behind ig_c_micro, one per kind, and what they share. */
#ifndef IG_CODEGEN_C_MICRO_TEXT_H
#define IG_CODEGEN_C_MICRO_TEXT_H

#include "codegen/c/micro.h"

/* The C type of an element. */
const char *ig_c_micro_type(enum ingot_dtype dtype);
/* Prints the types NAME_e (an element), NAME_v (a vector) and NAME_u (a vector in memory, aligned like an element). */
void ig_c_micro_types(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);

/* For operands of type H in half precision, prints the type NAME_h (an element in memory) and the functions NAME_load
 * (loads `lanes` elements as a NAME_<vector>) and NAME_one (loads one element, converted). Other operands are read as
 * elements of T. */
void ig_c_micro_half(const struct ig_micro *micro, int lanes, const char *vector, struct ig_text *text);
/* "h" or "e": NAME_<suffix> is an element of H. */
const char *ig_c_micro_element(const struct ig_micro *micro);
/* The text before an address to read from it: "NAME_load(" or "*(const NAME_<memory> *)(". */
const char *ig_c_micro_reader(struct ig_job *job, const struct ig_micro *micro, const char *memory);

/* Of windows side by side, GROUPED or DEPTHWISE_DOTS: the last column of x that a tap reads, and the one behind `column`, or one beyond the
 * last. Between taps that are far apart there may be billions that none reads. */
int64_t ig_c_micro_last_column(const struct ig_micro *micro, int columns);
int64_t ig_c_micro_next_column(const struct ig_micro *micro, int columns, int64_t column);

void ig_c_micro_gemm(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);
void ig_c_micro_pack(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);
void ig_c_micro_interleave(const struct ig_micro *micro, struct ig_text *text);
void ig_c_micro_topk(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);
void ig_c_micro_blocks(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);
void ig_c_micro_depthwise(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);
void ig_c_micro_grouped(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);
void ig_c_micro_depthwise_dots(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);
/* Without VNNI: the functions for each number of columns. */
void ig_c_micro_depthwise_pairs(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);
/* Prints the type NAME_b, a byte, and NAME_dot(c, a, b), which adds products of four bytes to each lane of c; b may be in
 * memory if `memory`. */
void ig_c_micro_dot(const struct ig_micro *micro, const struct ig_target *target, bool memory, struct ig_text *text);
/* For products of u8 without VNNI: the functions that the text in a micro-kernel needs, and this text. */
void ig_c_micro_quads(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);
void ig_c_micro_quads_walk(const struct ig_micro *micro, const struct ig_target *target, int rows, int vectors,
                           struct ig_text *text);
/* For AMX, if there are tile_groups: functions NAME_tiles_..., NAME_begin and NAME_end, and the text that calls the former
 * in NAME where there are rows enough. */
void ig_c_micro_tiles(const struct ig_micro *micro, struct ig_text *text);
void ig_c_micro_tiles_dispatch(const struct ig_micro *micro, struct ig_text *text);
void ig_c_micro_tile_fetches(const struct ig_micro *micro, struct ig_text *text);
/* A function NAME_tiles_... of operands in parts. */
void ig_c_micro_parts_block(const struct ig_micro *micro, int halves, int vectors, struct ig_text *text);
void ig_c_micro_row_parts(const struct ig_micro *micro, struct ig_text *text);
void ig_c_micro_column_parts(const struct ig_micro *micro, struct ig_text *text);
void ig_c_micro_list(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);
void ig_c_micro_narrow(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);
void ig_c_micro_widen(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);

#endif
