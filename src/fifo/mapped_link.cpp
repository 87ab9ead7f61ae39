// Connects FIFOs over two segments, and opens further regions of the peer.
#include "src/fifo/mapped_link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/memory_order.hpp"
#include "src/base/peer_memory.hpp"
#include "src/fifo/access.hpp"

namespace wreath {
namespace {

SendFifo send_end(const OwnSegment& own, Rank peer, const PeerSegment& theirs, std::uint16_t lane) {
  SendFifo send;
  send.slots = own.slots(peer, lane);
  send.consumed = theirs.consumed(own.rank(), lane);
  send.next = own.shape().first_sequence;
  send.slot_count = own.shape().headers();
  send.staging_count = own.shape().slot_count;
  send.slot_bytes = own.shape().mapped_slot_bytes(lane);
  send.lane = lane;
  return send;
}

RecvFifo recv_end(const OwnSegment& own, Rank peer, const PeerSegment& theirs, std::uint16_t lane,
                  const RegionView* regions) {
  RecvFifo recv;
  recv.slots = theirs.slots(own.rank(), lane);
  recv.consumed = own.consumed(peer, lane);
  recv.regions = regions;
  recv.owner_aborted = theirs.aborted();
  recv.next = own.shape().first_sequence;
  recv.slot_count = own.shape().headers();
  recv.lane = lane;
  return recv;
}

// Returns Mismatch for an index that no peer may announce, or that is `known`.
Status check_announced(Rank peer, std::uint32_t index, bool known) {
  const bool in_range = index > 0 && index < kMaximumRegions;
  if (in_range && !known) return {};
  return Error{
      ErrorCode::Mismatch,
      fmt::format("rank {} announced region {}, which is {}", peer, index, in_range ? "already known" : "out of range"),
      peer};
}

}  // namespace

Result<std::unique_ptr<MappedLink>> MappedLink::connect(OwnSegment& own, Rank peer, Offer theirs,
                                                        const PeerReach& reach) {
  Result<PeerSegment> segment = PeerSegment::open(own, peer, std::move(theirs));
  if (!segment) return segment.error();
  std::unique_ptr<MappedLink> link(new MappedLink(own, peer, *std::move(segment)));
  if (reach.single_copy) link->try_to_read();
  link->same_process_ = reach.same_process;
  for (RecvFifo& recv : link->recv_) recv.same_process = reach.same_process;
  return link;
}

MappedLink::MappedLink(OwnSegment& own, Rank peer, PeerSegment theirs)
    : own_(own),
      peer_(peer),
      theirs_(std::move(theirs)),
      process_(theirs_.process()),
      send_(own.shape().lanes),
      recv_(own.shape().lanes) {
  for (std::uint16_t lane = 0; lane < own.shape().lanes; ++lane) {
    send_[lane] = send_end(own, peer, theirs_, lane);
    recv_[lane] = recv_end(own, peer, theirs_, lane, regions_.data());
  }
  if (theirs_.ping_pong() == nullptr) return;
  constexpr std::uint32_t kShare = PingPongSlots::kCount / 2;
  for (std::uint32_t number = 0; number < PingPongSlots::kCount; ++number) {
    std::byte* const share = first_ping_pong() / kShare == number / kShare ? own.ping_pong() : theirs_.ping_pong();
    ping_pong_.data[number] = share + number % kShare * PingPongSlots::kBytes;
  }
  for (SendFifo& send : send_) send.ping_pong = &ping_pong_;
  for (RecvFifo& recv : recv_) recv.ping_pong = &ping_pong_;
}

// The lower rank's slots have the lower numbers.
std::uint32_t MappedLink::first_ping_pong() const { return own_.rank() < peer_ ? 0 : PingPongSlots::kCount / 2; }

void MappedLink::fill_ping_pong() {
  ping_pong_.fills = true;
  for (std::uint32_t i = 0; i < PingPongSlots::kCount / 2; ++i) hold(ping_pong_, first_ping_pong() + i);
}

// Reads the peer's token once, because only a try shows whether this process may read the peer's memory.
void MappedLink::try_to_read() {
  std::uint64_t seen = 0;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const auto* const token = reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(process_.token_address));
  const int error = read_peer(process_, reinterpret_cast<std::byte*>(&seen), token, sizeof seen);
  store_release(own_.reads(peer_)->process, 1U + static_cast<std::uint32_t>(error));
  for (RecvFifo& recv : recv_) recv.process = error == 0 ? &process_ : nullptr;
}

std::optional<Status> MappedLink::single_copy() const {
  const std::uint32_t said = load_acquire(theirs_.reads(own_.rank())->process);
  if (said == 0) return std::nullopt;
  if (said == 1) return Status();
  const std::string reason = std::system_category().message(static_cast<int>(said - 1));
  return Status(Error{ErrorCode::Unavailable, fmt::format("refused: {}", reason), peer_});
}

Status MappedLink::prepare(std::uint16_t lane) {
  SendFifo& send = send_[lane];
  send.single_copy = load_acquire(theirs_.reads(own_.rank())->process) == 1;
  if (send.staging != nullptr) return {};
  const Result<Staging> staging = own_.staging(peer_, lane);
  if (!staging) return staging.error();
  send.staging = staging->data;
  send.staging_region = staging->name.index;
  send.staging_offset = staging->name.offset;
  send.ring_bytes = own_.shape().ring_bytes;
  return {};
}

bool MappedLink::closing_loses_data() const {
  return !own_.offered_descriptors(peer_) && !std::all_of(send_.begin(), send_.end(), drained<SendFifo>);
}

Status MappedLink::accept_region(std::uint32_t index, Offer offer) {
  WREATH_TRY(check_announced(peer_, index, index < kMaximumRegions && held_regions_[index] != nullptr));
  const bool of_device = is_device_offer(offer);
  Result<std::shared_ptr<Region>> region = own_.open(std::move(offer));
  if (!region) {
    const Error error{region.error().code,
                      fmt::format("region {} of rank {}: {}", index, peer_, region.error().message)};
    if (!of_device || error.code == ErrorCode::Mismatch) return error;
    if (!std::exchange(told_staged_, true)) log_info("{}: what it sends of a device's memory is staged", error.message);
    return {};
  }
  RegionView& view = regions_[index];
  view.bytes = (*region)->bytes();
  view.device = of_device ? own_.device() : 0;
  store_release(view.base, static_cast<const std::byte*>((*region)->data()));
  held_regions_[index] = *std::move(region);
  if (!of_device) return {};
  std::uint64_t& mapped = own_.reads(peer_)->regions;
  store_release(mapped, load_relaxed(mapped) | std::uint64_t{1} << index);
  return {};
}

}  // namespace wreath
