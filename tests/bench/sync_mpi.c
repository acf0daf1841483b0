/* Measures MPI_Allreduce between mpirun's processes for sync.sh, with the same sizes, batches and output lines as
 * sync.c. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 7, MOST_FLOATS = 1 << 24 };

static const int sizes[] = {256, 4096, 65536, 1 << 19, 1 << 22, MOST_FLOATS};

static double batch(float *data, int count, int calls) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < calls; i++)
        MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return (MPI_Wtime() - start) / calls;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int count, char **argument) {
    int rank, ranks;
    MPI_Init(&count, &argument);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    float *data = calloc(MOST_FLOATS, sizeof *data);
    if (!data) MPI_Abort(MPI_COMM_WORLD, 1);
    memset(data, 0, MOST_FLOATS * sizeof *data);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double seconds[BATCHES], once = batch(data, sizes[i], 3);
        int calls = (int)(0.03 / (once > 1e-7 ? once : 1e-7)) + 2;
        if (calls > 3000) calls = 3000;
        MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
        for (int k = 0; k < BATCHES; k++) seconds[k] = batch(data, sizes[i], calls);
        qsort(seconds, BATCHES, sizeof *seconds, compare);
        if (rank == 0)
            printf("mpi|MPI_Allreduce|%d|%zu|%.2f\n", ranks, (size_t)sizes[i] * sizeof *data,
                   1e6 * seconds[BATCHES / 2]);
    }
    free(data);
    MPI_Finalize();
    return 0;
}
