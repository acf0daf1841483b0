// Gloo behind a C face: see gloo_c.h. Its ways that are not to be guessed are said here where they matter;
// they were read in the source of Gloo 0.5.0 and tried.
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <unistd.h>
#include <vector>

// Gloo's headers are not free of warnings. Of its TCP transport only device.h can be included: the others
// want files that are not installed.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#pragma GCC diagnostic pop

extern "C" {
#include "sync/gloo_c.h"
#include "sync/gloo_watch.h"
}

using gloo::transport::UnboundBuffer;
using milliseconds = std::chrono::milliseconds;

namespace {

// Run f and turn every exception into a code.
template <typename F> gs_gloo_code guarded(gs_gloo_error *error, F f) {
    try {
        f();
        return GS_GLOO_OK;
    } catch (const gloo::IoException &e) {
        return gs_gloo_explain(error, GS_GLOO_LOST, e.what());
    } catch (const std::bad_alloc &) {
        return gs_gloo_explain(error, GS_GLOO_MEMORY, "out of memory");
    } catch (const std::exception &e) {
        return gs_gloo_explain(error, GS_GLOO_OTHER, e.what());
    } catch (...) {
        return gs_gloo_explain(error, GS_GLOO_OTHER, "an exception that is no std::exception");
    }
}

// ---- waits that the watch knows of (gloo_watch.h) ----

// A buffer of Gloo's: its waits end also when the watch has found a broken connection.
class WatchedBuffer final : public UnboundBuffer {
  public:
    WatchedBuffer(gs_watch *watch, std::unique_ptr<UnboundBuffer> inner)
        : UnboundBuffer(inner->ptr, inner->size), watch_(watch), inner_(std::move(inner)) {}

    bool waitRecv(int *rank, milliseconds timeout) override {
        return wait(false, [&] { return inner_->waitRecv(rank, timeout); });
    }
    bool waitSend(int *rank, milliseconds timeout) override {
        return wait(true, [&] { return inner_->waitSend(rank, timeout); });
    }
    void abortWaitRecv() override { inner_->abortWaitRecv(); }
    void abortWaitSend() override { inner_->abortWaitSend(); }
    void send(int to, uint64_t slot, size_t offset, size_t bytes) override {
        inner_->send(to, slot, offset, bytes);
    }
    void recv(int from, uint64_t slot, size_t offset, size_t bytes) override {
        inner_->recv(from, slot, offset, bytes);
    }
    void recv(std::vector<int> from, uint64_t slot, size_t offset, size_t bytes) override {
        inner_->recv(std::move(from), slot, offset, bytes);
    }

  private:
    struct Entry : gs_watched {
        gs_watch *watch;
        Entry(gs_watch *watch, UnboundBuffer *buffer, bool sends) : gs_watched(), watch(watch) {
            this->buffer = reinterpret_cast<gs_gloo_buffer *>(buffer);
            this->sends = sends;
            gs_watch_begin(watch, this);
        }
        ~Entry() { gs_watch_end(watch, this); }
    };
    template <typename F> bool wait(bool sends, F inner_wait) {
        Entry entry(watch_, inner_.get(), sends);
        if (inner_wait()) return true;
        throw gloo::IoException(gs_watch_found(watch_));
    }

    gs_watch *watch_;
    std::unique_ptr<UnboundBuffer> inner_;
};

// Gloo's connections, but all buffers are watched.
class WatchedConnections final : public gloo::transport::Context {
  public:
    WatchedConnections(gs_watch *watch, std::shared_ptr<gloo::transport::Context> inner)
        : Context(inner->rank, inner->size), watch_(watch), inner_(std::move(inner)) {
        setTimeout(inner_->getTimeout());
    }
    std::unique_ptr<gloo::transport::Pair> &getPair(int rank) override { return inner_->getPair(rank); }
    std::unique_ptr<gloo::transport::Pair> &createPair(int rank) override { return inner_->createPair(rank); }
    std::unique_ptr<UnboundBuffer> createUnboundBuffer(void *ptr, size_t size) override {
        return std::make_unique<WatchedBuffer>(watch_, inner_->createUnboundBuffer(ptr, size));
    }

  private:
    gs_watch *watch_;
    std::shared_ptr<gloo::transport::Context> inner_;
};

// ---- connections ----

// All ranks, connected with each other.
class Mesh final : public gloo::rendezvous::Context {
  public:
    using Context::Context;
    void connect(gloo::rendezvous::Store &store, std::shared_ptr<gloo::transport::Device> device) {
        connectFullMesh(store, device);
        plain_ = transportContext_;
    }
    void be_watched(gs_watch *watch) {
        transportContext_ = std::make_shared<WatchedConnections>(watch, plain_);
    }
    std::unique_ptr<UnboundBuffer> buffer(void *data, size_t bytes, bool watched) {
        return (watched ? transportContext_ : plain_)->createUnboundBuffer(data, bytes);
    }

  private:
    std::shared_ptr<gloo::transport::Context> plain_;
};

// The files that this rank puts into the folder.
class Files final {
  public:
    explicit Files(const char *directory) : files_(directory), store_("gradsum", files_) {}
    ~Files() {
        for (const std::string &path : files_.getAllKeyFilePaths()) unlink(path.c_str());
    }
    gloo::rendezvous::Store &store() { return store_; }

  private:
    gloo::rendezvous::FileStore files_;
    gloo::rendezvous::PrefixStore store_;
};

} // namespace

struct gs_gloo {
    std::shared_ptr<gloo::transport::Device> device;
    std::unique_ptr<Files> files;
    std::shared_ptr<Mesh> mesh;
};

const char *gs_gloo_version(void) {
    static const std::string version = std::to_string(GLOO_VERSION_MAJOR) + "." +
                                       std::to_string(GLOO_VERSION_MINOR) + "." +
                                       std::to_string(GLOO_VERSION_PATCH);
    return version.c_str();
}

gs_gloo_code gs_gloo_connect(const char *directory, int rank, int size, const char *address, int timeout_ms,
                             gs_gloo **out, gs_gloo_error *error) {
    std::shared_ptr<gloo::transport::Device> device;
    gs_gloo_code code = guarded(error, [&] {
        gloo::transport::tcp::attr attributes;
        attributes.hostname = address;
        device = gloo::transport::tcp::CreateDevice(attributes);
    });
    if (code != GS_GLOO_OK) return code == GS_GLOO_MEMORY ? code : error->code = GS_GLOO_ADDRESS;

    return guarded(error, [&] {
        auto g = std::make_unique<gs_gloo>();
        g->device = device;
        g->files = std::make_unique<Files>(directory);
        g->mesh = std::make_shared<Mesh>(rank, size);
        g->mesh->setTimeout(milliseconds(timeout_ms));
        g->mesh->connect(g->files->store(), device);
        *out = g.release();
    });
}

gs_gloo_code gs_gloo_be_watched(gs_gloo *g, gs_watch *watch, gs_gloo_error *error) {
    return guarded(error, [&] { g->mesh->be_watched(watch); });
}

void gs_gloo_remove_files(gs_gloo *g) {
    g->files.reset();
}

void gs_gloo_free(gs_gloo *g) {
    delete g;
}

// ---- collectives ----

template <typename Options, typename F>
static gs_gloo_code collective(gs_gloo *g, int timeout_ms, gs_gloo_error *error, F run) {
    return guarded(error, [&] {
        Options options(g->mesh);
        options.setTimeout(milliseconds(timeout_ms));
        run(options);
    });
}

// Gloo takes the size of an element from a C++ type.
template <typename Options> static void set_output(Options &options, void *data, size_t count, size_t width) {
    if (width == 1)
        options.setOutput(static_cast<uint8_t *>(data), count);
    else if (width == 4)
        options.setOutput(static_cast<uint32_t *>(data), count);
    else
        options.setOutput(static_cast<uint64_t *>(data), count);
}

// Gloo only reads its inputs, but asks for more.
static char *input(const void *data) {
    return static_cast<char *>(const_cast<void *>(data));
}

gs_gloo_code gs_gloo_all_reduce(gs_gloo *g, void *data, size_t count, gs_gloo_reduction reduction,
                                int timeout_ms, gs_gloo_error *error) {
    return collective<gloo::AllreduceOptions>(g, timeout_ms, error, [&](auto &options) {
        set_output(options, data, count, reduction.width);
        options.setReduceFunction(reduction.combine);
        gloo::allreduce(options);
    });
}

gs_gloo_code gs_gloo_raw_all_reduce(gs_gloo *g, float *data, size_t count, int bcube, int timeout_ms,
                                    gs_gloo_error *error) {
    using Options = gloo::AllreduceOptions;
    return collective<Options>(g, timeout_ms, error, [&](Options &options) {
        options.setOutput(data, count);
        options.setAlgorithm(bcube ? Options::Algorithm::BCUBE : Options::Algorithm::RING);
        options.setReduceFunction(
            static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
        gloo::allreduce(options);
    });
}

gs_gloo_code gs_gloo_reduce(gs_gloo *g, void *data, size_t count, gs_gloo_reduction reduction, int root,
                            int timeout_ms, gs_gloo_error *error) {
    return collective<gloo::ReduceOptions>(g, timeout_ms, error, [&](auto &options) {
        set_output(options, data, count, reduction.width);
        options.setReduceFunction(reduction.combine);
        options.setRoot(root);
        gloo::reduce(options);
    });
}

gs_gloo_code gs_gloo_broadcast(gs_gloo *g, void *data, size_t bytes, int root, int timeout_ms,
                               gs_gloo_error *error) {
    return collective<gloo::BroadcastOptions>(g, timeout_ms, error, [&](auto &options) {
        options.setOutput(static_cast<char *>(data), bytes);
        options.setRoot(root);
        gloo::broadcast(options);
    });
}

gs_gloo_code gs_gloo_all_gather(gs_gloo *g, const void *mine, void *all, size_t bytes, int timeout_ms,
                                gs_gloo_error *error) {
    // In place: Gloo's own copy from an input buffer would overlap when `mine` lies in `all`.
    char *place = static_cast<char *>(all) + size_t(g->mesh->rank) * bytes;
    if (place != mine) std::memcpy(place, mine, bytes);
    return collective<gloo::AllgatherOptions>(g, timeout_ms, error, [&](auto &options) {
        options.setOutput(static_cast<char *>(all), bytes * size_t(g->mesh->size));
        gloo::allgather(options);
    });
}

gs_gloo_code gs_gloo_gather(gs_gloo *g, const void *mine, void *all, size_t bytes, int root, int timeout_ms,
                            gs_gloo_error *error) {
    // Gloo copies the root's own part from its input to its place, and the two may be the same.
    return collective<gloo::GatherOptions>(g, timeout_ms, error, [&](auto &options) {
        options.setInput(input(mine), bytes);
        if (g->mesh->rank == root) options.setOutput(static_cast<char *>(all), bytes * size_t(g->mesh->size));
        options.setRoot(root);
        gloo::gather(options);
    });
}

gs_gloo_code gs_gloo_scatter(gs_gloo *g, const void *all, void *mine, size_t bytes, int root, int timeout_ms,
                             gs_gloo_error *error) {
    return collective<gloo::ScatterOptions>(g, timeout_ms, error, [&](auto &options) {
        if (g->mesh->rank == root) {
            std::vector<char *> parts;
            for (int r = 0; r < g->mesh->size; r++) parts.push_back(input(all) + size_t(r) * bytes);
            options.setInputs(parts, bytes);
        }
        options.setOutput(static_cast<char *>(mine), bytes);
        options.setRoot(root);
        gloo::scatter(options);
    });
}

gs_gloo_code gs_gloo_all_to_all(gs_gloo *g, const void *from, void *to, size_t bytes, int timeout_ms,
                                gs_gloo_error *error) {
    return collective<gloo::AlltoallOptions>(g, timeout_ms, error, [&](auto &options) {
        size_t all = bytes * size_t(g->mesh->size);
        options.setInput(input(from), all);
        options.setOutput(static_cast<char *>(to), all);
        gloo::alltoall(options);
    });
}

gs_gloo_code gs_gloo_barrier(gs_gloo *g, int timeout_ms, gs_gloo_error *error) {
    return collective<gloo::BarrierOptions>(g, timeout_ms, error,
                                            [&](auto &options) { gloo::barrier(options); });
}

// ---- messages ----

static UnboundBuffer *of(gs_gloo_buffer *buffer) {
    return reinterpret_cast<UnboundBuffer *>(buffer);
}

gs_gloo_code gs_gloo_buffer_create(gs_gloo *g, void *data, size_t bytes, bool watched, gs_gloo_buffer **out,
                                   gs_gloo_error *error) {
    return guarded(error, [&] {
        *out = reinterpret_cast<gs_gloo_buffer *>(g->mesh->buffer(data, bytes, watched).release());
    });
}

void gs_gloo_buffer_free(gs_gloo_buffer *buffer) {
    delete of(buffer);
}

gs_gloo_code gs_gloo_begin_send(gs_gloo_buffer *buffer, int to, uint64_t slot, gs_gloo_error *error) {
    return guarded(error, [&] { of(buffer)->send(to, slot); });
}

gs_gloo_code gs_gloo_begin_recv(gs_gloo_buffer *buffer, int from, uint64_t slot, gs_gloo_error *error) {
    return guarded(error, [&] { of(buffer)->recv(from, slot); });
}

gs_gloo_code gs_gloo_wait_send(gs_gloo_buffer *buffer, int timeout_ms, gs_gloo_error *error) {
    return guarded(error, [&] { of(buffer)->waitSend(milliseconds(timeout_ms)); });
}

gs_gloo_code gs_gloo_wait_recv(gs_gloo_buffer *buffer, int timeout_ms, gs_gloo_error *error) {
    return guarded(error, [&] { of(buffer)->waitRecv(milliseconds(timeout_ms)); });
}

void gs_gloo_wake(gs_gloo_buffer *buffer, bool sends) {
    sends ? of(buffer)->abortWaitSend() : of(buffer)->abortWaitRecv();
}
