/* How the calls of lab 21 travel. */
#include "tasks.h"

#include "remote/remote.h"

enum { SAVE, NEWEST, MTBF, EXPECTED, INTERVAL, SUSPECT, AGREE };
enum { DISK_WRITE = AGREE + 1, DISK_SYNC, DISK_RENAME, DISK_REMOVE, DISK_SYNC_FOLDER };

/* ---- a disk ---- */

/* lab_save, and what it calls. */
typedef struct disk_call {
    const char *name, *other;
    const unsigned char *data;
    size_t bytes;
    gs_status status;
} disk_call;

static void pass_disk(lab_wire *w, void *arguments) {
    disk_call *a = arguments;
    lab_pass_text(w, &a->name);
    lab_pass_text(w, &a->other);
    LAB_VALUE(w, a->bytes);
    LAB_IN(w, a->data, a->bytes);
    lab_status(w, &a->status);
}

typedef struct newest_call {
    size_t files;
    lab_file *file;
    uint64_t step;
} newest_call;

static void pass_newest(lab_wire *w, void *arguments) {
    newest_call *a = arguments;
    LAB_VALUE(w, a->files);
    LAB_IN(w, a->file, a->files);
    for (size_t i = 0; i < a->files; i++) LAB_IN(w, a->file[i].data, a->file[i].bytes);
    LAB_RESULT(w, a->step);
}

/* ---- what failures cost ---- */

typedef struct mtbf_call {
    size_t kinds;
    const lab_things *kind;
    double mtbf;
} mtbf_call;

static void pass_mtbf(lab_wire *w, void *arguments) {
    mtbf_call *a = arguments;
    LAB_VALUE(w, a->kinds);
    LAB_IN(w, a->kind, a->kinds);
    LAB_RESULT(w, a->mtbf);
}

typedef struct cost_call { /* of both functions */
    gs_failures f;
    double mtbf, every, checkpoint, seconds;
} cost_call;

static void pass_cost(lab_wire *w, void *arguments) {
    cost_call *a = arguments;
    LAB_VALUES(w, a->f.mtbf, a->f.hosts, a->f.work, a->f.checkpoint, a->f.restart, a->mtbf);
    LAB_VALUES(w, a->every, a->checkpoint);
    LAB_RESULT(w, a->seconds);
}

/* ---- those that are left ---- */

typedef struct suspect_call {
    int me, ranks;
    const int *waits_for;
    const double *seconds;
    double timeout;
    int rank;
} suspect_call;

static void pass_suspect(lab_wire *w, void *arguments) {
    suspect_call *a = arguments;
    LAB_VALUES(w, a->me, a->ranks, a->timeout);
    LAB_IN(w, a->waits_for, (size_t)a->ranks);
    LAB_IN(w, a->seconds, (size_t)a->ranks);
    LAB_RESULT(w, a->rank);
}

typedef struct agree_call {
    const gs_snapshot_id *all;
    int size, first;
    uint64_t step;
    bool differ; /* lab_status takes the message along, and not the code */
    gs_status status;
} agree_call;

static void pass_agree(lab_wire *w, void *arguments) {
    agree_call *a = arguments;
    LAB_VALUE(w, a->size);
    LAB_IN(w, a->all, (size_t)a->size * GS_SNAPSHOTS);
    LAB_RESULT(w, a->step);
    LAB_RESULT(w, a->first);
    LAB_RESULT(w, a->differ);
    lab_status(w, &a->status);
}

#ifdef LAB_HAND_IN

LAB_CALLER(call_save, disk_call, a->status = lab_save(a->name, a->other, a->data, a->bytes))

static gs_status ask(int index, disk_call a) {
    lab_remote(index, &a);
    return a.status;
}

gs_status disk_write(const char *name, const void *data, size_t bytes) {
    return ask(DISK_WRITE, (disk_call){.name = name, .data = data, .bytes = bytes});
}

gs_status disk_sync(const char *name) {
    return ask(DISK_SYNC, (disk_call){.name = name});
}

gs_status disk_rename(const char *from, const char *to) {
    return ask(DISK_RENAME, (disk_call){.name = from, .other = to});
}

gs_status disk_remove(const char *name) {
    return ask(DISK_REMOVE, (disk_call){.name = name});
}

gs_status disk_sync_folder(void) {
    return ask(DISK_SYNC_FOLDER, (disk_call){0});
}

LAB_CALLER(call_newest, newest_call, a->step = lab_newest(a->files, a->file))
LAB_CALLER(call_mtbf, mtbf_call, a->mtbf = lab_mtbf(a->kinds, a->kind))
LAB_CALLER(call_expected, cost_call, a->seconds = lab_expected(&a->f, a->mtbf, a->every))
LAB_CALLER(call_interval, cost_call, a->seconds = lab_interval(a->checkpoint, a->mtbf))
LAB_CALLER(call_suspect, suspect_call,
           a->rank = lab_suspect(a->me, a->ranks, a->waits_for, a->seconds, a->timeout))

static void call_agree(void *arguments) {
    agree_call *a = arguments;
    a->status = gs_snapshots_agree(a->all, a->size, &a->step, &a->first);
    a->differ = a->status == GS_E_DIFFER;
}

/* As in src/persist/snapshots.c, so that 21.5 need not ask. */
const gs_snapshot_id *gs_snapshot_id_newest(const gs_snapshot_id *of) {
    const gs_snapshot_id *found = NULL;
    for (int i = 0; i < GS_SNAPSHOTS; i++)
        if (of[i].valid && (!found || of[i].step > found->step)) found = &of[i];
    return found;
}

const gs_snapshot_id *gs_snapshot_id_of_step(const gs_snapshot_id *of, uint64_t step) {
    for (int i = 0; i < GS_SNAPSHOTS; i++)
        if (of[i].valid && of[i].step == step) return &of[i];
    return NULL;
}

#else

gs_status lab_save(const char *name, const char *temporary, const void *data, size_t bytes) {
    LAB_ASK(SAVE, disk_call, status, name, temporary, data, bytes, GS_OK);
}

static gs_status unnamed(void) {
    return gs_fail(GS_E_USAGE, "a file has no name (NULL)");
}

LAB_CALLER(call_write, disk_call, a->status = a->name ? disk_write(a->name, a->data, a->bytes) : unnamed())
LAB_CALLER(call_sync, disk_call, a->status = a->name ? disk_sync(a->name) : unnamed())
LAB_CALLER(call_rename, disk_call,
           a->status = a->name && a->other ? disk_rename(a->name, a->other) : unnamed())
LAB_CALLER(call_remove, disk_call, a->status = a->name ? disk_remove(a->name) : unnamed())
LAB_CALLER(call_sync_folder, disk_call, a->status = disk_sync_folder())

uint64_t lab_newest(size_t files, const lab_file *file) {
    LAB_ASK(NEWEST, newest_call, step, files, (lab_file *)file, 0);
}

double lab_mtbf(size_t kinds, const lab_things *kind) {
    LAB_ASK(MTBF, mtbf_call, mtbf, kinds, kind, 0);
}

double lab_expected(const gs_failures *f, double mtbf, double every) {
    LAB_ASK(EXPECTED, cost_call, seconds, .f = *f, .mtbf = mtbf, .every = every);
}

double lab_interval(double checkpoint, double mtbf) {
    LAB_ASK(INTERVAL, cost_call, seconds, .checkpoint = checkpoint, .mtbf = mtbf);
}

int lab_suspect(int me, int ranks, const int *waits_for, const double *seconds, double timeout) {
    LAB_ASK(SUSPECT, suspect_call, rank, me, ranks, waits_for, seconds, timeout, 0);
}

gs_status gs_snapshots_agree(const gs_snapshot_id *all, int size, uint64_t *step, int *first) {
    agree_call a = {.all = all, .size = size, .first = *first, .step = *step};
    lab_remote(AGREE, &a);
    *step = a.step;
    *first = a.first;
    return a.status != GS_OK && a.differ ? gs_fail(GS_E_DIFFER, "%s", gs_message()) : a.status;
}
#endif

const lab_function lab_functions[] = {
    {sizeof(disk_call), pass_disk, LAB_THEIRS(call_save)},
    {sizeof(newest_call), pass_newest, LAB_THEIRS(call_newest)},
    {sizeof(mtbf_call), pass_mtbf, LAB_THEIRS(call_mtbf)},
    {sizeof(cost_call), pass_cost, LAB_THEIRS(call_expected)},
    {sizeof(cost_call), pass_cost, LAB_THEIRS(call_interval)},
    {sizeof(suspect_call), pass_suspect, LAB_THEIRS(call_suspect)},
    {sizeof(agree_call), pass_agree, LAB_THEIRS(call_agree)},
    {sizeof(disk_call), pass_disk, LAB_OURS(call_write)},
    {sizeof(disk_call), pass_disk, LAB_OURS(call_sync)},
    {sizeof(disk_call), pass_disk, LAB_OURS(call_rename)},
    {sizeof(disk_call), pass_disk, LAB_OURS(call_remove)},
    {sizeof(disk_call), pass_disk, LAB_OURS(call_sync_folder)},
    {0},
};
