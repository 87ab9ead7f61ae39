// The mapped transport offers this rank's own segment and maps the peer's.
#include "src/fifo/mapped_transport.hpp"

#include <fmt/format.h>

#include <utility>

#include "src/fifo/mapped_link.hpp"
#include "src/fifo/segment.hpp"

namespace wreath {
namespace {

class MappedTransport final : public Transport {
 public:
  MappedTransport(const TransportContext& context, SharedMemory reach)
      : self_(context.self),
        segment_(*context.segment),
        same_process_(reach == SharedMemory::Process),
        single_copy_(context.single_copy) {}

  Status reachable(const Endpoint& self, const Endpoint& peer) const override {
    const bool reached = same_process_ ? self.process == peer.process : self.host == peer.host;
    if (reached) return {};
    return Error{ErrorCode::Unavailable,
                 fmt::format("rank {} is {}", peer.rank, same_process_ ? "in another process" : "on another host")};
  }

  Result<Offer> offer(const Endpoint& peer) override {
    if (!same_process_ && !segment_.shareable()) {
      return Error{ErrorCode::Unavailable,
                   fmt::format("rank {} has no memory that other processes can map", self_.rank)};
    }
    return segment_.offer(peer.rank, !same_process_);
  }

  Result<std::unique_ptr<Link>> connect(const Endpoint& peer, Offer theirs) override {
    WREATH_TRY(reachable(self_, peer));
    auto link = MappedLink::connect(segment_, peer.rank, std::move(theirs), {single_copy_, same_process_});
    if (!link) return link.error();
    return std::unique_ptr<Link>(*std::move(link));
  }

 private:
  Endpoint self_;
  OwnSegment& segment_;
  bool same_process_;
  bool single_copy_;
};

}  // namespace

Result<std::unique_ptr<Transport>> make_mapped_transport(const TransportContext& context, SharedMemory reach) {
  if (context.segment == nullptr) {
    return Error{ErrorCode::Unavailable, "this rank has no control segment"};
  }
  return std::unique_ptr<Transport>(new MappedTransport(context, reach));
}

}  // namespace wreath
