// Checks what the pump relies on, once.
#include "src/put/transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "src/put/way.hpp"

namespace wreath {
namespace {

Error refuse(ErrorCode code, const PutPort& port, const char* what, std::uint64_t value, std::string rule) {
  return {code, fmt::format("{}: {} is {}, must be {}", port.describe(), what, value, rule)};
}

}  // namespace

Result<std::unique_ptr<Transport>> PutTransport::make(std::shared_ptr<PutPort> port, const TransportContext& context,
                                                      const PutOptions& options) {
  const FifoShape& shape = context.shape;
  const PutLimits& limits = port->limits();
  const auto invalid = [&](const char* what, std::uint64_t value, std::string rule) {
    return refuse(ErrorCode::InvalidArgument, *port, what, value, std::move(rule));
  };
  const auto unfit = [&](const char* what, std::uint64_t value, std::string rule) {
    return refuse(ErrorCode::Unavailable, *port, what, value, std::move(rule));
  };
  if (shape.lanes == 0 || shape.lanes > kMostLanes) {
    return invalid("lanes", shape.lanes, fmt::format("1 to {}", kMostLanes));
  }
  if (limits.told_bits < kFewestToldBits || limits.told_bits > 32) {
    return unfit("the number of bits that a put tells", limits.told_bits, fmt::format("{} to 32", kFewestToldBits));
  }
  if (const std::uint32_t most = most_slots(limits.told_bits);
      !std::has_single_bit(shape.slot_count) || shape.slot_count > most) {
    return invalid("slot_count", shape.slot_count, fmt::format("a power of two, at most {}", most));
  }
  if (!std::has_single_bit(shape.slot_bytes)) return invalid("slot_bytes", shape.slot_bytes, "a power of two");
  const std::size_t most_channels = std::min(kMostRailChannels, kMostChannels / port->rails());
  if (options.channels == 0 || options.channels > most_channels) {
    return invalid("channels", options.channels, fmt::format("1 to {}", most_channels));
  }
  if (limits.put_bytes < kSmallSlotBytes) {
    return unfit("the largest put", limits.put_bytes, fmt::format("{} bytes at least", kSmallSlotBytes));
  }
  const std::uint64_t puts = 1 + std::max(data_puts(shape.slot_bytes, limits), 1U);
  if (!limits.ordered && puts > kMostParts) {
    return unfit(
        "the largest put", limits.put_bytes,
        fmt::format("{} bytes at least, for slots of {}", shape.slot_bytes / (kMostParts - 1), shape.slot_bytes));
  }
  if (limits.outstanding < 2 * puts) {
    return unfit("the number of outstanding puts", limits.outstanding, fmt::format("{} at least", 2 * puts));
  }
  return std::unique_ptr<Transport>(new PutTransport(std::move(port), shape, options));
}

Result<Offer> PutTransport::offer(const Endpoint& peer) {
  offered_.erase(peer.rank);
  auto link = PutLink::make(peer.rank, port_, shape_, options_);
  if (!link) return link.error();
  Offer offer = encode_offer((*link)->offer());
  offered_[peer.rank] = *std::move(link);
  return offer;
}

Result<std::unique_ptr<Link>> PutTransport::connect(const Endpoint& peer, Offer theirs) {
  const auto found = offered_.find(peer.rank);
  if (found == offered_.end()) {
    return Error{ErrorCode::InvalidUsage, fmt::format("rank {} was not offered a link", peer.rank)};
  }
  std::unique_ptr<PutLink> link = std::move(found->second);
  offered_.erase(found);
  const auto decoded = decode_offer(theirs.bytes, options_.channels);
  if (!decoded) {
    return Error{ErrorCode::Mismatch,
                 fmt::format("{} to rank {}: {}", link->path(), peer.rank, decoded.error().message), peer.rank};
  }
  WREATH_TRY(link->connect(*decoded));
  return std::unique_ptr<Link>(std::move(link));
}

}  // namespace wreath
