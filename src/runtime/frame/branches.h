/*
 * Concurrent steps, on devices whose lists support dependencies (GPUs).
 *
 * Every step gets a level: later than the steps whose results it reads, and as late as its own readers allow, so that
 * its results stay live briefly. Steps of one level do not depend on each other. The memory plan uses levels as time,
 * so that concurrent steps share no memory. If the estimated gain over sequential execution is large enough and the
 * arena does not grow much, the frame's steps are sorted by level, and each gets the few steps that it depends on
 * directly: those whose results it reads, and those whose memory it reuses. Chains are left as they are.
 *
 * This relies on an invariant of plans: the first step that uses a buffer writes it, and it is the only writer, but for
 * results that no step reads, of which several steps may write a part each.
 */
#ifndef IG_RUNTIME_BRANCHES_H
#define IG_RUNTIME_BRANCHES_H

#include "runtime/frame/frame.h"

/* Decides for one frame, and reorders it if it gains. The frame's steps are made and its memory is planned. */
enum ingot_status ig_branches_apply(struct ig_frame_env *env, struct ig_frame *frame, struct ingot_error *error);

#endif
