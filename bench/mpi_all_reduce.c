/* The latency of MPI's own all-reduce of f32, by size, to be read beside all_reduce_bench; bench/all_reduce compiles it with
 * mpicc. No part of the build, which needs no MPI. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LARGEST = 16 << 20, MOST_CALLS = 20000 };

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    static double times[MOST_CALLS];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    float *data = calloc(LARGEST, 1);
    for (size_t bytes = 256; bytes <= LARGEST; bytes *= 4) {
        size_t calls = bytes <= 65536 ? 20000 : (size_t)600 * 1048576 / bytes;
        if (calls > MOST_CALLS) calls = MOST_CALLS;
        for (size_t i = 0; i < calls; i++) {
            double begin = MPI_Wtime();
            MPI_Allreduce(MPI_IN_PLACE, data, (int)(bytes / sizeof *data), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            times[i] = (MPI_Wtime() - begin) * 1e6;
        }
        if (rank != 0) continue;
        qsort(times, calls, sizeof *times, by_size);
        printf("%9zu bytes  median %9.2f us  least %9.2f us\n", bytes, times[calls / 2], times[0]);
    }
    free(data);
    MPI_Finalize();
    return 0;
}
