// The tcp transport sends messages over one stream per peer. It has no thread of its own; the thread that drives a link
// moves its messages.
#include "wreath/transport.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <bit>
#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/fd.hpp"
#include "src/base/network_interface.hpp"
#include "src/base/socket.hpp"
#include "transports/tcp/link.hpp"
#include "transports/tcp/stream_error.hpp"

namespace wreath {
namespace {

int integer_option(int socket, int option) {
  int value = -1;
  socklen_t bytes = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, option, &value, &bytes) == 0 ? value : -1;
}

// Makes small messages leave at once. A kernel that refuses reno keeps the system's choice.
Status set_tcp_options(int socket, Rank peer, bool same_host) {
  const int one = 1;
  if (::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) {
    return Error{ErrorCode::System,
                 fmt::format("tcp link to rank {}: TCP_NODELAY: {}", peer, stream_error(errno).message)};
  }
  if (same_host) set_unpaced(socket);
  return {};
}

class TcpTransport : public Transport {
 public:
  explicit TcpTransport(const TransportContext& context) : self_(context.self), shape_(context.shape) {}

  Status reachable(const Endpoint&, const Endpoint&) const override { return {}; }
  Result<Offer> offer(const Endpoint&) override { return Offer{}; }

  Result<std::unique_ptr<Link>> connect(const Endpoint& peer, Offer theirs) override {
    if (theirs.descriptors.empty()) {
      return Error{ErrorCode::InvalidArgument,
                   fmt::format("tcp link to rank {}: the offer holds no stream socket", peer.rank)};
    }
    Fd socket = Fd::of_process(std::exchange(theirs.descriptors.back(), -1));
    if (integer_option(socket.get(), SO_TYPE) != SOCK_STREAM) {
      return Error{ErrorCode::InvalidArgument,
                   fmt::format("tcp link to rank {}: descriptor {} is not a stream socket", peer.rank, socket.get())};
    }
    const int domain = integer_option(socket.get(), SO_DOMAIN);
    if (domain == AF_INET || domain == AF_INET6) {
      WREATH_TRY(set_tcp_options(socket.get(), peer.rank, peer.host == self_.host));
    }
    if (interfaces_.empty()) interfaces_ = interfaces();
    std::string interface = interface_of(interfaces_, local_address(socket.get()));
    return std::unique_ptr<Link>(std::make_unique<TcpLink>(peer.rank, std::move(socket), shape_, std::move(interface)));
  }

 private:
  Endpoint self_;
  FifoShape shape_;
  std::vector<Interface> interfaces_;
};

Error bad_shape(const char* field, std::uint64_t value, const char* rule) {
  return {ErrorCode::InvalidArgument, fmt::format("tcp: {} is {}, must be {}", field, value, rule)};
}

}  // namespace

// The function connect() needs a connected, authenticated stream socket (TCP, or UNIX) as its offer's last descriptor,
// and owns it then. offer() is empty. InvalidArgument names a field of the shape that is out of range. Between two ends
// on one host connect() asks for reno congestion control, because pacing halves the speed of loopback.
Result<std::unique_ptr<Transport>> make_tcp(const TransportContext& context) {
  const FifoShape& shape = context.shape;
  if (shape.lanes == 0) return bad_shape("lanes", shape.lanes, "at least 1");
  if (!std::has_single_bit(shape.slot_count)) return bad_shape("slot_count", shape.slot_count, "a power of two");
  if (!std::has_single_bit(shape.slot_bytes)) return bad_shape("slot_bytes", shape.slot_bytes, "a power of two");
  return std::unique_ptr<Transport>(std::make_unique<TcpTransport>(context));
}

}  // namespace wreath
