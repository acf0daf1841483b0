#include "tests/support/ranks.h"

#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

const char *gs_test_transport;
const gs_link *gs_test_link;

typedef struct world_test {
    const gs_test_layout *layout;
    double timeout;
    gs_test_body body;
    void *context;
    gs_test_outcome *outcome;
    const char *folder;
    bool checked;
    atomic_int ready;   /* comms created so far */
    atomic_bool unmade; /* a comm could not be created */
} world_test;

typedef struct worker {
    gs_test_body body;
    void *context;
    gs_test_outcome *outcome;
    gs_comm *comm;
    pthread_t thread;
} worker;

typedef struct process {
    world_test *test;
    int number;
    pthread_t thread;
    gs_status status;
    char message[1024];
} process;

enum { MOST_SCRATCH = 4 };
static _Thread_local void *scratch[MOST_SCRATCH];

void *gs_test_scratch(size_t bytes) {
    int i = 0;
    while (i < MOST_SCRATCH && scratch[i]) i++;
    if (i == MOST_SCRATCH || !(scratch[i] = calloc(1, bytes + 1))) gs_bug("no memory for a test");
    return scratch[i];
}

static void free_scratch(void) {
    for (int i = 0; i < MOST_SCRATCH; i++) {
        free(scratch[i]);
        scratch[i] = NULL;
    }
}

int gs_test_layout_size(const gs_test_layout *l) {
    int size = l->workers[0];
    for (int p = 1; p < l->processes; p++) size += l->workers[p];
    return size;
}

static void *worker_main(void *argument) {
    worker *w = argument;
    gs_test_outcome *o = &w->outcome[w->comm->rank];
    o->status = w->body(w->comm, w->context);
    snprintf(o->message, sizeof o->message, "%s", o->status == GS_OK ? "" : gs_message());
    free_scratch();
    gs_comm_free(w->comm);
    return NULL;
}

gs_status gs_test_run_process(gs_comm *processes, int local, double timeout, bool checked, gs_test_body body,
                              void *context, gs_test_outcome *outcome, int *first) {
    gs_comm *comms[GS_TEST_RANKS];
    worker workers[GS_TEST_RANKS];
    GS_TRY(gs_comm_workers_create(local, processes, timeout, comms));
    *first = comms[0]->rank;
    for (int i = 0; i < local && gs_test_link; i++)
        GS_TRY(gs_comm_linked_create(comms[i], gs_test_link, &comms[i]));
    for (int i = 0; i < local && checked; i++) GS_TRY(gs_comm_checked_create(comms[i], &comms[i]));
    for (int i = 0; i < local; i++) {
        workers[i] = (worker){body, context, outcome, comms[i], 0};
        if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0) gs_bug("no thread");
    }
    for (int i = 0; i < local; i++) pthread_join(workers[i].thread, NULL);
    return GS_OK;
}

/* No body starts before all comms exist: otherwise a rank that fails at once would make comm creation fail in other
 * processes. */
static gs_status begin_together(gs_comm *c, void *context) {
    world_test *t = context;
    atomic_fetch_add(&t->ready, 1);
    while (atomic_load(&t->ready) < gs_test_layout_size(t->layout) && !atomic_load(&t->unmade)) usleep(100);
    return t->body(c, t->context);
}

/* With "two-level", connects as if each machine ran two processes. */
static gs_status connect_processes(gs_rendezvous *r, gs_comm **out) {
    gs_comm *gloo;
    char machine[20];
    if (strcmp(r->transport, "two-level") != 0) return gs_comm_processes_create(r, out);
    r->transport = "gloo";
    snprintf(machine, sizeof machine, "machine %d", r->rank / 2);
    GS_TRY(gs_comm_processes_create(r, &gloo));
    GS_TRY(gs_comm_two_level_create(gloo, machine, out));
    return *out ? GS_OK : gs_fail(GS_E_PEER, "no machines could be made of %d processes", r->size);
}

static gs_status run_process(const process *p) {
    world_test *t = p->test;
    gs_comm *processes = NULL;
    int first;
    if (t->layout->processes > 0) {
        gs_rendezvous r = {.rank = p->number,
                           .size = t->layout->processes,
                           .directory = t->folder,
                           .timeout = t->timeout < 10 ? 10 : t->timeout,
                           .transport = gs_test_transport ? gs_test_transport : "gloo"};
        GS_TRY(connect_processes(&r, &processes));
        processes->timeout = t->timeout;
    }
    return gs_test_run_process(processes, t->layout->workers[p->number], t->timeout, t->checked,
                               begin_together, t, t->outcome, &first);
}

static void *process_main(void *argument) {
    process *p = argument;
    p->status = run_process(p);
    if (p->status != GS_OK) atomic_store(&p->test->unmade, true);
    snprintf(p->message, sizeof p->message, "%s", p->status == GS_OK ? "" : gs_message());
    return NULL;
}

static void run_ranks(const gs_test_layout *layout, double timeout, bool checked, gs_test_body body,
                      void *context, gs_test_outcome *outcome) {
    char folder[400];
    snprintf(folder, sizeof folder, "%s/meet", gs_test_folder());
    assert_int_equal(mkdir(folder, 0700), 0);
    world_test test = {layout, timeout, body, context, outcome, folder, checked, 0, false};
    process processes[GS_TEST_RANKS];
    int count = layout->processes > 0 ? layout->processes : 1;
    for (int p = 0; p < count; p++) {
        processes[p] = (process){.test = &test, .number = p};
        if (pthread_create(&processes[p].thread, NULL, process_main, &processes[p]) != 0) gs_bug("no thread");
    }
    for (int p = 0; p < count; p++) pthread_join(processes[p].thread, NULL);
    for (int p = 0; p < count; p++)
        if (processes[p].status != GS_OK)
            fail_msg("%s: process %d: %s", layout->name, p, processes[p].message);
    if (layout->processes > 0 && access(folder, F_OK) == 0)
        fail_msg("%s: the folder %s still exists", layout->name, folder);
}

void gs_test_run_ranks(const gs_test_layout *layout, double timeout, gs_test_body body, void *context,
                       gs_test_outcome *outcome) {
    run_ranks(layout, timeout, false, body, context, outcome);
}

void gs_test_run_ranks_over(const char *transport, const gs_test_layout *layout, double timeout,
                            gs_test_body body, void *context, gs_test_outcome *outcome) {
    memset(outcome, 0, GS_TEST_RANKS * sizeof *outcome);
    gs_test_transport = transport;
    run_ranks(layout, timeout, false, body, context, outcome);
    gs_test_transport = NULL;
}

static void ranks_ok(const char *transport, const gs_test_layout *layout, bool checked, gs_test_body body,
                     void *context) {
    gs_test_outcome outcome[GS_TEST_RANKS] = {0};
    gs_test_transport = transport;
    run_ranks(layout, 60, checked, body, context, outcome);
    gs_test_transport = NULL;
    for (int r = 0; r < gs_test_layout_size(layout); r++)
        if (outcome[r].status != GS_OK)
            fail_msg("%s (%s), rank %d: %s", layout->name, transport, r, outcome[r].message);
}

void gs_test_ranks_ok_over(const char *transport, const gs_test_layout *layout, gs_test_body body,
                           void *context) {
    ranks_ok(transport, layout, false, body, context);
}

void gs_test_ranks_ok(const gs_test_layout *layout, gs_test_body body, void *context) {
    ranks_ok("gloo", layout, false, body, context);
    if (layout->processes > 0) ranks_ok("shm", layout, false, body, context);
}

void gs_test_ranks_checked_ok(const gs_test_layout *layout, gs_test_body body, void *context) {
    ranks_ok("gloo", layout, true, body, context);
    if (layout->processes > 0) ranks_ok("shm", layout, true, body, context);
}

gs_status gs_test_messages_of_all_lengths(gs_comm *c, void *context) {
    static const size_t lengths[] = {1,  63,      64, 65, 4096, 100000, 3,   1000003,
                                     64, 2000001, 0,  7,  5000, 100,    5000};
    (void)context;
    unsigned char *data = gs_test_scratch(2000001), *got = gs_test_scratch(2000001);
    int right = (c->rank + 1) % c->size, left = (c->rank + c->size - 1) % c->size;
    for (size_t i = 0; i + 1 < sizeof lengths / sizeof *lengths; i++) {
        for (size_t k = 0; k < 2; k++) {
            for (size_t b = 0; b < lengths[i + k]; b++)
                data[b] = (unsigned char)(b * 7 + i + k + (size_t)c->rank);
            GS_TRY(gs_comm_send(c, data, lengths[i + k], right));
        }
        for (size_t k = 0; k < 2; k++) {
            GS_TRY(gs_comm_recv(c, got, lengths[i + k], left));
            for (size_t b = 0; b < lengths[i + k]; b++)
                RANK_CHECK(got[b] == (unsigned char)(b * 7 + i + k + (size_t)left),
                           "byte %zu of %zu is wrong", b, lengths[i + k]);
        }
    }
    return GS_OK;
}
