/*
 * The parts of a plan that no list can hold, because values that the device computes or holds decide them. What is
 * before, between and behind them is captured.
 */
#ifndef IG_RUNTIME_UNCAPTURED_H
#define IG_RUNTIME_UNCAPTURED_H

#include "engine/engine.h"

/* See ingot_engine_uncaptured. */
size_t ig_plan_uncaptured(const struct ig_plan *plan, struct ingot_uncaptured_row *rows, size_t capacity);

#endif
