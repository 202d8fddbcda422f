/*
 * Captures plan instances in the background: a thread with a device and a stream of its own, since devices are not
 * thread-safe. An instance belongs to the preparer from ig_preparer_add until the context's thread takes it again; in
 * between no run can find it. A run whose shapes are being prepared makes an instance of its own, and the other one is
 * dropped: it neither waits nor takes a lock.
 *
 * Making a graph ready is one call of the driver, in which it serves no other thread for some hundred microseconds. So
 * while runs go on, the thread rests IG_PREPARER_REST times as long as it has worked, unless somebody waits for it: few
 * runs are delayed then.
 */
#ifndef IG_RUNTIME_PREPARER_H
#define IG_RUNTIME_PREPARER_H

#include "runtime/frame/instance.h"

struct ig_preparer;

enum { IG_PREPARER_REST = 256 };

/* Takes `device`, of the same kind as the context's, also on failure. `env`: the context's, which outlives it. */
enum ingot_status ig_preparer_create(const struct ig_frame_env *env, struct ig_device *device,
                                     struct ig_preparer **out_preparer, struct ingot_error *error);
/* Ends the thread after what it is doing, and drops what nobody has taken. Its lists may need the device: instances that
 * were taken must have been destroyed by ig_preparer_destroy, which follows. Both accept NULL. */
void ig_preparer_stop(struct ig_preparer *preparer);
void ig_preparer_destroy(struct ig_preparer *preparer);

/* Another number of times; UINT_MAX: rests until somebody waits. For tests. */
void ig_preparer_set_rest(struct ig_preparer *preparer, unsigned rest);

/* Gives it an instance to capture, whose frame is placed and whose ports are bound. The memory that these are bound to
 * may be freed before it is captured. */
void ig_preparer_add(struct ig_preparer *preparer, struct ig_instance *instance);
/* Takes the instances that are done, linked by `chain`; NULL: none. Those whose capture failed are not captured, and the
 * run that needs them tries again. */
struct ig_instance *ig_preparer_take(struct ig_preparer *preparer);
/* Waits until all are done; returns the first failure since the last wait. */
enum ingot_status ig_preparer_wait(struct ig_preparer *preparer, struct ingot_error *error);

#endif
