// Gloo behind a C face: see gloo_c.h. Its ways that are not to be guessed are said here where they matter;
// they were read in the source of Gloo 0.5.0 and tried.
#include "sync/gloo_c.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
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
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include "sync/gloo_direct.hh"
#include "sync/gloo_watch.hh"
#pragma GCC diagnostic pop

using gloo::transport::UnboundBuffer;
using milliseconds = std::chrono::milliseconds;

namespace {

// A slot is a channel between two ranks. Gloo's collectives use 1 to 8 as its first byte.
constexpr uint64_t kMessages = uint64_t(0x20) << 56;
constexpr uint64_t kLastWords = uint64_t(0x21) << 56;
constexpr uint64_t kNothing = uint64_t(0x22) << 56; // see gloo_watch.hh

// A message that was sent, and is kept until the peer has it.
struct Copy {
    std::vector<char> bytes;
    std::unique_ptr<UnboundBuffer> buffer;
    bool under_way = false;
};

// Short messages have copies of their own, twice as many: the checking mode sends a length before each message.
constexpr size_t kShort = 64;
struct Outbox {
    std::array<Copy, GS_GLOO_COPIES> copies;
    std::array<Copy, 2 * GS_GLOO_COPIES> short_copies;
    size_t next = 0, next_short = 0;

    Copy &take(size_t bytes) {
        if (bytes > kShort) return copies[next++ % copies.size()];
        return short_copies[next_short++ % short_copies.size()];
    }
};

// Where a peer's last words will arrive: Gloo is asked to receive them from the start.
struct Ear {
    std::array<char, GS_GLOO_WORDS> words{};
    std::unique_ptr<UnboundBuffer> buffer;
    bool come = false;
};

// A sentence of Gloo without its "[/path/of/a/file.cc:123] " in front.
std::string sentence(const char *what) {
    const char *end = what[0] == '[' ? std::strstr(what, "] ") : nullptr;
    std::string text = end ? end + 2 : what;
    if (text.compare(0, 25, "Connection closed by peer") == 0) return "connection closed";
    if (text.find("reset by peer") != std::string::npos) return "connection reset";
    return text;
}

// "Application timeout caused pair closure" is what Gloo tells every connection when one wait of this side
// was too long (or when gs_gloo_close had it time out).
bool closed_here(const std::string &text) {
    return text.find("Application timeout") != std::string::npos;
}

gs_gloo_code explain(gs_gloo_error *error, gs_gloo_code code, const std::string &text) {
    error->code = code;
    std::snprintf(error->text, sizeof error->text, "%s", text.c_str());
    return code;
}

// Run f and turn every exception into a code.
template <typename F> gs_gloo_code guarded(gs_gloo_error *error, F f) {
    try {
        f();
        return GS_GLOO_OK;
    } catch (const gloo::IoException &e) {
        std::string text = sentence(e.what());
        bool late = text.find("Timed out") != std::string::npos || text.find("timeout") != std::string::npos;
        return explain(error, late && !closed_here(text) ? GS_GLOO_TIMEOUT : GS_GLOO_LOST, text);
    } catch (const std::bad_alloc &) {
        return explain(error, GS_GLOO_MEMORY, "out of memory");
    } catch (const std::exception &e) {
        return explain(error, GS_GLOO_OTHER, sentence(e.what()));
    } catch (...) {
        return explain(error, GS_GLOO_OTHER, "an exception that is no std::exception");
    }
}

// Gloo takes the size of an element from a C++ type.
template <typename Options> void set_output(Options &options, void *data, size_t count, size_t width) {
    if (width == 1)
        options.setOutput(static_cast<uint8_t *>(data), count);
    else if (width == 4)
        options.setOutput(static_cast<uint32_t *>(data), count);
    else
        options.setOutput(static_cast<uint64_t *>(data), count);
}

// The files that this rank has put into the folder.
struct OwnFiles {
    gloo::rendezvous::FileStore &store;
    ~OwnFiles() {
        for (const std::string &path : store.getAllKeyFilePaths()) unlink(path.c_str());
    }
};

} // namespace

struct gs_gloo {
    std::shared_ptr<gloo::transport::Device> device;
    std::shared_ptr<gs::Mesh> context;
    std::vector<Ear> ears;              // [size]
    std::unique_ptr<gs::Direct> direct; // where there are two ranks, after their first exchange
    bool closed = false;
    std::mutex lock; // of all below and of the two above; only one thread sends on a slot
    std::map<std::pair<int, uint32_t>, Outbox> outboxes;
};

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
        g->context = std::make_shared<gs::Mesh>(rank, size);
        g->context->setTimeout(milliseconds(timeout_ms));
        gloo::rendezvous::FileStore files(directory);
        OwnFiles own{files};
        gloo::rendezvous::PrefixStore store("gradsum", files);
        g->context->connect(store, device, kNothing);
        g->ears = std::vector<Ear>(size);
        for (int r = 0; r < size; r++) {
            if (r == rank) continue;
            Ear &ear = g->ears[r];
            ear.buffer = g->context->plain_buffer(ear.words.data(), ear.words.size());
            ear.buffer->recv(r, kLastWords);
        }
        // All have read all files when all have come here.
        gloo::BarrierOptions barrier(g->context);
        barrier.setTimeout(milliseconds(timeout_ms));
        gloo::barrier(barrier);
        *out = g.release();
    });
}

void gs_gloo_free(gs_gloo *g) {
    delete g;
}

gs_gloo_code gs_gloo_all_reduce(gs_gloo *g, void *data, size_t count, gs_gloo_reduction reduction,
                                int timeout_ms, gs_gloo_error *error) {
    return guarded(error, [&] {
        gloo::AllreduceOptions options(g->context);
        set_output(options, data, count, reduction.width);
        options.setReduceFunction(reduction.combine);
        options.setTimeout(milliseconds(timeout_ms));
        gloo::allreduce(options);
    });
}

// Both ranks come here at the same time, so they can tell each other where they listen.
static gs::Direct &direct_of(gs_gloo *g, int timeout_ms) {
    if (g->direct) return *g->direct;
    const size_t rank = size_t(g->context->rank);
    auto direct = std::make_unique<gs::Direct>(
        *g->device, int(rank), milliseconds(timeout_ms), [&](const std::vector<char> &mine) {
            std::vector<char> all(2 * mine.size());
            std::memcpy(all.data() + rank * mine.size(), mine.data(), mine.size());
            gloo::AllgatherOptions options(g->context);
            options.setOutput(all.data(), all.size());
            options.setTimeout(milliseconds(timeout_ms));
            gloo::allgather(options);
            std::memcpy(all.data(), all.data() + (1 - rank) * mine.size(), mine.size());
            all.resize(mine.size());
            return all;
        });
    std::lock_guard<std::mutex> hold(g->lock);
    if (g->closed) direct->shut();
    g->direct = std::move(direct);
    return *g->direct;
}

gs_gloo_code gs_gloo_exchange(gs_gloo *g, void *data, size_t count, gs_gloo_reduction reduction,
                              int timeout_ms, gs_gloo_error *error) {
    return guarded(error, [&] {
        direct_of(g, timeout_ms)
            .all_reduce(static_cast<char *>(data), count * reduction.width, reduction.width,
                        reduction.combine);
    });
}

gs_gloo_code gs_gloo_raw_all_reduce(gs_gloo *g, float *data, size_t count, int bcube, int timeout_ms,
                                    gs_gloo_error *error) {
    return guarded(error, [&] {
        using Options = gloo::AllreduceOptions;
        Options options(g->context);
        options.setOutput(data, count);
        options.setAlgorithm(bcube ? Options::Algorithm::BCUBE : Options::Algorithm::RING);
        options.setReduceFunction(
            static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
        options.setTimeout(milliseconds(timeout_ms));
        gloo::allreduce(options);
    });
}

gs_gloo_code gs_gloo_reduce(gs_gloo *g, void *data, size_t count, gs_gloo_reduction reduction, int root,
                            int timeout_ms, gs_gloo_error *error) {
    return guarded(error, [&] {
        gloo::ReduceOptions options(g->context);
        set_output(options, data, count, reduction.width);
        options.setReduceFunction(reduction.combine);
        options.setRoot(root);
        options.setTimeout(milliseconds(timeout_ms));
        gloo::reduce(options);
    });
}

gs_gloo_code gs_gloo_broadcast(gs_gloo *g, void *data, size_t bytes, int root, int timeout_ms,
                               gs_gloo_error *error) {
    return guarded(error, [&] {
        gloo::BroadcastOptions options(g->context);
        options.setOutput(static_cast<char *>(data), bytes);
        options.setRoot(root);
        options.setTimeout(milliseconds(timeout_ms));
        gloo::broadcast(options);
    });
}

gs_gloo_code gs_gloo_all_gather(gs_gloo *g, const void *mine, void *all, size_t bytes, int timeout_ms,
                                gs_gloo_error *error) {
    return guarded(error, [&] {
        // In place: Gloo's own copy from an input buffer would overlap when `mine` lies in `all`.
        char *place = static_cast<char *>(all) + size_t(g->context->rank) * bytes;
        if (place != mine) std::memcpy(place, mine, bytes);
        gloo::AllgatherOptions options(g->context);
        options.setOutput(static_cast<char *>(all), bytes * size_t(g->context->size));
        options.setTimeout(milliseconds(timeout_ms));
        gloo::allgather(options);
    });
}

gs_gloo_code gs_gloo_gather(gs_gloo *g, const void *mine, void *all, size_t bytes, int root, int timeout_ms,
                            gs_gloo_error *error) {
    return guarded(error, [&] {
        // Gloo copies the root's own part from its input to its place, and the two may be the same.
        gloo::GatherOptions options(g->context);
        options.setInput(static_cast<char *>(const_cast<void *>(mine)), bytes);
        if (g->context->rank == root)
            options.setOutput(static_cast<char *>(all), bytes * size_t(g->context->size));
        options.setRoot(root);
        options.setTimeout(milliseconds(timeout_ms));
        gloo::gather(options);
    });
}

gs_gloo_code gs_gloo_scatter(gs_gloo *g, const void *all, void *mine, size_t bytes, int root, int timeout_ms,
                             gs_gloo_error *error) {
    return guarded(error, [&] {
        gloo::ScatterOptions options(g->context);
        if (g->context->rank == root) {
            std::vector<char *> parts;
            for (int r = 0; r < g->context->size; r++)
                parts.push_back(static_cast<char *>(const_cast<void *>(all)) + size_t(r) * bytes);
            options.setInputs(parts, bytes);
        }
        options.setOutput(static_cast<char *>(mine), bytes);
        options.setRoot(root);
        options.setTimeout(milliseconds(timeout_ms));
        gloo::scatter(options);
    });
}

gs_gloo_code gs_gloo_all_to_all(gs_gloo *g, const void *from, void *to, size_t bytes, int timeout_ms,
                                gs_gloo_error *error) {
    return guarded(error, [&] {
        size_t all = bytes * size_t(g->context->size);
        gloo::AlltoallOptions options(g->context);
        options.setInput(static_cast<char *>(const_cast<void *>(from)), all);
        options.setOutput(static_cast<char *>(to), all);
        options.setTimeout(milliseconds(timeout_ms));
        gloo::alltoall(options);
    });
}

gs_gloo_code gs_gloo_barrier(gs_gloo *g, int timeout_ms, gs_gloo_error *error) {
    return guarded(error, [&] {
        gloo::BarrierOptions options(g->context);
        options.setTimeout(milliseconds(timeout_ms));
        gloo::barrier(options);
    });
}

gs_gloo_code gs_gloo_send(gs_gloo *g, const void *data, size_t bytes, int to, uint32_t slot, int timeout_ms,
                          gs_gloo_error *error) {
    return guarded(error, [&] {
        Outbox *box;
        {
            std::lock_guard<std::mutex> hold(g->lock);
            box = &g->outboxes[{to, slot}]; // stays where it is when others are added
        }
        Copy &copy = box->take(bytes);
        if (copy.under_way) copy.buffer->waitSend(milliseconds(timeout_ms));
        copy.under_way = false;
        if (copy.bytes.size() != bytes ||
            !copy.buffer) { // else the memory and Gloo's buffer over it serve again
            copy.buffer.reset();
            copy.bytes.resize(bytes);
            copy.buffer = g->context->createUnboundBuffer(copy.bytes.data(), bytes);
        }
        std::memcpy(copy.bytes.data(), data, bytes);
        copy.buffer->send(to, kMessages | slot);
        copy.under_way = true;
    });
}

gs_gloo_code gs_gloo_recv(gs_gloo *g, void *data, size_t bytes, int from, uint32_t slot, int timeout_ms,
                          gs_gloo_error *error) {
    return guarded(error, [&] {
        auto buffer = g->context->createUnboundBuffer(data, bytes);
        buffer->recv(from, kMessages | slot);
        buffer->waitRecv(milliseconds(timeout_ms));
    });
}

gs_gloo_peer_state gs_gloo_peer(gs_gloo *g, int peer, char *text, size_t size) {
    gs_gloo_error error;
    gs_gloo_peer_state state = GS_GLOO_CONNECTED;
    if (guarded(&error, [&] { g->context->watch().look(peer); }) != GS_GLOO_OK) {
        state = closed_here(error.text) ? GS_GLOO_CLOSED : GS_GLOO_BROKEN;
        std::snprintf(text, size, "%s", error.text);
    }
    // Last words come before the end of the connection. They are asked for only when it has ended, because a
    // wait that is in vain closes it.
    Ear &ear = g->ears[peer];
    if (state != GS_GLOO_CONNECTED && !ear.come)
        ear.come = guarded(&error, [&] { ear.buffer->waitRecv(milliseconds(1)); }) == GS_GLOO_OK;
    if (ear.come) {
        state = GS_GLOO_LAST_WORDS;
        std::snprintf(text, size, "%.*s", GS_GLOO_WORDS, ear.words.data());
    }
    return state;
}

void gs_gloo_close(gs_gloo *g, const char *last_words) {
    std::array<char, GS_GLOO_WORDS> words{};
    std::snprintf(words.data(), words.size(), "%s", last_words);
    gs_gloo_error error;
    std::vector<std::unique_ptr<UnboundBuffer>> sent;
    for (int r = 0; r < g->context->size; r++) {
        if (r == g->context->rank) continue;
        guarded(&error, [&] {
            auto buffer = g->context->plain_buffer(words.data(), words.size());
            buffer->send(r, kLastWords);
            sent.push_back(std::move(buffer));
        });
    }
    for (auto &buffer : sent) guarded(&error, [&] { buffer->waitSend(milliseconds(500)); });
    // Closing a connection does not wake those who wait for it here, but a wait that is too long does both:
    // closes all connections of the context, and fails all operations on them.
    guarded(&error, [&] {
        char nothing;
        g->context->plain_buffer(&nothing, 1)->waitRecv(milliseconds(1));
    });
    std::lock_guard<std::mutex> hold(g->lock);
    g->closed = true;
    if (g->direct) g->direct->shut();
}
