/* A kernel's file, cl/NAME.cl, is found when an operator first needs it, built once per open device, and kept. Kernels
 * that most training steps use together are built as one program. */
#include "cl/cl.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "cl/sealed.h"
#include "core/memory.h"
#include "io/file.h"

struct gs_cl_program {
    const char *file;
    cl_program program;
};

struct gs_cl_kernel {
    const char *file, *name;
    cl_kernel kernel;
    size_t max_local; /* limit on its work-items per work-group */
};

/* ---- a kernel's source ---- */

typedef struct text {
    FILE *to;
    char whole[32][200]; /* files already included in full */
    int wholes;
} text;

/* Make the compiler's messages name a file and line that the user can open. */
static void append_place(text *t, int line, const char *file) {
    fprintf(t->to, "#line %d \"%s\"\n", line, file);
}

/* The name in a line `#include "name"`; returns false for any other line. */
static bool included(const char *line, char file[200]) {
    char quote[2];
    return sscanf(line, "#include \"%199[^\"\n]%1[\"]", file, quote) == 2;
}

static bool is_in(const text *t, const char *file) {
    for (int i = 0; i < t->wholes; i++)
        if (strcmp(t->whole[i], file) == 0) return true;
    return false;
}

/* Open the file or, if it is missing, the sealed one: then its content is *text, to be freed after *f is closed. */
static gs_status open_file(const char *path, const char *file, FILE **f, char **text) {
    const gs_cl_sealed *s = gs_cl_sealed_files;
    uint64_t bytes;
    *text = NULL;
    while (s->file && strcmp(s->file, file) != 0) s++;
    if (s->file && access(path, F_OK) != 0)
        GS_TRY(gs_context(gs_unzip(file, s->data, s->bytes, s->size, text), "sealed kernels"));
    if (!*text) return gs_context(gs_file_open_stream(path, f, &bytes), "kernels");
    *f = fmemopen(*text, s->size, "r");
    if (*f) return GS_OK;
    free(*text);
    *text = NULL;
    return gs_fail(GS_E_MEMORY, "no memory for the kernels in %s", file);
}

/* Append folder/file, expanding each #include once, where it first occurs. (-I would do that too, but PoCL 3.1 accepts
 * no folder whose name contains a space.) */
static gs_status append_file(text *t, const char *folder, const char *file, int depth) {
    char path[4400], line[1024], other[200], *sealed;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    if (depth > 8)
        return gs_fail(GS_E_FILE, "%s: it includes itself, or its includes are nested over eight deep", path);
    FILE *f;
    GS_TRY(open_file(path, file, &f, &sealed));
    gs_status st = GS_OK;
    append_place(t, 1, file);
    for (int number = 1; st == GS_OK && fgets(line, sizeof line, f); number++) {
        if (!included(line, other)) {
            fputs(line, t->to);
            continue;
        }
        if (!is_in(t, other)) st = append_file(t, folder, other, depth + 1);
        append_place(t, number + 1, file);
    }
    if ((size_t)t->wholes < sizeof t->whole / sizeof *t->whole)
        snprintf(t->whole[t->wholes++], sizeof *t->whole, "%s", file);
    if (st == GS_OK && ferror(f)) st = gs_fail(GS_E_FILE, "cannot read the kernels in %s", path);
    fclose(f);
    free(sealed);
    return st;
}

static gs_status kernel_folder(char *folder, size_t size) {
    const char *own = getenv("GRADSUM_KERNELS");
    if (!own || !*own) return gs_file_of_gradsum("cl", folder, size);
    if (strlen(own) >= size) return gs_fail(GS_E_USAGE, "GRADSUM_KERNELS is longer than %zu bytes", size);
    strcpy(folder, own);
    return GS_OK;
}

/* ---- programs and kernels ---- */

/* The macro definitions for a variant of a file; the variants' names are explained in stored.clh. */
static const char *variant_of(const char **file) {
    static const struct {
        const char *before, *defines;
    } variants[] = {{"bf16/", "#define STORED_BF16\n"},
                    {"f16/", "#define STORED_F16\n"},
                    {"all_bf16/", "#define STORED_BF16\n#define ALL_STORED\n"},
                    {"all_f16/", "#define STORED_F16\n#define ALL_STORED\n"}};
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        const size_t length = strlen(variants[i].before);
        if (strncmp(*file, variants[i].before, length) != 0) continue;
        *file += length;
        return variants[i].defines;
    }
    return "";
}

static gs_status build(gs_device *d, const char *file, cl_program *out) {
    char folder[4096], name[100];
    GS_TRY(kernel_folder(folder, sizeof folder));
    const char *defines = variant_of(&file);
    snprintf(name, sizeof name, "%s.cl", file);
    char *bytes = NULL;
    size_t size;
    text source = {.to = open_memstream(&bytes, &size)};
    if (source.to) fputs(defines, source.to);
    gs_status st = source.to ? append_file(&source, folder, name, 0) : GS_OK;
    if (st == GS_OK && (!source.to || fflush(source.to) != 0 || ferror(source.to)))
        st = gs_fail(GS_E_MEMORY, "no memory for the source of the kernels in %s", name);
    if (st == GS_OK) st = gs_cl_build(gs_cl_of(d), d->exact, name, bytes, out);
    if (source.to) fclose(source.to);
    free(bytes);
    return st;
}

/* The file of the program that contains the kernels of `file`. */
static const char *program_of(const char *file) {
    static const struct {
        const char *file, *program;
    } together[] = {{"data", "training"},          {"gemm", "training"},
                    {"linear", "training"},        {"memory", "training"},
                    {"sgd", "training"},           {"softmax_cross_entropy", "training"},
                    {"stats", "training"},         {"bf16/gemm", "bf16/products"},
                    {"f16/gemm", "f16/products"},  {"bf16/linear", "bf16/products"},
                    {"f16/linear", "f16/products"}};
    for (size_t i = 0; i < sizeof together / sizeof *together; i++)
        if (strcmp(file, together[i].file) == 0) return together[i].program;
    return file;
}

gs_status gs_cl_program(gs_device *d, const char *file, cl_program *out) {
    gs_cl *cl = gs_cl_of(d);
    file = program_of(file);
    for (size_t i = 0; i < cl->program_count; i++)
        if (strcmp(cl->programs[i].file, file) == 0) {
            *out = cl->programs[i].program;
            return GS_OK;
        }
    if (!gs_grow(&cl->programs, cl->program_count, &cl->program_room, sizeof *cl->programs))
        return gs_fail(GS_E_MEMORY, "cl: no memory for %zu programs", cl->program_count + 1);
    GS_TRY(build(d, file, out));
    cl->programs[cl->program_count++] = (struct gs_cl_program){file, *out};
    return GS_OK;
}

static gs_status find_kernel(gs_device *d, const char *file, const char *name, struct gs_cl_kernel **out) {
    gs_cl *cl = gs_cl_of(d);
    for (size_t i = 0; i < cl->kernel_count; i++)
        if (strcmp(cl->kernels[i].name, name) == 0 && strcmp(cl->kernels[i].file, file) == 0) {
            *out = &cl->kernels[i];
            return GS_OK;
        }
    if (!gs_grow(&cl->kernels, cl->kernel_count, &cl->kernel_room, sizeof *cl->kernels))
        return gs_fail(GS_E_MEMORY, "cl: no memory for %zu kernels", cl->kernel_count + 1);
    struct gs_cl_kernel k = {.file = file, .name = name};
    cl_program program;
    cl_int error;
    GS_TRY(gs_cl_program(d, file, &program));
    k.kernel = clCreateKernel(program, name, &error);
    GS_TRY(gs_cl_check(error, "%s.cl: clCreateKernel(%s)", file, name));
    error = clGetKernelWorkGroupInfo(k.kernel, cl->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof k.max_local,
                                     &k.max_local, NULL);
    if (error != CL_SUCCESS) {
        clReleaseKernel(k.kernel);
        return gs_cl_check(error, "%s.cl: clGetKernelWorkGroupInfo(%s)", file, name);
    }
    cl->kernels[cl->kernel_count] = k;
    *out = &cl->kernels[cl->kernel_count++];
    return GS_OK;
}

void gs_cl_programs_free(gs_cl *cl) {
    for (size_t i = 0; i < cl->kernel_count; i++) clReleaseKernel(cl->kernels[i].kernel);
    for (size_t i = 0; i < cl->program_count; i++) clReleaseProgram(cl->programs[i].program);
    free(cl->kernels);
    free(cl->programs);
}

/* ---- running ---- */

gs_cl_grid gs_cl_items(size_t items, size_t local) {
    return (gs_cl_grid){{gs_cl_parts(items, local), 1, 1}, {local, 1, 1}};
}

gs_cl_grid gs_cl_groups(gs_device *d, size_t groups) {
    const size_t each = gs_cl_of(d)->tiles.gpu ? GS_SUM_ITEMS : 1;
    return gs_cl_items(groups * each, each);
}

gs_cl_grid gs_cl_rows(gs_device *d, size_t rows) {
    enum { HOLDERS = 32 }; /* sums.clh */
    return gs_cl_of(d)->tiles.gpu ? gs_cl_items(rows * HOLDERS, GS_SUM_ITEMS) : gs_cl_items(rows, 1);
}

gs_cl_grid gs_cl_with_rows(gs_cl_grid grid, size_t rows) {
    enum { MOST = 65535 };
    grid.groups[1] = rows < MOST ? rows : MOST;
    return grid;
}

gs_cl_grid gs_cl_elements(gs_device *d, size_t count) {
    const gs_cl *cl = gs_cl_of(d);
    size_t each = cl->tiles.gpu ? 1 : (size_t)cl->tiles.vector;
    return gs_cl_items(gs_cl_parts(count, each), cl->tiles.gpu ? 256 : 64);
}

gs_cl_grid gs_cl_planes(gs_device *d, size_t planes, size_t rows) {
    enum { LOCAL = 256 };
    if (!gs_cl_of(d)->tiles.gpu) return gs_cl_items(planes, 1);
    return gs_cl_with_rows(gs_cl_items(planes * GS_LANES, LOCAL), rows);
}

static cl_int set_argument(cl_kernel kernel, cl_uint *index, const gs_cl_arg *a) {
    cl_int error = clSetKernelArg(kernel, (*index)++, a->size, a->bytes ? a->bytes : &a->value);
    if (error != CL_SUCCESS || !a->has_at) return error;
    return clSetKernelArg(kernel, (*index)++, sizeof a->at, &a->at);
}

/* On a CPU a work-group is a function call, which under PoCL 3.1 costs as much as a short work-item. So pairs of
 * one-item work-groups are merged repeatedly, as long as enough groups remain to divide evenly among the cores. */
static void join_groups(const gs_cl *cl, size_t most, gs_cl_grid *g) {
    enum { ENOUGH = 16, LARGEST = 64 }; /* groups per core; work-items in a group */
    size_t groups = g->groups[0] * g->groups[1] * g->groups[2], local = 1;
    if (cl->tiles.gpu || g->local[0] * g->local[1] * g->local[2] != 1) return;
    if (most > LARGEST) most = LARGEST;
    for (int i = 0; i < 3; i++)
        for (; groups / 2 >= ENOUGH * cl->units && 2 * local <= most && g->groups[i] % 2 == 0; groups /= 2) {
            g->groups[i] /= 2;
            g->local[i] *= 2;
            local *= 2;
        }
}

gs_status gs_cl_run(gs_device *d, const char *file, const char *name, gs_cl_grid grid, const gs_cl_arg *args,
                    int count) {
    enum { FLUSH_EVERY = 16 }; /* so that a GPU starts working while the host is still enqueuing */
    gs_cl *cl = gs_cl_of(d);
    if (d->dry) return GS_OK;
    if (grid.groups[0] == 0 || grid.groups[1] == 0 || grid.groups[2] == 0) return GS_OK;
    struct gs_cl_kernel *k = NULL;
    GS_TRY(find_kernel(d, file, name, &k));
    cl_uint index = 0;
    for (int i = 0; i < count; i++) {
        cl_int error = set_argument(k->kernel, &index, &args[i]);
        if (error != CL_SUCCESS)
            return gs_cl_check(error, "%s.cl: clSetKernelArg(%s, %u)", file, name, (unsigned)index - 1);
    }
    join_groups(cl, k->max_local, &grid);
    while (grid.local[0] > k->max_local && grid.local[0] % 2 == 0) { /* a small device: use more groups */
        grid.local[0] /= 2;
        grid.groups[0] *= 2;
    }
    size_t global[3];
    for (int i = 0; i < 3; i++) global[i] = grid.groups[i] * grid.local[i];
    GS_TRY(
        gs_cl_check(clEnqueueNDRangeKernel(cl->queue, k->kernel, 3, NULL, global, grid.local, 0, NULL, NULL),
                    "%s.cl: clEnqueueNDRangeKernel(%s, %zu x %zu x %zu work-items)", file, name, global[0],
                    global[1], global[2]));
    if (++cl->enqueued % FLUSH_EVERY != 0) return GS_OK;
    return gs_cl_check(clFlush(cl->queue), "%s: clFlush", d->name);
}

gs_status gs_cl_run_tasks(gs_device *d, const char *file, const char *name, size_t groups, size_t tasks,
                          const gs_cl_arg *args, int count) {
    enum { MOST = 24 };
    gs_cl *cl = gs_cl_of(d);
    gs_cl_arg all[MOST];
    if (groups == 0 || tasks == 0) return GS_OK;
    if (count > MOST - 3) gs_bug("gs_cl_run_tasks: %s has %d arguments, at most %d", name, count, MOST - 3);
    if (!cl->next.base) GS_TRY(gs_cl_alloc(d, sizeof cl->taken, &cl->next)); /* zeroed by gs_cl_alloc */
    memcpy(all, args, (size_t)count * sizeof *args);
    all[count] = GS_ARG_BUFFER(cl->next);
    all[count + 1] = GS_ARG((int)cl->taken);
    all[count + 2] = GS_ARG((int)tasks);
    GS_TRY(gs_cl_run(d, file, name, (gs_cl_grid){{groups, 1, 1}, {1, 1, 1}}, all, count + 3));
    cl->taken += (cl_uint)(tasks + groups); /* each work-group increments it once more, finding no task */
    return GS_OK;
}
