#include "sync/call.h"

#include <stdio.h>
#include <string.h>

#include "data/shard.h"

static const struct {
    const char *name;
    bool reduces;
    const char *root; /* how messages speak of the root; NULL: there is none */
} operations[GS_OPERATIONS] = {
    [GS_SEND] = {"send", false, "to"},
    [GS_RECV] = {"recv", false, "from"},
    [GS_BROADCAST] = {"broadcast", false, "from"},
    [GS_ALL_REDUCE] = {"all_reduce", true, NULL},
    [GS_REDUCE] = {"reduce", true, "to"},
    [GS_ALL_GATHER] = {"all_gather", false, NULL},
    [GS_GATHER] = {"gather", false, "to"},
    [GS_SCATTER] = {"scatter", false, "from"},
    [GS_REDUCE_SCATTER] = {"reduce_scatter", true, NULL},
    [GS_ALL_TO_ALL] = {"all_to_all", false, NULL},
    [GS_BARRIER] = {"barrier", false, NULL},
};

const char *gs_operation_name(gs_operation operation) {
    if ((unsigned)operation >= GS_OPERATIONS) gs_bug("there is no operation %d", (int)operation);
    return operations[operation].name;
}

bool gs_operation_reduces(gs_operation operation) {
    return operations[operation].reduces;
}

bool gs_operation_has_root(gs_operation operation) {
    return operations[operation].root != NULL;
}

void gs_call_describe(const gs_call *c, bool full, char *text, size_t size) {
    const char *name = gs_operation_name(c->operation), *root = operations[c->operation].root;
    if (c->operation == GS_BARRIER) {
        snprintf(text, size, "%s", name);
        return;
    }
    char how[24] = "", where[24] = "";
    if (full && operations[c->operation].reduces)
        snprintf(how, sizeof how, " (%s)", gs_reduction_name(c->reduction));
    if (full && root) snprintf(where, sizeof where, " %s rank %d", root, c->root);
    snprintf(text, size, "%s of %zu %s%s%s", name, c->count, gs_type_name(c->type), how, where);
}

gs_call_bytes gs_call_bytes_of(const gs_call *c, int rank, int size) {
    size_t bytes = c->count * gs_type_size(c->type), all = bytes * (size_t)size;
    bool root = rank == c->root;
    switch (c->operation) {
    case GS_SEND:
        return (gs_call_bytes){bytes, 0};
    case GS_RECV:
    case GS_BROADCAST:
    case GS_ALL_REDUCE:
    case GS_REDUCE:
        return (gs_call_bytes){0, bytes};
    case GS_ALL_GATHER:
        return (gs_call_bytes){bytes, all};
    case GS_GATHER:
        return (gs_call_bytes){bytes, root ? all : 0};
    case GS_SCATTER:
        return (gs_call_bytes){root ? all : 0, bytes};
    case GS_REDUCE_SCATTER:
        return (gs_call_bytes){bytes, gs_shard_of(c->count, rank, size).count * gs_type_size(c->type)};
    case GS_ALL_TO_ALL:
        return (gs_call_bytes){all, all};
    default:
        return (gs_call_bytes){0, 0};
    }
}

gs_status gs_call_run(gs_comm *c, const gs_call *call, const void *in, void *out) {
    size_t n = call->count;
    gs_type type = call->type;
    gs_reduction how = call->reduction;
    int root = call->root;
    switch (call->operation) {
    case GS_SEND:
        return c->ops->send(c, in, n * gs_type_size(type), root);
    case GS_RECV:
        return c->ops->recv(c, out, n * gs_type_size(type), root);
    case GS_BROADCAST:
        return c->ops->broadcast(c, out, n, type, root);
    case GS_ALL_REDUCE:
        return c->ops->all_reduce(c, out, n, type, how);
    case GS_REDUCE:
        return c->ops->reduce(c, out, n, type, how, root);
    case GS_ALL_GATHER:
        return c->ops->all_gather(c, in, out, n, type);
    case GS_GATHER:
        return c->ops->gather(c, in, out, n, type, root);
    case GS_SCATTER:
        return c->ops->scatter(c, in, out, n, type, root);
    case GS_REDUCE_SCATTER:
        return c->ops->reduce_scatter(c, in, out, n, type, how);
    case GS_ALL_TO_ALL:
        return c->ops->all_to_all(c, in, out, n, type);
    default:
        return c->ops->barrier(c);
    }
}
