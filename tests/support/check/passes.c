#include "support/check/passes.h"

#include <string.h>

#include "compile/options.h"
#include "ir/text/print.h"
#include "support/support.h"

struct ig_graph *passes_named(struct ig_graph *g, const char *names, const struct ig_pass_options *options) {
    for (const char *at = names; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        bool known = false;
        for (int i = 0; i < ig_pass_count; i++) {
            if (strlen(ig_passes[i].name) != length || strncmp(ig_passes[i].name, at, length) != 0) continue;
            g = ig_passes[i].run(g, options);
            ig_graph_verify(g, ig_passes[i].name);
            known = true;
        }
        if (!known) fail_msg("there is no pass '%s'", at);
        at += length;
    }
    return g;
}

struct ig_graph *passes_of_build(struct ig_graph *g, const struct ingot_build_options *build,
                                 const struct ig_pass_options *options) {
    for (int i = 0; i < ig_pass_count; i++) {
        if (ig_pass_enabled(build, i)) g = ig_passes[i].run(g, options);
    }
    return g;
}
