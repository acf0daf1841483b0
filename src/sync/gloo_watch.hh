// Waits of Gloo that end when a connection breaks: a part of gloo_c.cc, the only file of C++.
//
// When a connection breaks Gloo 0.5.0 fails the operations that wait for their turn on it, but forgets the one in the
// middle of its message: that one would wait until the timeout. So each buffer that Gloo works with is wrapped in one
// that lets itself be woken from time to time, and looks:
//
//     Gloo's collectives, and messages
//       WatchedBuffer     waits again and again, until the operation is done, or a connection is found broken
//         Gloo's buffer
//
// How a broken connection is found: a receive that nobody answers is left on each. It waits for its turn for ever, so it
// is failed as soon as Gloo sees the end of the connection; which is at once when the process at the other end dies,
// on this machine or on another one. (A machine that loses its power says nothing: that is what the timeout is for.)
#ifndef GS_SYNC_GLOO_WATCH_HH
#define GS_SYNC_GLOO_WATCH_HH

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <sys/timerfd.h>
#include <unistd.h>
#include <vector>

#include <gloo/rendezvous/context.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

namespace gs {

using gloo::transport::UnboundBuffer;
using milliseconds = std::chrono::milliseconds;

// Who waits, and whether a connection is broken. Gloo's own thread calls handleEvents at each tick of a clock.
class Watch final : public gloo::transport::tcp::Handler {
  public:
    struct Waiting {
        UnboundBuffer &buffer;
        bool sends;
        bool long_ago; // it began before the last tick
    };

    Watch(gloo::transport::Context &connections, gloo::transport::tcp::Device &device, uint64_t slot)
        : device_(device), lines_(connections.size) {
        for (int r = 0; r < connections.size; r++) {
            if (r == connections.rank) continue;
            lines_[r] = connections.createUnboundBuffer(nullptr, 0);
            lines_[r]->recv(r, slot); // nobody sends there
        }
        clock_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        const timespec tick = {0, 20 * 1000 * 1000};
        const itimerspec ticks = {tick, tick};
        if (clock_ < 0 || timerfd_settime(clock_, 0, &ticks, nullptr) != 0) throw std::bad_alloc();
        device_.registerDescriptor(clock_, EPOLLIN, this);
    }

    ~Watch() override {
        if (clock_ < 0) return;
        device_.unregisterDescriptor(clock_, this);
        close(clock_);
    }

    Watch(const Watch &) = delete;
    Watch &operator=(const Watch &) = delete;

    void handleEvents(int) override {
        uint64_t ticks;
        if (read(clock_, &ticks, sizeof ticks) < 0) return;
        std::lock_guard<std::mutex> hold(lock_);
        for (Waiting *w : waiting_) {
            if (w->long_ago) w->sends ? w->buffer.abortWaitSend() : w->buffer.abortWaitRecv();
            w->long_ago = true;
        }
    }

    void begin(Waiting *w) {
        std::lock_guard<std::mutex> hold(lock_);
        waiting_.push_back(w);
    }

    void end(Waiting *w) {
        std::lock_guard<std::mutex> hold(lock_);
        waiting_.erase(std::find(waiting_.begin(), waiting_.end(), w));
    }

    // Throws what Gloo says of the connection if it is broken. A wait that is aborted beforehand only looks.
    void look(int peer) {
        std::lock_guard<std::mutex> hold(lock_);
        lines_[peer]->abortWaitRecv();
        lines_[peer]->waitRecv(nullptr, milliseconds(1));
    }

    void look_at_all() {
        for (size_t r = 0; r < lines_.size(); r++)
            if (lines_[r]) look(int(r));
    }

  private:
    gloo::transport::tcp::Device &device_;
    int clock_ = -1;
    std::mutex lock_;
    std::vector<Waiting *> waiting_;
    std::vector<std::unique_ptr<UnboundBuffer>> lines_; // [size]
};

class WatchedBuffer final : public UnboundBuffer {
  public:
    WatchedBuffer(Watch &watch, std::unique_ptr<UnboundBuffer> inner)
        : UnboundBuffer(inner->ptr, inner->size), watch_(watch), inner_(std::move(inner)) {}

    bool waitRecv(int *rank, milliseconds timeout) override {
        return wait(false, timeout, [&](milliseconds left) { return inner_->waitRecv(rank, left); });
    }
    bool waitSend(int *rank, milliseconds timeout) override {
        return wait(true, timeout, [&](milliseconds left) { return inner_->waitSend(rank, left); });
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
    template <typename F> bool wait(bool sends, milliseconds timeout, F inner_wait) {
        using clock = std::chrono::steady_clock;
        struct Entry : Watch::Waiting {
            Watch &watch;
            Entry(UnboundBuffer &buffer, bool sends, Watch &watch)
                : Watch::Waiting{buffer, sends, false}, watch(watch) {
                watch.begin(this);
            }
            ~Entry() { watch.end(this); }
        } entry(*inner_, sends, watch_);
        const auto end = clock::now() + timeout;
        for (;;) {
            auto left = std::chrono::duration_cast<milliseconds>(end - clock::now());
            if (inner_wait(std::max(left, milliseconds(0)))) return true; // or throws: too late, or failed
            watch_.look_at_all();
        }
    }

    Watch &watch_;
    std::unique_ptr<UnboundBuffer> inner_;
};

// Gloo's connections, but all buffers are watched.
class WatchedConnections final : public gloo::transport::Context {
  public:
    WatchedConnections(Watch &watch, std::shared_ptr<gloo::transport::Context> inner)
        : Context(inner->rank, inner->size), watch_(watch), inner_(std::move(inner)) {
        setTimeout(inner_->getTimeout());
    }
    std::unique_ptr<gloo::transport::Pair> &getPair(int rank) override { return inner_->getPair(rank); }
    std::unique_ptr<gloo::transport::Pair> &createPair(int rank) override { return inner_->createPair(rank); }
    std::unique_ptr<UnboundBuffer> createUnboundBuffer(void *ptr, size_t size) override {
        return std::make_unique<WatchedBuffer>(watch_, inner_->createUnboundBuffer(ptr, size));
    }

  private:
    Watch &watch_;
    std::shared_ptr<gloo::transport::Context> inner_;
};

// All ranks, connected with each other, and watched.
class Mesh final : public gloo::rendezvous::Context {
  public:
    using Context::Context;
    void connect(gloo::rendezvous::Store &store, std::shared_ptr<gloo::transport::Device> device,
                 uint64_t slot) {
        connectFullMesh(store, device);
        plain_ = transportContext_;
        watch_ = std::make_unique<Watch>(*plain_, static_cast<gloo::transport::tcp::Device &>(*device), slot);
        transportContext_ = std::make_shared<WatchedConnections>(*watch_, plain_);
    }
    Watch &watch() { return *watch_; }

    // Waits on one connection, whatever happens to the others.
    std::unique_ptr<UnboundBuffer> plain_buffer(void *data, size_t bytes) {
        return plain_->createUnboundBuffer(data, bytes);
    }

  private:
    std::shared_ptr<gloo::transport::Context> plain_;
    std::unique_ptr<Watch> watch_; // ends before the connections that it looks at
};

} // namespace gs

#endif
