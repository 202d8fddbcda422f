/*
 * Structures: exported networks whose large initialisers have types but no data. This adds data cheaply: small ones are
 * made up, large ones are holes in a sparse file. Kernels do not depend on the values; tests of results need realistic
 * ones.
 */
#ifndef TESTS_SUPPORT_STRUCTURE_H
#define TESTS_SUPPORT_STRUCTURE_H

/* Writes FOLDER/model.onnx and FOLDER/weights, and returns the path of the model, which the caller frees. A model with
 * all its data is left as it is: the result is `path`. NULL if a file cannot be read or written. */
char *structure_fill(const char *path, const char *folder);

#endif
