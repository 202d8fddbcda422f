/* ingot: the command line. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const struct command commands[] = {
    {"build", "compile a model into an engine", cmd_build},
    {"run", "run an engine or a model once", cmd_run},
    {"bench", "measure latency, throughput and memory", cmd_bench},
    {"refit", "replace the weights of an engine", cmd_refit},
    {"inspect", "show what is inside, and why", cmd_inspect},
    {"verify", "compare with expected outputs or with the reference evaluator", cmd_verify},
    {"cache", "what builds keep for later ones", cmd_cache},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *to) {
    fputs("usage: ingot COMMAND [ARGUMENT...]\n\n"
          "Compiles trained networks (ONNX) into engines, and runs them.\n\n",
          to);
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(to, "  %-10s%s\n", commands[i].name, commands[i].summary);
    fputs("\n'ingot COMMAND --help' says more. Exit status: 0 done; 1 the comparison failed; 2 wrong usage;\n"
          "3 bad input (model, tensor, engine); 4 device or system.\n",
          to);
}

static const struct command *find(const char *name) {
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        char *help[] = {argc > 2 ? argv[2] : argv[1], "--help", NULL};
        if (argc > 2 && find(argv[2])) return find(argv[2])->run(2, help);
        print_help(stdout);
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("ingot %s\n", ingot_version());
        return EXIT_DONE;
    }
    const struct command *command = find(argv[1]);
    if (!command) return cli_usage(NULL, "unknown command '%s'", argv[1]);
    int status = command->run(argc - 1, argv + 1);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("error: cannot write to the standard output\n", stderr);
        if (status == EXIT_DONE) status = EXIT_SYSTEM;
    }
    return status;
}
