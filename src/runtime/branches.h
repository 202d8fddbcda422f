/*
 * Steps side by side, on devices whose lists know more than one order (GPUs).
 *
 * Steps get levels: each comes after those whose results it reads, as late as those that read its own allow, so that what
 * it makes need not be kept for long; steps of one level wait for none of each other. The memory plan's time is the level,
 * so that what runs side by side shares no memory. Where this is estimated to gain over one after the other, and takes
 * not much more memory, the frame's steps are put in the order of their levels, and each is told the few steps that it
 * has to come after: those whose results it reads, and those that use memory which it takes over. A chain stays as it is.
 *
 * It rests on what plans are like: the first step that touches a buffer writes it, and nobody else does.
 */
#ifndef IG_RUNTIME_BRANCHES_H
#define IG_RUNTIME_BRANCHES_H

#include "runtime/frame.h"

/* Of a frame whose steps are made and whose memory is planned; decides, and does it. */
enum ingot_status ig_branches_apply(struct ig_frame_env *env, struct ig_frame *frame, struct ingot_error *error);

#endif
