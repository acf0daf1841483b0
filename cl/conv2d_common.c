#include "cl/conv2d_common.h"

#include <stdlib.h>
#include <string.h>

gs_status gs_cl_conv2d_table(gs_device *d, const gs_conv2d_sizes *s, size_t count,
                             void (*fill)(const gs_conv2d_sizes *, cl_int *table), gs_mem *table) {
    gs_cl *cl = gs_cl_of(d);
    for (int i = 0; i < cl->table_count; i++)
        if (memcmp(&cl->tables[i].sizes, s, sizeof *s) == 0) {
            *table = cl->tables[i].table;
            return GS_OK;
        }
    gs_cl_table *grown = realloc(cl->tables, ((size_t)cl->table_count + 1) * sizeof *grown);
    cl_int *places = grown ? malloc(count * sizeof *places) : NULL;
    if (grown) cl->tables = grown;
    if (!places) return gs_fail(GS_E_MEMORY, "conv2d: no memory for a table of %zu numbers", count);
    fill(s, places);
    gs_status st = gs_cl_alloc(d, count * sizeof *places, table);
    if (st == GS_OK) {
        cl->tables[cl->table_count++] = (gs_cl_table){*s, *table};
        st = gs_cl_write(d, *table, places, count * sizeof *places);
    }
    free(places);
    return st;
}

gs_status gs_cl_conv2d_weights_sum(gs_device *d, const char *file, gs_mem dw, gs_mem db, gs_mem part,
                                   size_t groups, const gs_conv2d_sizes *s, bool add) {
    const gs_cl_tiles *t = &gs_cl_of(d)->tiles;
    const int inputs = s->in_c * s->kernel_h * s->kernel_w, columns = inputs + (db.base != NULL);
    gs_cl_grid grid = gs_cl_items(t->gpu ? (size_t)columns : gs_cl_parts((size_t)columns, (size_t)t->vector),
                                  t->gpu ? 64 : 1);
    grid.groups[1] = (size_t)s->out_c;
    return GS_CL_RUN(d, file, "conv2d_weights_sum", grid, GS_ARG(dw), GS_ARG(db.base ? db : dw),
                     GS_ARG_BUFFER(part), GS_ARG(groups), GS_ARG(columns), GS_ARG(inputs), GS_ARG((int)add));
}
