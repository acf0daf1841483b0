// A connection of two ranks on which their threads write and read themselves: a part of gloo_c.cc, the only file of C++.
//
// Gloo's usual way suits any pattern of messages: a thread of its own moves the bytes, after both sides have announced
// what they want. For two ranks that exchange arrays of 2 MB that is much: four threads on two cores, which wake each
// other and wait for each other's locks. Gloo also has a plain way (setSync), in which the thread that calls does the
// work, and a message goes to a place that is registered beforehand. This is a connection that is used in that way only:
//
//     rank 0    write piece 0 | read piece 0, combine | write piece 1 | ...
//     rank 1    write piece 0 | read piece 0, combine | write piece 1 | ...
//
// Both write first: that cannot block for ever because a piece fits into the socket's buffer for sending. A piece is
// small enough to stay in the caches of the cores that copy it four times.
//
// 2 MB between two processes of one machine, two cores of a Xeon: 1.2 ms; Gloo's ring 2.0 to 2.7, its usual way with the
// same exchange 1.5, plain TCP sockets 0.8.
#ifndef GS_SYNC_GLOO_DIRECT_HH
#define GS_SYNC_GLOO_DIRECT_HH

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <vector>

#include <gloo/transport/buffer.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/address.h>

namespace gs {

class Direct final {
  public:
    // `swap` gives bytes to the peer and returns as many of its own.
    template <typename Swap>
    Direct(gloo::transport::Device &device, int rank, std::chrono::milliseconds timeout, Swap swap)
        : rank_(rank), connections_(device.createContext(rank, 2)) {
        connections_->setTimeout(timeout / 5); // Gloo waits five times as long for a connection
        auto &pair = *connections_->createPair(1 - rank);
        pair.connect(swap(pair.address().bytes()));
        pair.setSync(true, false);
        socket_ = socket_of(pair);
        wait_at_most(timeout);
        size_t mine = largest_piece(), theirs;
        const char *bytes = reinterpret_cast<const char *>(&mine);
        std::memcpy(&theirs, swap(std::vector<char>(bytes, bytes + sizeof mine)).data(), sizeof theirs);
        room_.resize(std::min(mine, theirs));
    }

    // data[i] = data[i] of rank 0 combined with data[i] of rank 1, on both. Elements of `width` bytes, at most 8.
    void all_reduce(char *data, size_t bytes, size_t width,
                    void (*combine)(void *, const void *, const void *, size_t)) {
        auto &pair = *connections_->getPair(1 - rank_);
        auto out = pair.createSendBuffer(0, data, bytes);
        auto in = pair.createRecvBuffer(0, room_.data(), room_.size());
        for (size_t at = 0, n; at < bytes; at += n) {
            n = std::min(room_.size(), bytes - at);
            out->send(at, n);
            in->waitRecv();
            out->waitSend();
            if (rank_ == 0)
                combine(data + at, data + at, room_.data(), n / width);
            else
                combine(data + at, room_.data(), data + at, n / width);
        }
    }

    // From any thread: whoever writes or reads at either end fails at once.
    void shut() { shutdown(socket_, SHUT_RDWR); }

  private:
    // Gloo keeps its socket to itself: it is the one of this process that has the connection's address.
    static int socket_of(const gloo::transport::Pair &pair) {
        const auto &address = static_cast<const gloo::transport::tcp::Address &>(pair.address());
        for (const auto &file : std::filesystem::directory_iterator("/proc/self/fd")) {
            int fd = std::stoi(file.path().filename().string());
            sockaddr_storage own{};
            socklen_t length = sizeof own;
            if (getsockname(fd, reinterpret_cast<sockaddr *>(&own), &length) == 0 && length <= sizeof own &&
                std::memcmp(&own, &address.getSockaddr(), length) == 0)
                return fd;
        }
        throw std::runtime_error("Gloo's connection has no socket");
    }

    void wait_at_most(std::chrono::milliseconds timeout) {
        const timeval t = {timeout.count() / 1000, timeout.count() % 1000 * 1000};
        setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
        setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
    }

    // Half of what the system lets the socket hold: the other half is for its own notes of what it holds.
    size_t largest_piece() {
        int wanted = 256 * 1024, allowed = 0;
        socklen_t length = sizeof allowed;
        setsockopt(socket_, SOL_SOCKET, SO_SNDBUF, &wanted, sizeof wanted);
        getsockopt(socket_, SOL_SOCKET, SO_SNDBUF, &allowed, &length);
        return size_t(std::min(wanted, allowed / 2)) / 64 * 64;
    }

    int rank_, socket_ = -1;
    std::shared_ptr<gloo::transport::Context> connections_;
    std::vector<char> room_; // for the peer's piece
};

} // namespace gs

#endif
