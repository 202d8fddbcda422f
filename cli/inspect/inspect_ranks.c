/* Prints how an engine's network is divided among ranks. */
#include <string.h>

#include "inspect/inspect.h"

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

/* Milliseconds, or samples per second where these are the objective; and what memory is needed if it is more than may be. */
static void print_estimate(const json_t *sharding, const json_t *strategy, FILE *to) {
    const double limit = number(sharding, "memory");
    const double needed = number(strategy, "weights_bytes") + number(strategy, "values_bytes");
    if (strcmp(json_text(sharding, "objective"), "throughput") == 0)
        fprintf(to, " %.1f", number(strategy, "samples_per_s"));
    else
        fprintf(to, " %.3f", number(strategy, "us") / 1e3);
    if (limit > 0 && needed > limit) fprintf(to, " needs %.3f MB", needed / 1e6);
}

/* "tensor, 1.234 ms estimated, by NVLink (none 2.345, batch 2.346); 1.345 ms by its kernels" */
static void print_strategy(const json_t *sharding, FILE *to) {
    const json_t *considered = json_object_get(sharding, "considered");
    const char *chosen = json_text(sharding, "strategy");
    bool is_first = true, throughput = strcmp(json_text(sharding, "objective"), "throughput") == 0;
    fprintf(to, "ranks       %lld: %s%s,", (long long)json_number(sharding, "ranks"), chosen,
            json_is_true(json_object_get(sharding, "forced")) ? " as asked for" : "");
    for (size_t i = 0; i < json_array_size(considered); i++) {
        const json_t *one = json_array_get(considered, i);
        if (strcmp(json_text(one, "strategy"), chosen) != 0) continue;
        print_estimate(sharding, one, to);
        fprintf(to, "%s estimated, by %s", throughput ? " samples/s" : " ms", json_text(sharding, "link"));
        if (number(sharding, "memory") > 0)
            fprintf(to, ", %.3f MB a rank", (number(one, "weights_bytes") + number(one, "values_bytes")) / 1e6);
    }
    for (size_t i = 0; i < json_array_size(considered); i++) {
        const json_t *one = json_array_get(considered, i);
        if (strcmp(json_text(one, "strategy"), chosen) == 0) continue;
        fprintf(to, "%s%s", is_first ? " (" : ", ", json_text(one, "strategy"));
        print_estimate(sharding, one, to);
        is_first = false;
    }
    fprintf(to, "%s", is_first ? "" : ")");
    double kernels = number(sharding, "kernels_us");
    if (kernels > 0) fprintf(to, "; %.3f ms by its kernels", (kernels + number(sharding, "links_us")) / 1e3);
    fputc('\n', to);
}

static void print_collectives(const json_t *collectives, FILE *to) {
    for (size_t i = 0; i < json_array_size(collectives); i++) {
        const json_t *one = json_array_get(collectives, i);
        fprintf(to, "%s%lld %s of %.3f MB", i ? ", " : "            ", (long long)json_number(one, "count"),
                json_text(one, "op"), number(one, "bytes") / 1e6);
    }
    if (json_array_size(collectives) > 0) fputc('\n', to);
}

/* What each rank reads of the weights; nothing of one rank, which reads all. */
static void print_weights(const json_t *sharding, FILE *to) {
    if (json_number(sharding, "ranks") < 2) return;
    fprintf(to, "            each reads %.3f MB of weights at most\n", number(sharding, "weights_bytes") / 1e6);
}

static void print_asked(const json_t *asked, FILE *to) {
    for (size_t i = 0; i < json_array_size(asked); i++) {
        const json_t *one = json_array_get(asked, i);
        long long nodes = (long long)json_number(one, "nodes");
        fprintf(to, "            asked for: %s (%lld node%s)\n", json_text(one, "shard"), nodes, nodes == 1 ? "" : "s");
    }
}

/* Products that are divided alike are one line, at the first of them. */
static void print_divided(const json_t *divided, FILE *to) {
    for (size_t i = 0; i < json_array_size(divided); i++) {
        const json_t *one = json_array_get(divided, i);
        size_t like = 0, before = 0;
        for (size_t k = 0; k < json_array_size(divided); k++) {
            bool same = strcmp(json_text(json_array_get(divided, k), "how"), json_text(one, "how")) == 0;
            like += same;
            before += same && k < i;
        }
        if (before) continue;
        fprintf(to, "            %s", json_text(one, "node"));
        if (like > 1) fprintf(to, " and %zu more", like - 1);
        fprintf(to, ": %s\n", json_text(one, "how"));
    }
}

static void print_stages(const json_t *stages, FILE *to) {
    for (size_t i = 0; i < json_array_size(stages); i++) {
        const json_t *one = json_array_get(stages, i);
        const long long nodes = (long long)json_number(one, "nodes");
        fprintf(to, "            rank %lld: %lld nodes", (long long)json_number(one, "rank"), nodes);
        if (nodes > 0)
            fprintf(to, ", %s to %s, %.3f ms", json_text(one, "first"), json_text(one, "last"),
                    number(one, "us") / 1e3);
        fputc('\n', to);
    }
}

void inspect_ranks_print(const json_t *explanation, bool all, FILE *to) {
    const json_t *shardings = json_object_get(explanation, "sharding");
    for (size_t i = 0; i < json_array_size(shardings); i++) {
        const json_t *sharding = json_array_get(shardings, i);
        print_strategy(sharding, to);
        print_collectives(json_object_get(sharding, "collectives"), to);
        print_weights(sharding, to);
        print_asked(json_object_get(sharding, "asked"), to);
        print_stages(json_object_get(sharding, "stages"), to);
        if (all) print_divided(json_object_get(sharding, "divided"), to);
    }
}
