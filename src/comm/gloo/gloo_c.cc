// Gloo behind a C interface: see gloo_c.h. Comments describe surprising behaviour of Gloo, as seen in the source of
// 0.5.0 and in tests.
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <exception>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <new>
#include <sched.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

// Gloo's headers cause warnings. Of its TCP transport only device.h can be included; the others need files that are
// not installed.
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
#include <gloo/common/error.h>
#include <gloo/config.h>
#include <gloo/context.h>
#include <gloo/transport/tcp/device.h>
#pragma GCC diagnostic pop

extern "C" {
#include "core/clock.h"
#include "comm/create.h"
#include "comm/gloo/gloo_c.h"
}

namespace tcp = gloo::transport::tcp;
using gloo::transport::UnboundBuffer;
using milliseconds = std::chrono::milliseconds;

namespace {

// Run f, and turn every exception into a code.
template <typename F> gs_gloo_code guarded(F f) {
    try {
        f();
        return GS_GLOO_OK;
    } catch (const gloo::IoException &e) {
        return gs_gloo_explain(GS_GLOO_LOST, e.what());
    } catch (const std::bad_alloc &) {
        return gs_gloo_explain(GS_GLOO_MEMORY, "out of memory");
    } catch (const std::exception &e) {
        return gs_gloo_explain(GS_GLOO_OTHER, e.what());
    } catch (...) {
        return gs_gloo_explain(GS_GLOO_OTHER, "an exception that is not a std::exception");
    }
}

// ---- waits that the watchdog sees (watchdog.c) ----

const milliseconds for_ever = std::chrono::hours(24 * 365);

// One of Gloo's buffers, whose waits also end when the watchdog has found a broken connection.
class WatchedBuffer final : public UnboundBuffer {
  public:
    WatchedBuffer(gs_watchdog *watch, std::unique_ptr<UnboundBuffer> inner)
        : UnboundBuffer(inner->ptr, inner->size), watch_(watch), inner_(std::move(inner)) {}

    bool waitRecv(int *rank, milliseconds timeout) override {
        return wait(false, timeout, [&] { return inner_->waitRecv(rank, for_ever); });
    }
    bool waitSend(int *rank, milliseconds timeout) override {
        return wait(true, timeout, [&] { return inner_->waitSend(rank, for_ever); });
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
    struct Entry : gs_gloo_wait {
        gs_watchdog *const watch;
        Entry(gs_watchdog *by, UnboundBuffer *buffer, bool sends, milliseconds timeout)
            : gs_gloo_wait(), watch(by) {
            this->buffer = reinterpret_cast<gs_gloo_buffer *>(buffer);
            this->sends = sends;
            if (timeout.count() > 0)
                deadline = gs_awake_seconds() + static_cast<double>(timeout.count()) * 1e-3;
            gs_watchdog_begin(watch, this);
        }
        ~Entry() { gs_watchdog_end(watch, this); }
    };
    template <typename F> bool wait(bool sends, milliseconds timeout, F inner_wait) {
        Entry entry(watch_, inner_.get(), sends, timeout);
        for (;;) { // ignore a late wake-up, meant for an earlier wait
            if (inner_wait()) return true;
            char found[GS_GLOO_ERROR_TEXT];
            gs_watchdog_found(watch_, found);
            if (found[0]) throw gloo::IoException(found);
            if (entry.late)
                throw gloo::IoException("Timed out waiting " + std::to_string(timeout.count()) + "ms");
        }
    }

    gs_watchdog *const watch_;
    std::unique_ptr<UnboundBuffer> inner_;
};

// Gloo's connections, with watched buffers.
class WatchedConnections final : public gloo::transport::Context {
  public:
    WatchedConnections(gs_watchdog *watch, std::shared_ptr<gloo::transport::Context> inner)
        : Context(inner->rank, inner->size), watch_(watch), inner_(std::move(inner)) {
        setTimeout(inner_->getTimeout());
    }
    std::unique_ptr<gloo::transport::Pair> &getPair(int rank) override { return inner_->getPair(rank); }
    std::unique_ptr<gloo::transport::Pair> &createPair(int rank) override { return inner_->createPair(rank); }
    std::unique_ptr<UnboundBuffer> createUnboundBuffer(void *ptr, size_t size) override {
        return std::make_unique<WatchedBuffer>(watch_, inner_->createUnboundBuffer(ptr, size));
    }

  private:
    gs_watchdog *const watch_;
    std::shared_ptr<gloo::transport::Context> inner_;
};

// ---- descriptors of sockets that Gloo keeps to itself ----
//
// dup3 replaces what a descriptor refers to, but keeps its number, so that Gloo continues with a connection that it did
// not make.

using Address = struct sockaddr_storage;

bool same(const Address &a, const Address &b) {
    const auto &x = reinterpret_cast<const struct sockaddr_in &>(a);
    const auto &y = reinterpret_cast<const struct sockaddr_in &>(b);
    return a.ss_family == AF_INET && b.ss_family == AF_INET && x.sin_port == y.sin_port &&
           x.sin_addr.s_addr == y.sin_addr.s_addr;
}

bool listens_at(int file, const Address &address) {
    Address own;
    socklen_t length = sizeof own, int_length = sizeof(int);
    int listens = 0;
    return getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, &listens, &int_length) == 0 && listens &&
           getsockname(file, reinterpret_cast<struct sockaddr *>(&own), &length) == 0 && same(own, address);
}

bool is_connected_to(int file, const Address &address) {
    Address peer;
    socklen_t length = sizeof peer;
    return getpeername(file, reinterpret_cast<struct sockaddr *>(&peer), &length) == 0 && same(peer, address);
}

// The first open descriptor of this process that matches; -1: none does.
int find_descriptor(bool (*is)(int, const Address &), const Address &like) {
    DIR *files = opendir("/proc/self/fd");
    int found = -1;
    for (const struct dirent *e; files && found < 0 && (e = readdir(files));)
        if (e->d_name[0] != '.' && is(std::atoi(e->d_name), like)) found = std::atoi(e->d_name);
    if (files) closedir(files);
    return found;
}

// An open descriptor.
class File final {
  public:
    explicit File(int number) : number_(number) {}
    ~File() {
        if (number_ >= 0) close(number_);
    }
    int operator*() const { return number_; }

  private:
    int number_;
};

// A descriptor to wait for, whose event has already happened, or never will. -1: it cannot be made.
int event_descriptor(bool happened) {
    return eventfd(happened, EFD_CLOEXEC | EFD_NONBLOCK);
}

// A socket that listens on 127.0.0.1, and its address.
int listen_here(Address &own) {
    socklen_t length = sizeof own;
    auto *address = reinterpret_cast<struct sockaddr *>(&own);
    own = {};
    own.ss_family = AF_INET;
    reinterpret_cast<struct sockaddr_in &>(own).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool listens = s >= 0 && bind(s, address, sizeof(struct sockaddr_in)) == 0 &&
                         listen(s, SOMAXCONN) == 0 && getsockname(s, address, &length) == 0;
    if (s >= 0 && !listens) close(s);
    return listens ? s : -1;
}

// ---- connections ----

void require(bool holds, const char *what) {
    if (!holds) throw std::runtime_error(what);
}

// Throw if this process has no descriptor left, which Gloo does not always report.
void require_descriptor() {
    File one(event_descriptor(false));
    require(*one >= 0, std::strerror(errno));
}

// Run a function on Gloo's own thread, which handles no connection in the meantime.
class OnGloosThread final : public tcp::Handler {
  public:
    OnGloosThread(tcp::Device &device, std::function<void()> run) : device_(device), run_(std::move(run)) {
        require(*event_ >= 0, "no descriptor for an event");
        std::unique_lock<std::mutex> lock(lock_);
        device_.registerDescriptor(*event_, EPOLLIN, this);
        has_run_.wait(lock, [this] { return !run_; });
        if (failure_) std::rethrow_exception(failure_);
    }
    void handleEvents(int) override {
        std::lock_guard<std::mutex> lock(lock_);
        try {
            device_.unregisterDescriptor(*event_, this);
            run_();
        } catch (...) {
            failure_ = std::current_exception();
        }
        run_ = nullptr;
        has_run_.notify_one();
    }

  private:
    tcp::Device &device_;
    std::function<void()> run_;
    File event_{event_descriptor(true)};
    std::mutex lock_;
    std::condition_variable has_run_;
    std::exception_ptr failure_;
};

// All ranks, connected with each other.
//
// Each of Gloo's pairs listens as soon as it is made, and would take the first caller for its peer. Therefore a pair is
// made on Gloo's thread, and before that thread looks for callers, the pair's listening socket is replaced with an
// event that never happens. Then the pair connects to a decoy, a socket of this process, and this connection is
// replaced with our authenticated one. A pair calls, instead of waiting for a call, if its own address is the higher
// one; therefore it has 127.0.0.2, and the decoy 127.0.0.1.
class Mesh final : public gloo::Context {
  public:
    using Context::Context;
    void connect(const int *socket) {
        auto device = std::make_shared<tcp::Device>(tcp::CreateDeviceAttr(tcp::attr("127.0.0.2")));
        device_ = device;
        plain_ = transportContext_ = device->createContext(rank, size);
        plain_->setTimeout(getTimeout());
        OnGloosThread(*device, [&] {
            // Gloo's thread polls while a sender holds a pair's lock. A batch thread woken by a message leaves the
            // sender its core: with more threads than cores this takes 13 polls per message, not 78.
            const struct sched_param none {};
            (void)sched_setscheduler(0, SCHED_BATCH, &none); // not required
            make_pairs(*device);
        });
        Address address;
        require_descriptor();
        File decoy(listen_here(address));
        require(*decoy >= 0, "no socket at 127.0.0.1");
        for (int peer = 0; peer < size; peer++)
            if (peer != rank) give(*device, peer, socket[peer], address);
    }
    void be_watched(gs_watchdog *watch) {
        transportContext_ = std::make_shared<WatchedConnections>(watch, plain_);
    }
    std::unique_ptr<UnboundBuffer> buffer(void *data, size_t bytes, bool watched) {
        return (watched ? transportContext_ : plain_)->createUnboundBuffer(data, bytes);
    }

  private:
    // Make the pair's descriptor `place` refer to `by`.
    void replace(tcp::Device &device, int peer, int place, int by) {
        if (place < 0) require_descriptor();
        require(place >= 0 && dup3(by, place, O_CLOEXEC) == place, "cannot replace one of Gloo's sockets");
        device.registerDescriptor(place, EPOLLIN, dynamic_cast<tcp::Handler *>(plain_->getPair(peer).get()));
    }
    void make_pairs(tcp::Device &device) {
        require_descriptor();
        File never(event_descriptor(false));
        Address listener{};
        for (int peer = 0; peer < size; peer++) {
            if (peer == rank) continue;
            auto &pair = plain_->createPair(peer);
            pair->setLocalRank(0);
            Address address;
            std::memcpy(&address, pair->address().bytes().data(), sizeof address);
            if (same(address, listener)) continue; // in Gloo since 2023 all pairs share one
            replace(device, peer, find_descriptor(listens_at, address), *never);
            listener = address;
        }
    }
    void give(tcp::Device &device, int peer, int socket, const Address &decoy) {
        auto &pair = plain_->getPair(peer);
        std::vector<char> address = pair->address().bytes();
        std::memcpy(address.data(), &decoy, sizeof decoy);
        pair->connect(address);
        replace(device, peer, find_descriptor(is_connected_to, decoy), socket);
    }

    std::shared_ptr<gloo::transport::Context> plain_;
};

} // namespace

struct gs_gloo {
    std::shared_ptr<Mesh> mesh;
};

const char *gs_comm_gloo_version(void) {
    static const std::string version = std::to_string(GLOO_VERSION_MAJOR) + "." +
                                       std::to_string(GLOO_VERSION_MINOR) + "." +
                                       std::to_string(GLOO_VERSION_PATCH);
    return version.c_str();
}

gs_gloo_code gs_gloo_connect(int rank, int size, const int *socket, int timeout_ms, gs_gloo **out) {
    return guarded([&] {
        auto g = std::make_unique<gs_gloo>();
        g->mesh = std::make_shared<Mesh>(rank, size);
        g->mesh->setTimeout(milliseconds(timeout_ms));
        g->mesh->connect(socket);
        *out = g.release();
    });
}

gs_gloo_code gs_gloo_be_watched(gs_gloo *g, gs_watchdog *watch) {
    return guarded([&] { g->mesh->be_watched(watch); });
}

void gs_gloo_free(gs_gloo *g) {
    delete g;
}

// ---- collectives ----

// Gloo derives the size of an element from a C++ type.
template <typename Options> static void set_elements(Options &options, const gs_call *call, void *data) {
    if (gs_type_size(call->type) == 1)
        options.setOutput(static_cast<uint8_t *>(data), call->count);
    else if (gs_type_size(call->type) == 4)
        options.setOutput(static_cast<uint32_t *>(data), call->count);
    else
        options.setOutput(static_cast<uint64_t *>(data), call->count);
    options.setReduceFunction(gs_combine_of(call->type, call->reduction));
}

template <typename Options, typename F>
static void with(const std::shared_ptr<Mesh> &mesh, int timeout_ms, F run) {
    Options options(mesh);
    options.setTimeout(milliseconds(timeout_ms));
    run(options);
}

static void run(const std::shared_ptr<Mesh> &mesh, const gs_call *call, const void *in, void *out, int ms) {
    const size_t bytes = call->count * gs_type_size(call->type), all = bytes * size_t(mesh->size);
    char *to = static_cast<char *>(out), *place = to + size_t(mesh->rank) * bytes;
    switch (call->operation) {
    case GS_ALL_REDUCE:
        return with<gloo::AllreduceOptions>(mesh, ms, [&](auto &options) {
            set_elements(options, call, out);
            gloo::allreduce(options);
        });
    case GS_BROADCAST:
        return with<gloo::BroadcastOptions>(mesh, ms, [&](auto &options) {
            options.setOutput(to, bytes);
            options.setRoot(call->root);
            gloo::broadcast(options);
        });
    case GS_ALL_GATHER: // in place: Gloo's copy from an input buffer would overlap if `in` is within `out`
        if (place != in) std::memcpy(place, in, bytes);
        return with<gloo::AllgatherOptions>(mesh, ms, [&](auto &options) {
            options.setOutput(to, all);
            gloo::allgather(options);
        });
    case GS_ALL_TO_ALL:
        return with<gloo::AlltoallOptions>(mesh, ms, [&](auto &options) {
            // Gloo only reads its input, but its interface requires it to be writable.
            options.setInput(static_cast<char *>(const_cast<void *>(in)), all);
            options.setOutput(to, all);
            gloo::alltoall(options);
        });
    default:
        return with<gloo::BarrierOptions>(mesh, ms, [&](auto &options) { gloo::barrier(options); });
    }
}

gs_gloo_code gs_gloo_collective(gs_gloo *g, const gs_call *call, const void *in, void *out, int timeout_ms) {
    return guarded([&] { run(g->mesh, call, in, out, timeout_ms); });
}

// ---- messages ----

static UnboundBuffer *of(gs_gloo_buffer *buffer) {
    return reinterpret_cast<UnboundBuffer *>(buffer);
}

gs_gloo_code gs_gloo_buffer_create(gs_gloo *g, void *data, size_t bytes, bool watched, gs_gloo_buffer **out) {
    return guarded(
        [&] { *out = reinterpret_cast<gs_gloo_buffer *>(g->mesh->buffer(data, bytes, watched).release()); });
}

void gs_gloo_buffer_free(gs_gloo_buffer *buffer) {
    delete of(buffer);
}

gs_gloo_code gs_gloo_begin_send(gs_gloo_buffer *buffer, int to, uint64_t slot, size_t at, size_t bytes) {
    return guarded([&] { of(buffer)->send(to, slot, at, bytes); });
}

gs_gloo_code gs_gloo_begin_recv(gs_gloo_buffer *buffer, int from, uint64_t slot) {
    return guarded([&] { of(buffer)->recv(from, slot); });
}

gs_gloo_code gs_gloo_wait_send(gs_gloo_buffer *buffer, int timeout_ms) {
    return guarded([&] { of(buffer)->waitSend(milliseconds(timeout_ms)); });
}

gs_gloo_code gs_gloo_wait_recv(gs_gloo_buffer *buffer, int timeout_ms) {
    return guarded([&] { of(buffer)->waitRecv(milliseconds(timeout_ms)); });
}

void gs_gloo_wake(gs_gloo_buffer *buffer, bool sends) {
    sends ? of(buffer)->abortWaitSend() : of(buffer)->abortWaitRecv();
}
