/* Windows of a group's GPUs (base/window.h): memory of each that the kernels of the others write to; see windows.c. */
#ifndef IG_DIST_WINDOWS_H
#define IG_DIST_WINDOWS_H

#include "base/window.h"
#include "device/device.h"
#include "dist/dist.h"

struct ig_windows;

enum { IG_WINDOWS_REASON_SIZE = 256 };

/*
 * Opens a window on this rank's GPU and reaches those of the others; all ranks call it together. `host` is the rank's seat of
 * a group on CPUs, whose time limit becomes that of the kernels, and which outlives the windows. `is_split`: the ranks are threads that
 * share GPUs, so that calls are split into launches. Where a rank can have none, no rank gets any: INGOT_OK, *out_windows is NULL, and
 * out_reason says what is missing where. Errors are of the group alone. Retains the device.
 */
enum ingot_status ig_windows_open(struct ig_group *host, struct ig_device *device, bool is_split,
                                  struct ig_windows **out_windows, char out_reason[IG_WINDOWS_REASON_SIZE],
                                  struct ingot_error *error);
/* Accepts NULL. No kernel of this rank or of another may use them. */
void ig_windows_close(struct ig_windows *windows);

/* What a rank's windows take of its GPU's memory; 0: so many ranks get none. */
size_t ig_windows_bytes(uint32_t ranks);

/* The address of the struct ig_window_seat, for kernels. */
void *ig_windows_seat(const struct ig_windows *windows);

/* See ig_group_meet. */
enum ingot_status ig_windows_meet(struct ig_windows *windows, struct ig_stream *stream, struct ingot_error *error);

/* What the collective of that number is called in messages; the label is copied, cut off if it is long. */
enum ingot_status ig_windows_name(struct ig_windows *windows, uint32_t number, const char *label,
                                  struct ingot_error *error);
/* INGOT_OK, or why a kernel of this rank gave up. */
enum ingot_status ig_windows_look(const struct ig_windows *windows, struct ingot_error *error);
/* Kernels of this rank wait no longer. From any thread. */
void ig_windows_stop(struct ig_windows *windows);
/* As they were at first. None of the ranks' kernels runs, and all ranks do this before the next one does. */
enum ingot_status ig_windows_renew(struct ig_windows *windows, struct ingot_error *error);

#endif
