/* Progress; see progress.h. */
#include "progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

struct progress {
    bool terminal, open;
    char what[64];
    double shown_ms;
};

/* The shortest interval between log lines of one kind of work. */
static const double LOG_INTERVAL_MS = 2000;

struct progress *progress_create(void) {
    struct progress *p = cli_alloc(1, sizeof *p);
    p->terminal = isatty(STDERR_FILENO);
    return p;
}

void progress_update(void *user, const char *what, unsigned done, unsigned total) {
    struct progress *p = user;
    bool changed = strncmp(what, p->what, sizeof p->what - 1) != 0, last = done == total;
    double now = now_ms();
    if (!p->terminal && !changed && !last && now - p->shown_ms < LOG_INTERVAL_MS) return;
    if (changed) snprintf(p->what, sizeof p->what, "%s", what);
    p->shown_ms = now;
    if (!p->terminal) {
        fprintf(stderr, "%s: %u of %u\n", what, done, total);
        return;
    }
    fprintf(stderr, "\r\033[K%s: %u of %u", what, done, total);
    fflush(stderr);
    p->open = true;
}

void progress_note(void *user, const char *text) {
    struct progress *p = user;
    if (p && p->open) fputs("\r\033[K", stderr);
    fprintf(stderr, "note: %s\n", text);
    if (p) p->open = false;
}

void progress_destroy(struct progress *progress) {
    if (!progress) return;
    if (progress->open) fputs("\r\033[K", stderr);
    free(progress);
}
