// The tcp transport sends messages over one stream per peer, or over several. It has no thread of its own; the thread
// that drives a link moves its messages.
#include "wreath/transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/fd.hpp"
#include "src/base/network_interface.hpp"
#include "src/base/socket.hpp"
#include "transports/tcp/link.hpp"
#include "transports/tcp/rail_link.hpp"
#include "transports/tcp/streams.hpp"

namespace wreath {
namespace {

class TcpTransport : public Transport {
 public:
  explicit TcpTransport(const TransportContext& context)
      : self_(context.self), shape_(context.shape), streams_(context.streams) {}

  Status reachable(const Endpoint&, const Endpoint&) const override { return {}; }
  Result<Offer> offer(const Endpoint&) override { return Offer{}; }

  Result<std::unique_ptr<Link>> connect(const Endpoint& peer, Offer theirs) override {
    const std::size_t first_streams = std::max<std::size_t>(streams_, 1);
    if (theirs.descriptors.size() < first_streams) {
      return Error{ErrorCode::InvalidArgument,
                   fmt::format("tcp link to rank {}: the offer holds {}", peer.rank,
                               first_streams == 1 ? "no stream socket" : "too few stream sockets")};
    }
    std::vector<RailSocket> sockets;
    for (std::size_t i = theirs.descriptors.size() - first_streams; i < theirs.descriptors.size(); ++i) {
      auto made = prepare(Fd::of_process(std::exchange(theirs.descriptors[i], -1)), peer);
      if (!made) return made.error();
      sockets.push_back(std::move(*made));
    }
    const bool same_host = peer.host == self_.host;
    if (streams_ == 1 || (streams_ == 0 && same_host)) {
      return std::unique_ptr<Link>(std::make_unique<TcpLink>(peer.rank, std::move(sockets.front().socket), shape_,
                                                             std::move(sockets.front().interface), counts_));
    }
    auto link = RailLink::make(self_.rank, peer.rank, std::move(sockets), shape_, counts_, same_host);
    if (!link) return link.error();
    return std::unique_ptr<Link>(std::move(*link));
  }

  WireCounts counts() const override {
    const TcpCounts& all = *counts_;
    return {{}, all.bytes, {{"messages", all.messages}, {"sends", all.sends}, {"receives", all.receives}}};
  }

 private:
  // Checks a stream, sets its options and finds its interface.
  Result<RailSocket> prepare(Fd socket, const Endpoint& peer) {
    WREATH_TRY(prepare_stream(socket.get(), peer.rank, peer.host == self_.host, streams_ > 1));
    if (interfaces_.empty()) interfaces_ = interfaces();
    std::string interface = interface_of(interfaces_, local_address(socket.get()));
    return RailSocket{std::move(socket), std::move(interface)};
  }

  Endpoint self_;
  FifoShape shape_;
  std::size_t streams_;
  std::vector<Interface> interfaces_;
  std::shared_ptr<TcpCounts> counts_ = std::make_shared<TcpCounts>();
};

Error bad_shape(const char* field, std::uint64_t value, const char* rule) {
  return {ErrorCode::InvalidArgument, fmt::format("tcp: {} is {}, must be {}", field, value, rule)};
}

}  // namespace

// The function connect() needs connected, authenticated stream sockets (TCP, or UNIX) as its offer's last descriptors,
// and owns them then. offer() is empty. InvalidArgument names a field of the shape that is out of range. Between two
// ends on one host connect() asks for reno congestion control, because pacing halves the speed of loopback.
Result<std::unique_ptr<Transport>> make_tcp(const TransportContext& context) {
  const FifoShape& shape = context.shape;
  if (shape.lanes == 0) return bad_shape("lanes", shape.lanes, "at least 1");
  if (!std::has_single_bit(shape.slot_count)) return bad_shape("slot_count", shape.slot_count, "a power of two");
  if (!std::has_single_bit(shape.slot_bytes)) return bad_shape("slot_bytes", shape.slot_bytes, "a power of two");
  return std::unique_ptr<Transport>(std::make_unique<TcpTransport>(context));
}

}  // namespace wreath
