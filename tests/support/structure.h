/*
 * Structures: exported networks whose initialisers have types but, the large ones, no data. Here they get some that cost
 * nothing: small ones are made up, large ones are holes in a sparse file. Kernels do not depend on the numbers; what runs
 * needs better ones.
 */
#ifndef TESTS_SUPPORT_STRUCTURE_H
#define TESTS_SUPPORT_STRUCTURE_H

/* Writes FOLDER/model.onnx and FOLDER/weights, and returns the path of the model, to be freed. A model that has all its
 * data is left as it is: the result is `path`. NULL where a file cannot be read or written. */
char *structure_fill(const char *path, const char *folder);

#endif
