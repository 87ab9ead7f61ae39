// Makes two links over several sockets in one process. A test may cut a socket, or be the peer itself.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/transports_tcp/pair.hpp"
#include "transports/tcp/rail_link.hpp"

namespace wreath {

// Returns a link for the sockets, made by the transport and connect(). With one socket it goes to another host, and
// chooses by itself how many it has.
inline std::unique_ptr<RailLink> rails_over(std::vector<Fd> sockets, const FifoShape& shape, Rank peer) {
  TransportContext context{};
  const std::uint64_t host = sockets.size() == 1 ? 2 : 1;
  context.self = {.rank = 1 - peer, .process = 1, .host = host};
  context.ranks = 2;
  context.shape = shape;
  context.streams = sockets.size() == 1 ? 0 : sockets.size();
  auto transport = find_transport("tcp")->make(context).value();
  Offer theirs;
  for (Fd& socket : sockets) theirs.descriptors.push_back(socket.release());
  auto link = transport->connect({.rank = peer, .process = 1, .host = 1}, std::move(theirs)).value();
  return std::unique_ptr<RailLink>(static_cast<RailLink*>(link.release()));
}

struct RailPair {
  RailPair(const FifoShape& shape, std::size_t rails, SocketKind kind = SocketKind::Unix) {
    std::vector<Fd> here;
    std::vector<Fd> there;
    for (std::size_t i = 0; i < rails; ++i) {
      auto [first, second] = connected(kind);
      cutters.emplace_back(::dup(first.get()));
      here.push_back(std::move(first));
      // The ends of a pair number their rails in any order.
      there.insert(there.begin(), std::move(second));
    }
    a = rails_over(std::move(here), shape, 1);
    b = rails_over(std::move(there), shape, 0);
  }
  // Cuts a rail, at both ends. Bytes on their way may be lost.
  void cut(std::size_t rail) { ::shutdown(cutters[rail].get(), SHUT_RDWR); }

  std::vector<Fd> cutters;
  std::unique_ptr<RailLink> a;  // of rank 0
  std::unique_ptr<RailLink> b;  // of rank 1
};

// Calls progress() of both ends, and carries their words, which `alter` may change. Returns an empty text, or what went
// wrong.
template <typename Alter>
std::string step(RailPair& pair, Alter alter) {
  for (RailLink* link : {pair.a.get(), pair.b.get()}) {
    const auto moved = link->progress(true);
    if (!moved) return moved.error().message;
    RailLink& other = link == pair.a.get() ? *pair.b : *pair.a;
    while (auto word = link->take_word()) {
      alter(*word);
      if (const Status taken = other.on_word(*std::move(word)); !taken) return taken.error().message;
    }
  }
  return {};
}

inline std::string step(RailPair& pair) {
  return step(pair, [](Offer&) {});
}

// Holds a link whose peer is the test itself.
struct RailVictim {
  RailVictim(const FifoShape& shape, std::size_t rails) {
    std::vector<Fd> theirs;
    for (std::size_t i = 0; i < rails; ++i) {
      auto [mine, socket] = connected(SocketKind::Unix);
      raw.push_back(std::move(mine));
      theirs.push_back(std::move(socket));
    }
    link = rails_over(std::move(theirs), shape, 0);
  }
  std::vector<Fd> raw;
  std::unique_ptr<RailLink> link;
};

}  // namespace wreath
