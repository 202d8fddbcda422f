/* Parsing of options: --name VALUE, --name=VALUE, -n VALUE, -nVALUE; "--" ends them. */
#include "options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static void print_help(const struct option_table *table) {
    printf("usage: ingot %s %s\n\n%s\n", table->command, table->arguments, table->about);
    for (const struct option_row *row = table->rows; row->name; row++) {
        char left[64], letter[8] = "    ";
        if (row->letter) snprintf(letter, sizeof letter, "-%c, ", row->letter);
        snprintf(left, sizeof left, "%s--%s%s%s", letter, row->name, row->value ? " " : "",
                 row->value ? row->value : "");
        printf("  %-28s", left);
        if (strlen(left) > 27) printf("\n  %-28s", "");
        for (const char *line = row->help; *line;) { /* help texts contain their own line breaks */
            size_t length = strcspn(line, "\n");
            printf("%.*s\n", (int)length, line);
            line += length;
            if (*line == '\n') printf("  %-28s", ""), line++;
        }
    }
    printf("      --help                  this text\n");
}

static const struct option_row *find(const struct option_table *table, const char *name, size_t length) {
    for (const struct option_row *row = table->rows; row->name; row++) {
        if (strlen(row->name) == length && memcmp(row->name, name, length) == 0) return row;
    }
    return NULL;
}

static const struct option_row *find_letter(const struct option_table *table, char letter) {
    for (const struct option_row *row = table->rows; row->name; row++) {
        if (row->letter == letter) return row;
    }
    return NULL;
}

static bool set_unsigned(unsigned *target, const char *value) {
    char *end;
    errno = 0;
    unsigned long number = strtoul(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno || number > UINT_MAX) return false;
    *target = (unsigned)number;
    return true;
}

/* Decimal only: strtod also accepts spaces, signs, names and hexadecimal digits. */
static bool set_number(double *target, const char *value) {
    char *end;
    double number = strtod(value, &end);
    if (end == value || *end || !isfinite(number) || strspn(value, "0123456789.e-+") != strlen(value)) return false;
    if (value[0] == '-' || value[0] == '+') return false;
    *target = number;
    return true;
}

/* `value` may be NULL. */
static bool set_share(struct option_share *share, const char *value) {
    double number = 0;
    share->given = true;
    if (!value) return true;
    if (!set_number(&number, value) || number > 1) return false;
    share->value = number;
    return true;
}

static bool set(const struct option_row *row, const char *value) {
    struct option_list *list = row->target;
    struct option_number *number = row->target;
    switch (row->kind) {
    case OPTION_FLAG: *(bool *)row->target = true; return true;
    case OPTION_TEXT: *(const char **)row->target = value; return true;
    case OPTION_UNSIGNED: return set_unsigned(row->target, value);
    case OPTION_OPTIONAL: return number->given = set_unsigned(&number->value, value);
    case OPTION_NUMBER: return set_number(row->target, value);
    case OPTION_SHARE: return set_share(row->target, value);
    case OPTION_LIST:
        list->at = cli_resize(list->at, list->count + 1, sizeof *list->at);
        list->at[list->count++] = value;
        return true;
    }
    return false;
}

static const char *expected(enum option_kind kind) {
    if (kind == OPTION_NUMBER) return "decimal number from 0 up";
    return kind == OPTION_SHARE ? "decimal number from 0 to 1" : "whole number up to 4294967295";
}

/* The value of an option that may have none: the next argument, if it begins like a number. */
static const char *next_number(int argc, char **argv, int *at) {
    bool is_there = *at + 1 < argc && argv[*at + 1][0] && strchr("0123456789.", argv[*at + 1][0]);
    double number;
    return is_there && set_number(&number, argv[*at + 1]) ? argv[++*at] : NULL;
}

/* The option at argv[*at]; advances *at to its value if that is a separate argument. */
static int parse_option(const struct option_table *table, int argc, char **argv, int *at) {
    const char *argument = argv[*at], *value = NULL;
    const struct option_row *row;
    if (argument[1] == '-') {
        size_t length = strcspn(argument + 2, "=");
        row = find(table, argument + 2, length);
        if (argument[2 + length] == '=') value = argument + 3 + length;
    } else {
        row = find_letter(table, argument[1]);
        if (argument[2]) value = argument + 2;
    }
    if (!row) return cli_usage(table->command, "unknown option '%s'", argument);
    if (row->kind == OPTION_FLAG) {
        if (value) return cli_usage(table->command, "option '--%s' takes no value", row->name);
    } else if (row->kind == OPTION_SHARE) {
        if (!value) value = next_number(argc, argv, at);
    } else if (!value) {
        if (*at + 1 >= argc)
            return cli_usage(table->command, "option '--%s' needs a value (%s)", row->name, row->value);
        value = argv[++*at];
    }
    if (!set(row, value))
        return cli_usage(table->command, "option '--%s': '%s' is no %s", row->name, value, expected(row->kind));
    return EXIT_DONE;
}

int options_parse(const struct option_table *table, int argc, char **argv, int *out_status) {
    int count = 0;
    bool options = true;
    *out_status = EXIT_DONE;
    for (int i = 1; i < argc; i++) {
        if (!options || argv[i][0] != '-' || !argv[i][1]) {
            argv[count++] = argv[i];
        } else if (strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(table);
            return -1;
        } else {
            *out_status = parse_option(table, argc, argv, &i);
            if (*out_status != EXIT_DONE) return -1;
        }
    }
    return count;
}

void option_list_free(struct option_list *list) {
    free(list->at);
    *list = (struct option_list){0};
}
