// The role `measure` (unit_transports_test --role=measure) compares links with plain sockets on loopback TCP. It prints
// medians of interleaved rounds and asserts nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <string_view>
#include <thread>

#include "src/fifo/access.hpp"
#include "tests/support/processes.hpp"
#include "tests/unit/transports_tcp/pair.hpp"

namespace wreath::tcp_measured {
namespace {

struct Load {
  std::size_t bytes;  // of a message
  std::uint32_t messages;
  bool sends;
  bool receives;
  // True means that each side waits for the other's message before it sends.
  bool in_turn;
  std::uint16_t lanes;
};

using Side = std::function<void(int socket, const Load&, bool first)>;

// Uses plain non-blocking sockets: it sends and receives in turn, without frames.
void plain(int socket, const Load& load, bool first) {
  std::vector<std::byte> out(load.bytes);
  std::vector<std::byte> in(load.bytes);
  const std::size_t total = load.bytes * load.messages;
  std::size_t sent = load.sends ? 0 : total;
  std::size_t seen = load.receives ? 0 : total;
  while (sent < total || seen < total) {
    const bool may_send = !load.in_turn || (first ? sent <= seen : sent < seen / load.bytes * load.bytes);
    if (sent < total && may_send) {
      const std::size_t at = sent % load.bytes;
      const ssize_t moved = ::send(socket, out.data() + at, load.bytes - at, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (moved > 0) sent += static_cast<std::size_t>(moved);
    }
    if (seen < total) {
      const std::size_t at = seen % load.bytes;
      const ssize_t moved = ::recv(socket, in.data() + at, load.bytes - at, MSG_DONTWAIT);
      if (moved > 0) seen += static_cast<std::size_t>(moved);
    }
  }
}

// Uses a link with landings posted, as an executor that waits posts them.
void linked(int socket, const Load& load, bool first) {
  auto link = link_over(Fd(::dup(socket)), shape_of(load.lanes, 8, 512 * 1024), first ? 1 : 0);
  std::vector<std::byte> out(load.bytes);
  std::vector<std::byte> in(load.bytes * load.lanes);
  const auto bytes = static_cast<std::uint32_t>(load.bytes);
  std::uint32_t sent = load.sends ? 0 : load.messages;
  std::uint32_t seen = load.receives ? 0 : load.messages;
  while (seen < load.messages || sent < load.messages || link->in_flight() > 0) {
    const bool may_send = !load.in_turn || (first ? sent <= seen : sent < seen);
    if (sent < load.messages && may_send) {
      if (try_send(link->send_fifo(static_cast<std::uint16_t>(sent % load.lanes)), out.data(), load.bytes)) ++sent;
    }
    if (seen < load.messages) {
      RecvFifo& fifo = link->recv_fifo(static_cast<std::uint16_t>(seen % load.lanes));
      if (peek(fifo) != nullptr) {
        consume(fifo);
        ++seen;
        continue;
      }
      for (std::uint16_t lane = 0; lane < load.lanes; ++lane) {
        RecvFifo& each = link->recv_fifo(lane);
        if (peek(each) == nullptr) *each.landing = {in.data() + lane * load.bytes, each.next, bytes};
      }
    }
    link->progress(seen < load.messages).value();
  }
  // This call sends the credit that is owed.
  link->progress(true).value();
}

// Returns the time in nanoseconds of `side` on both ends of a fresh connection.
double time_of(const Side& side, const Load& first, const Load& second) {
  auto [a, b] = connected(SocketKind::Tcp);
  for (const int socket : {a.get(), b.get()}) {
    const int one = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
  }
  const std::int64_t start = now_ns();
  std::thread other([&, socket = b.get()] { side(socket, second, false); });
  side(a.get(), first, true);
  other.join();
  return static_cast<double>(now_ns() - start);
}

template <std::size_t N>
double median(std::array<double, N> values) {
  std::sort(values.begin(), values.end());
  return values[N / 2];
}

void compare(const char* name, const Load& first, const Load& second) {
  std::array<double, 9> raw;
  std::array<double, 9> ours;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    raw[i] = time_of(plain, first, second);
    ours[i] = time_of(linked, first, second);
  }
  const double each = static_cast<double>(first.messages);
  const double bytes = each * static_cast<double>(first.bytes);
  fmt::print("{:<28} {:>8} x {:<6} plain {:>7.2f} us {:>6.2f} GB/s   link {:>7.2f} us {:>6.2f} GB/s   ratio {:.2f}\n",
             name, first.bytes, first.messages, median(raw) / each / 1e3, bytes / median(raw),
             median(ours) / each / 1e3, bytes / median(ours), median(ours) / median(raw));
}

WREATH_ROLE(measure) {
  const Load one_way{512 * 1024, 512, true, false, false, 1};
  Load sink = one_way;
  std::swap(sink.sends, sink.receives);
  compare("one way", one_way, sink);
  const Load both{512 * 1024, 256, true, true, false, 1};
  compare("both ways", both, both);
  Load lanes = both;
  lanes.lanes = 4;
  compare("both ways, 4 lanes", lanes, lanes);
  for (const std::size_t bytes : {8u, 4096u, 32768u, 262144u}) {
    const Load turns{bytes, bytes > 10'000 ? 2000u : 10'000u, true, true, true, 1};
    compare("in turn (one round trip)", turns, turns);
  }
  const Load stream{64, 100'000, true, false, false, 4};
  Load drain = stream;
  std::swap(drain.sends, drain.receives);
  compare("small, one way, 4 lanes", stream, drain);
  return 0;
}

}  // namespace
}  // namespace wreath::tcp_measured
