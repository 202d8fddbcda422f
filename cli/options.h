/* Options of a command as a table, from which they are parsed and its --help is printed. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* Values of an option that may be given several times, in order. */
struct option_list {
    const char **at;
    size_t count;
};

enum option_kind {
    OPTION_FLAG,     /* bool */
    OPTION_TEXT,     /* const char * */
    OPTION_UNSIGNED, /* unsigned */
    OPTION_NUMBER,   /* double, at least 0 */
    OPTION_LIST,     /* struct option_list */
};

struct option_row {
    const char *name; /* without "--"; NULL ends the table */
    char letter;      /* 0: none */
    enum option_kind kind;
    const char *value; /* as --help calls it; NULL for a flag */
    const char *help;
    void *target;
};

struct option_table {
    const char *command;
    const char *arguments; /* "MODEL -o ENGINE", for the usage line */
    const char *about;     /* paragraphs above the options */
    const struct option_row *rows;
};

/* Parses; the other arguments are put in front of argv (from index 0). Returns how many there are, or -1 where the command
 * is over: *out_status then is its exit status (--help, or wrong usage, which was reported). */
int options_parse(const struct option_table *table, int argc, char **argv, int *out_status);
void option_list_free(struct option_list *list);

#endif
