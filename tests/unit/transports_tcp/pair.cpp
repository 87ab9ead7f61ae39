// Makes sockets and links for the tests of tcp.
#include "tests/unit/transports_tcp/pair.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <stdexcept>

#include "src/fifo/access.hpp"

namespace wreath {
namespace {

void require(bool fine, const char* what) {
  if (!fine) throw std::runtime_error(what);
}

std::pair<Fd, Fd> unix_pair() {
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
  return {Fd(ends[0]), Fd(ends[1])};
}

std::pair<Fd, Fd> tcp_pair() {
  Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  require(::bind(listener.get(), generic, bytes) == 0 && ::listen(listener.get(), 1) == 0, "listen");
  require(::getsockname(listener.get(), generic, &bytes) == 0, "getsockname");
  Fd active(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  require(::connect(active.get(), generic, bytes) == 0, "connect");
  Fd passive(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  require(static_cast<bool>(passive), "accept");
  return {std::move(active), std::move(passive)};
}

}  // namespace

std::pair<Fd, Fd> connected(SocketKind kind) { return kind == SocketKind::Unix ? unix_pair() : tcp_pair(); }

std::unique_ptr<TcpLink> link_over(Fd socket, const FifoShape& shape, Rank peer) {
  TransportContext context{};
  context.self = {.rank = 1 - peer, .process = 1, .host = 1};
  context.ranks = 2;
  context.shape = shape;
  auto transport = find_transport("tcp")->make(context).value();
  Offer theirs;
  theirs.descriptors.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));  // of the peer's own offer
  theirs.descriptors.push_back(socket.release());
  auto link = transport->connect({.rank = peer, .process = 1, .host = 1}, std::move(theirs)).value();
  return std::unique_ptr<TcpLink>(static_cast<TcpLink*>(link.release()));
}

LinkPair::LinkPair(const FifoShape& shape, SocketKind kind) {
  auto [first, second] = connected(kind);
  a = link_over(std::move(first), shape, 1);
  b = link_over(std::move(second), shape, 0);
}

FifoShape shape_of(std::uint16_t lanes, std::uint32_t slot_count, std::uint32_t slot_bytes, std::uint32_t first) {
  return {
      .lanes = lanes, .slot_count = slot_count, .slot_bytes = slot_bytes, .first_sequence = first, .epoch = kTestEpoch};
}

bool try_send(SendFifo& fifo, const std::byte* data, std::size_t bytes, std::uint32_t signature) {
  if (!has_credit(fifo)) return false;
  SlotHeader& slot = next_slot(fifo);
  slot.epoch = kTestEpoch;
  slot.signature = signature;
  slot.bytes = static_cast<std::uint32_t>(bytes);
  slot.flags = 0;
  slot.region = kLocalAddress;
  slot.offset = reinterpret_cast<std::uintptr_t>(data);
  publish(fifo);
  return true;
}

bool try_recv(RecvFifo& fifo, Received& message) {
  const SlotHeader* slot = peek(fifo);
  if (slot == nullptr) return false;
  const Located located = locate(fifo, *slot);
  message.sequence = slot->sequence;
  message.signature = slot->signature;
  message.at = located.data;
  message.data.assign(located.data, located.data + slot->bytes);
  consume(fifo);
  return true;
}

std::byte pattern(std::uint32_t lane, std::uint32_t message, std::size_t place) {
  return static_cast<std::byte>((lane * 31 + message * 7 + place + place / 251) & 0xff);
}

std::vector<std::byte> filled(std::uint32_t lane, std::uint32_t message, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = pattern(lane, message, i);
  return data;
}

bool expired(std::int64_t since_ns) { return now_ns() - since_ns > 30'000'000'000; }

}  // namespace wreath
