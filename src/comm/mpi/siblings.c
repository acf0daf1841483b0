/* See session.h. The processes of one mpirun have the same PMIX_NAMESPACE. */
#ifdef GRADSUM_MPI
#include "comm/mpi/session.h"
#include "comm/process.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The rank of a process of the same mpirun; -1: it is none, or another user's. */
static int rank_of(long pid, const char *name_space) {
    static const char rank_is[] = "OMPI_COMM_WORLD_RANK=", space_is[] = "PMIX_NAMESPACE=";
    char path[64], *one = NULL;
    size_t room = 0;
    int rank = -1;
    bool same = false;
    snprintf(path, sizeof path, "/proc/%ld/environ", pid);
    FILE *f = fopen(path, "re");
    while (f && getdelim(&one, &room, '\0', f) > 0) {
        if (strncmp(one, rank_is, sizeof rank_is - 1) == 0) rank = atoi(one + sizeof rank_is - 1);
        if (strncmp(one, space_is, sizeof space_is - 1) == 0)
            same = strcmp(one + sizeof space_is - 1, name_space) == 0;
    }
    free(one);
    if (f) fclose(f);
    return same ? rank : -1;
}

bool gs_mpi_stopped_sibling(int *rank, long *pid) {
    const char *name_space = getenv("PMIX_NAMESPACE");
    DIR *all = name_space ? opendir("/proc") : NULL;
    bool found = false;
    for (const struct dirent *e; all && !found && (e = readdir(all));) {
        *pid = atol(e->d_name);
        found = *pid > 0 && *pid != getpid() && gs_process_is_stopped(*pid) &&
                (*rank = rank_of(*pid, name_space)) >= 0;
    }
    if (all) closedir(all);
    return found;
}
#endif
