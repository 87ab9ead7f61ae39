// Offers the own segment, maps the peer's.
#include "src/fifo/mapped_transport.hpp"

#include <fmt/format.h>

#include <utility>

#include "src/fifo/mapped_link.hpp"

namespace wreath {
namespace {

class MappedTransport final : public Transport {
 public:
  MappedTransport(const TransportContext& context, const MappedReach& reach)
      : self_(context.self), segment_(*context.segment), reach_(reach), single_copy_(context.single_copy) {}

  std::string_view name() const override { return reach_.name; }

  Status reachable(const Endpoint& self, const Endpoint& peer) const override {
    const bool reached = reach_.same_process ? self.process == peer.process : self.host == peer.host;
    if (reached) return {};
    return Error{ErrorCode::Unavailable, fmt::format("rank {} {}", peer.rank, reach_.reason)};
  }

  bool needs_stream() const override { return false; }

  Result<Offer> offer(const Endpoint& peer) override {
    if (!reach_.same_process && !segment_.shareable()) {
      return Error{ErrorCode::Unavailable,
                   fmt::format("rank {} has no memory that other processes can map", self_.rank)};
    }
    return segment_.offer(peer.rank, !reach_.same_process);
  }

  Result<std::unique_ptr<Link>> connect(const Endpoint& peer, Offer theirs) override {
    WREATH_TRY(reachable(self_, peer));
    return MappedLink::connect(segment_, peer.rank, std::move(theirs), {single_copy_, reach_.same_process});
  }

 private:
  Endpoint self_;
  OwnSegment& segment_;
  const MappedReach& reach_;
  bool single_copy_;
};

}  // namespace

Result<std::unique_ptr<Transport>> make_mapped_transport(const TransportContext& context, const MappedReach& reach) {
  if (context.segment == nullptr) {
    return Error{ErrorCode::Unavailable, fmt::format("{}: this rank has no control segment", reach.name)};
  }
  return std::unique_ptr<Transport>(new MappedTransport(context, reach));
}

}  // namespace wreath
