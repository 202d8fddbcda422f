/* Progress of a long build on stderr: one line that is rewritten on a terminal, plain lines elsewhere. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

struct progress;

struct progress *progress_create(void);
/* For ingot_build_options.progress; `user` is a struct progress. */
void progress_update(void *user, const char *what, unsigned done, unsigned total);
/* For ingot_build_options.note: prints a separate line. `user` may be NULL if no progress is shown. */
void progress_note(void *user, const char *text);
/* Ends an open line, and frees. */
void progress_destroy(struct progress *progress);

#endif
