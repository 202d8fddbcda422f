/*
 * How `ingot bench` takes the results of its runs (--outputs), by the three ways of ingot.h: a lease on the context's
 * memory, memory given by the caller (ingot_context_set_output_in), or fresh memory that the caller takes.
 */
#ifndef CLI_OUTPUTS_H
#define CLI_OUTPUTS_H

#include "sizes.h"

enum outputs_mode { OUTPUTS_LEASED, OUTPUTS_GIVEN, OUTPUTS_FRESH };

/* "leased", "given", "fresh"; false for any other text. */
bool outputs_mode_read(const char *text, enum outputs_mode *out_mode);
const char *outputs_mode_name(enum outputs_mode mode);

/* Of one engine, for all its contexts. */
struct outputs {
    enum outputs_mode mode;
    size_t count;
    size_t *bytes; /* by output: the most that any run has; only for OUTPUTS_GIVEN */
};

/* INGOT_UNSUPPORTED if memory is to be given and the size of an output does not follow from those of the inputs. */
enum ingot_status outputs_init(struct outputs *outputs, enum outputs_mode mode, const struct session *session,
                               const struct sizes *sizes, struct ingot_error *error);
void outputs_deinit(struct outputs *outputs);

/* The results of one context. */
struct taker {
    const struct outputs *outputs;
    struct ingot_context *context;
    enum ingot_memory memory; /* of what is given */
    unsigned most;            /* runs whose results are held at once */
    void **given;             /* by run, then by output */
    struct ingot_lease **leases;
    unsigned held;
};

/* Tells the context where results go. What is given lies in `memory`; fresh results are in ordinary memory, since the
 * driver takes longer to allocate pinned memory than many a run takes. */
enum ingot_status taker_init(struct taker *taker, const struct outputs *outputs, struct ingot_context *context,
                             enum ingot_memory memory, unsigned most, struct ingot_error *error);
/* Before the context is destroyed, when no run is in flight; results go to the context's memory again. */
void taker_deinit(struct taker *taker);
/* Enqueues a run on whose results later runs must not write before they are taken; at most `most` at once. */
enum ingot_status taker_enqueue(struct taker *taker, struct ingot_error *error);
/* Takes the results of all such runs or, if there is none, of the last run. All runs have been waited for. */
enum ingot_status taker_take(struct taker *taker, struct ingot_error *error);

#endif
