/* Steps that are collectives of the ranks (dist/dist.h). */
#ifndef IG_RUNTIME_COLLECTIVE_H
#define IG_RUNTIME_COLLECTIVE_H

#include "dist/dist.h"
#include "runtime/frame/frame.h"

struct ig_frame_collective {
    struct ig_group *group;
    struct ig_collective_sizes sizes;
    struct ig_collective_call call; /* but for the addresses */
    size_t bytes;                   /* of the larger operand */
};

/* Sizes the step and checks it: it was made for as many ranks as the group has, and its operands have its sizes. */
enum ingot_status ig_frame_make_collective(struct ig_frame_env *env, const struct ig_frame *frame,
                                           struct ig_frame_step *step, struct ingot_error *error);
/* Which of the step's alternatives runs instead, between GPUs that have windows: 1 or 2, which does the next step too; 0: none. All
 * ranks choose alike. Opens the windows, the first time. Where ranks share GPUs, it also sets how often the kernel is launched. */
enum ingot_status ig_frame_choose_exchange(struct ig_frame_env *env, struct ig_frame_step *step, uint32_t *out_choice,
                                           struct ingot_error *error);
/* Before a run of all ranks: measures what is open (dist.h, ig_group_way), once, on memory of its own. *out_stale: the frame was made
 * before its ways were known, and would be another one now. Failures are the group's too. */
enum ingot_status ig_frame_settle_ways(const struct ig_frame_env *env, struct ig_stream *stream,
                                       const struct ig_frame *frame, bool *out_stale, struct ingot_error *error);
/* Has a GPU done what comes before `event`? That ends only if all ranks have come, or a kernel has given up, as is seen at the end too.
 * INGOT_TIMEOUT: not within the group's time limit, from `since` on. */
enum ingot_status ig_frame_ask_ranks(struct ig_group *group, struct ig_device *device, struct ig_event *event,
                                     uint64_t since, bool *out_done, struct ingot_error *error);
/* Is the step a call of the host between lists, by ig_frame_enqueue_collective or ig_frame_launch_split? */
bool ig_frame_is_between_lists(const struct ig_device *device, const struct ig_frame_step *step);
/* A step that has `launches`. */
enum ingot_status ig_frame_launch_split(struct ig_device *device, struct ig_stream *stream,
                                        const struct ig_frame_step *step, struct ingot_error *error);
enum ingot_status ig_frame_enqueue_collective(struct ig_device *device, struct ig_stream *stream,
                                              const struct ig_frame_step *step, struct ingot_error *error);
/* Failures are the group's: who launches asks it (ig_group_failure). What follows a failed call computes with anything. */
enum ingot_status ig_frame_submit_collective(struct ig_device *device, struct ig_stream *stream,
                                             const struct ig_frame_step *step, struct ingot_error *error);

#endif
