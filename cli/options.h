/* The options of a command as a table, which drives the parser and --help. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* The values of a repeatable option, in order. */
struct option_list {
    const char **at;
    size_t count;
};

/* A number that may be left out. */
struct option_number {
    bool given;
    unsigned value;
};

/* A part of something; the option may come without a number. */
struct option_share {
    bool given;
    double value; /* preset: what the option means alone */
};

enum option_kind {
    OPTION_FLAG,     /* bool */
    OPTION_TEXT,     /* const char * */
    OPTION_UNSIGNED, /* unsigned */
    OPTION_OPTIONAL, /* struct option_number */
    OPTION_NUMBER,   /* double, at least 0 */
    OPTION_SHARE,    /* struct option_share: 0 to 1 */
    OPTION_LIST,     /* struct option_list */
};

struct option_row {
    const char *name; /* without "--"; NULL ends the table */
    char letter;      /* 0: none */
    enum option_kind kind;
    const char *value; /* its placeholder in --help; NULL for a flag */
    const char *help;
    void *target;
};

struct option_table {
    const char *command;
    const char *arguments; /* "MODEL -o ENGINE", for the usage line */
    const char *about;     /* paragraphs above the options */
    const struct option_row *rows;
};

/* Parses the options and moves the other arguments to the front of argv (from index 0). Returns their number, or -1 if
 * the command is over, with its exit status in *out_status (--help, or wrong usage, which was reported). */
int options_parse(const struct option_table *table, int argc, char **argv, int *out_status);
void option_list_free(struct option_list *list);

#endif
