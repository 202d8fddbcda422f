/* The shapes of many runs: all alike, or a random stream of sizes. */
#ifndef CLI_SIZES_H
#define CLI_SIZES_H

#include "session.h"

struct symbol_range {
    const char *name; /* the engine's */
    int64_t lo, hi;
    int64_t step; /* sizes are multiples of it */
};

struct sizes {
    size_t n_inputs, count;       /* of shapes; the stream begins anew behind the last one */
    struct ingot_tensor *shapes;  /* count times n_inputs; their data are unset */
    struct ingot_tensor *largest; /* by input: data for all its shapes, which a tensor list owns */
    struct symbol_range *ranges;  /* that the sizes of a stream are from */
    size_t n_ranges;
    bool has_samples; /* is the first axis of the first input a symbol? */
};

/* Every run has the shapes and data of `tensors`, by inputs_prepare. */
void sizes_init_fixed(struct sizes *sizes, const struct session *session, const struct ingot_tensor *tensors);
struct stream {
    const struct option_list *shapes;        /* --shape: ranges narrower than the engine's */
    const struct context_arguments *context; /* of a context that tries some of the shapes */
    unsigned seed;                           /* equal seeds give equal streams */
    unsigned data_seed;                      /* of the inputs' data */
};

/*
 * For every run, draws each symbol uniformly from its range. If the model refuses such shapes, sizes are multiples of the
 * smallest power of two, up to 64, with which it takes them. Inputs of changing size get random data, which `given` owns.
 */
enum ingot_status sizes_init_stream(struct sizes *sizes, const struct session *session,
                                    const struct ingot_tensor *tensors, const struct stream *stream,
                                    struct tensor_list *given, struct ingot_error *error);
void sizes_deinit(struct sizes *sizes);

/* The first distinct shapes, as indices, at most `most`. Returns how many. */
size_t sizes_find_distinct(const struct sizes *sizes, size_t most, size_t *out);

#endif
