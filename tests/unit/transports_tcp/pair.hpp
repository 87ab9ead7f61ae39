// Makes two links of the tcp transport in one process, joined by a stream, and does to them what an executor does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "transports/tcp/link.hpp"
#include "wreath/transport.hpp"

namespace wreath {

enum class SocketKind { Unix, Tcp };

// Returns both ends of a connected stream.
std::pair<Fd, Fd> connected(SocketKind kind);

// Returns a link for `socket`, made by the transport and connect().
std::unique_ptr<TcpLink> link_over(Fd socket, const FifoShape& shape, Rank peer);

struct LinkPair {
  explicit LinkPair(const FifoShape& shape, SocketKind kind = SocketKind::Unix);
  std::unique_ptr<TcpLink> a;  // of rank 0
  std::unique_ptr<TcpLink> b;  // of rank 1
};

inline constexpr std::uint16_t kTestEpoch = 5;

// Returns the usual shape of these tests.
FifoShape shape_of(std::uint16_t lanes, std::uint32_t slot_count, std::uint32_t slot_bytes, std::uint32_t first = 0);

// Publishes `bytes` at `data` by reference. Returns false if there is no credit.
bool try_send(SendFifo& fifo, const std::byte* data, std::size_t bytes, std::uint32_t signature = 0x5157);

struct Received {
  std::uint32_t sequence;
  std::uint32_t signature;
  const std::byte* at;
  std::vector<std::byte> data;
};
// Takes the next message. Returns false if there is none.
bool try_recv(RecvFifo& fifo, Received& message);

// Returns one byte of content, which depends on lane, message and place.
std::byte pattern(std::uint32_t lane, std::uint32_t message, std::size_t place);
// Returns `bytes` of that content, from place 0 on.
std::vector<std::byte> filled(std::uint32_t lane, std::uint32_t message, std::size_t bytes);

// Returns whether half a minute has passed since `since_ns`.
bool expired(std::int64_t since_ns);

// Calls progress() of both ends until `done` returns true. Returns false after half a minute or an error; `why`
// gets the error's message.
template <typename Done>
bool drive(LinkPair& pair, Done done, std::string* why = nullptr) {
  const std::int64_t start = now_ns();
  while (!done()) {
    for (TcpLink* link : {pair.a.get(), pair.b.get()}) {
      auto moved = link->progress(true);
      if (moved) continue;
      if (why != nullptr) *why = moved.error().message;
      return false;
    }
    if (expired(start)) return false;
  }
  return true;
}

}  // namespace wreath
