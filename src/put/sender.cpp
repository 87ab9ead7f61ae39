// A message whose data fits beside its header is one put. Else its data is put from where it lies, and its header
// after that.
//
// Credit is told, and never only written: puts of several channels come in any order, and a count that an older one
// covers would be lost. So the adapter wakes a sender that sleeps until it has credit, and nobody need know whether it
// does. A sender is blocked only where its window is full. When all that it sent is here, this end's window is equal to
// the sender's, because both begin at the last credit. So it is enough to tell credit where this end's window is full,
// too, and consuming has made room for the kind of message that it refuses; add_owed_credits() does this at once.
// Before all is here, more arrives, and this end looks again.
#include "src/put/sender.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/memory_order.hpp"
#include "src/fifo/access.hpp"
#include "src/put/way.hpp"

namespace wreath {
namespace {

// The adapter begins while further data is copied.
constexpr std::size_t kCopiedAtOnce = 256 * 1024;

}  // namespace

// Takes one message of each lane in turn, so that no lane waits for another's queue.
Result<std::size_t> PutSender::send_some(std::vector<PutWord>& words) {
  const auto used = wires_.used();
  std::size_t moved = 0;
  std::size_t without = 0;
  std::size_t at = turn_;
  const auto flush = [&]() -> Status {
    copied_ = 0;
    for (PutQueue& queue : queues_.all()) {
      const auto taken = queue.flush();
      if (!taken) return taken.error();
      moved += *taken;
    }
    return {};
  };
  while (without < used.size()) {
    const auto sent = send_next(*lanes_[used[at]->send.lane], words);
    if (!sent) return sent.error();
    if (copied_ >= kCopiedAtOnce) WREATH_TRY(flush());
    without = *sent ? 0 : without + 1;
    at = at + 1 == used.size() ? 0 : at + 1;
  }
  turn_ = at;
  add_owed_credits();
  WREATH_TRY(flush());
  return moved;
}

// Puts the lane's next message, one of those that must be put again first. Returns false where none can be put now.
Result<bool> PutSender::send_next(PutLane& lane, std::vector<PutWord>& words) {
  const std::uint32_t sequence = lane.put_next;
  if (sequence != lane.wire.sent.end()) {
    if (!has_room(lane, sequence, lane.message(sequence).bytes)) return false;
    WREATH_TRY(put(lane, sequence));
    ++lane.put_next;
    ++port_.counts().repeated;
    return true;
  }
  const SlotHeader* slot = lane.wire.sendable();
  // A place in the window is free when the adapter no longer reads it, too.
  if (slot == nullptr || lane.message(sequence).puts != 0) return false;
  if (slot->region != kLocalAddress || slot->bytes > shape_.slot_bytes) {
    return Error{ErrorCode::InvalidUsage, fmt::format("slot {} of lane {} names region {}, {} bytes: not local or too "
                                                      "long",
                                                      slot->sequence, lane.wire.send.lane, slot->region, slot->bytes)};
  }
  if (!is_small(slot->bytes)) WREATH_TRY(landings_.prepare(lane));
  if (!knows_slots(lane, slot->bytes, words) || !has_room(lane, sequence, slot->bytes)) return false;
  if (landings_.waits(lane, *slot)) return false;
  WREATH_TRY(keep(lane, *slot));
  WREATH_TRY(put(lane, sequence));
  lane.wire.sent.add(slot->bytes);
  lane.put_next = lane.wire.sent.end();
  release(lane);
  return true;
}

// Asks for the peer's slots once.
bool PutSender::knows_slots(PutLane& lane, std::size_t bytes, std::vector<PutWord>& words) const {
  PeerSlots& peer = lane.peer;
  const bool large = !is_small(bytes);
  if (!peer.small.empty() && (!large || !peer.large.empty())) return true;
  if (large ? !peer.wants_large : !peer.wants_small) {
    words.emplace_back(WantSlots{lane.wire.send.lane, large, large ? lane.names.remote() : RailMemories()});
  }
  peer.wants_small = true;
  peer.wants_large = peer.wants_large || large;
  return false;
}

// An ordered channel carries a whole message, so that its last put tells of all. Else puts go over all channels.
PutQueue& PutSender::data_queue(std::uint16_t lane, std::uint32_t sequence, std::uint32_t part,
                                std::uint32_t bytes) const {
  const std::size_t turn = std::size_t{lane} + sequence;
  if (limits_.ordered) return queues_.in_turn(turn);
  if (limits_.rails == 1 || bytes < RailShares::kLeastMeasured) return queues_.in_turn(turn + part);
  return queues_.of_rail(port_.shares().next(bytes, queues_.rails(), now_ns()), turn + part);
}

bool PutSender::has_room(const PutLane& lane, std::uint32_t sequence, std::uint32_t bytes) const {
  const std::uint32_t puts = 1 + data_puts(bytes, limits_);
  if (limits_.ordered) return queues_.in_turn(std::size_t{lane.wire.send.lane} + sequence).room() >= puts;
  return std::ranges::all_of(queues_.used(), [&](const PutQueue* queue) { return queue->room() >= puts; });
}

// Writes the header of the lane's next message. Copies its data beside it where it is small.
Status PutSender::keep(PutLane& lane, const SlotHeader& slot) {
  WREATH_TRY(lane.outgoing.allocate(small_slots_bytes(shape_)));
  SentMessage& message = lane.message(slot.sequence);
  message = {address_of(slot), {}, lane.wire.sent.large_place(), slot.bytes, 0, false};
  landings_.forget_before(lane, slot.sequence);
  message.landed = landings_.find(lane, slot.sequence, slot.bytes) != nullptr;
  std::byte* const header_slot = lane.outgoing_slot(slot.sequence);
  PutHeader header{slot.epoch,
                   lane.wire.send.lane,
                   slot.sequence,
                   slot.signature,
                   slot.bytes,
                   1,
                   message.landed ? std::uint8_t{1} : std::uint8_t{0},
                   0};
  if (!limits_.ordered) header.parts = static_cast<std::uint8_t>(1 + data_puts(slot.bytes, limits_));
  if (shape_.checked) header.checksum = checksum_of(header, {message.data, message.bytes});
  encode(header, header_slot);
  PutCounts& counts = port_.counts();
  counts.bytes += slot.bytes;
  const std::size_t beside = is_small(slot.bytes) ? slot.bytes : 0;
  counts.copied_bytes += beside;
  if (beside > 0) std::memcpy(header_slot + kPutHeaderBytes, message.data, beside);
  const bool inlined = is_inlined(slot.bytes, limits_);
  if (!inlined) WREATH_TRY(lane.outgoing.make_registered(false));
  if (!is_small(slot.bytes)) return find_memory(lane, slot, message);
  ++(inlined ? counts.inlined : counts.staged_small);
  return {};
}

// Finds the registration of a large message's data. Data that has none is copied to where the executor could have
// staged it: no other message lies there.
Status PutSender::find_memory(PutLane& lane, const SlotHeader& slot, SentMessage& message) {
  auto found = port_.find(message.data, message.bytes);
  if (!found) return found.error();
  const std::byte* const staging = lane.wire.send_staging.data();
  const bool staged = staging != nullptr && message.data >= staging && message.data < staging + staging_bytes(shape_);
  if (*found) {
    ++(staged ? port_.counts().staged : port_.counts().by_reference);
  } else {
    WREATH_TRY(wires_.prepare(lane.wire.send.lane));
    port_.add_staging({lane.wire.send_staging.data(), staging_bytes(shape_)});
    std::byte* const copy =
        lane.wire.send_staging.data() + std::size_t{slot.sequence & (shape_.slot_count - 1)} * shape_.slot_bytes;
    std::memcpy(copy, message.data, message.bytes);
    copied_ += message.bytes;
    ++port_.counts().copied;
    port_.counts().copied_bytes += message.bytes;
    message.data = copy;
    found = port_.find(copy, message.bytes);
    if (!found) return found.error();
  }
  message.memory = **found;
  return {};
}

// Adds the puts of a message that keep() has prepared. The name of its place stays until a later message takes its
// turn.
Status PutSender::put(PutLane& lane, std::uint32_t sequence) {
  SentMessage& message = lane.message(sequence);
  const NamedPlace* const place = message.landed ? landings_.find(lane, sequence, message.bytes) : nullptr;
  if (message.landed && place == nullptr) {
    return Error{ErrorCode::PeerLost,
                 fmt::format("the place of message {} of lane {} is not known", sequence, lane.wire.send.lane)};
  }
  const std::uint16_t number = lane.wire.send.lane;
  const bool small = is_small(message.bytes);
  message.puts = 1 + data_puts(message.bytes, limits_);
  if (!small) put_data(lane, sequence, place);
  PutQueue& queue = queues_.in_turn(std::size_t{number} + sequence);
  const RemoteMemory& slots = lane.peer.small[queue.rail()];
  Put put;
  put.from = lane.outgoing_slot(sequence);
  put.bytes = static_cast<std::uint32_t>(kPutHeaderBytes + (small ? message.bytes : 0));
  if (!is_inlined(message.bytes, limits_)) put.registration = lane.outgoing.registered().by_rail[queue.rail()];
  put.to = slots.address + std::uint64_t{sequence & lane.mask} * kSmallSlotBytes;
  put.key = slots.key;
  put.tells = pack({number, 0, sequence, limits_.told_bits});
  queue.add(put, {PutOwner::Kind::Message, number, sequence}, !small);
  return {};
}

void PutSender::put_data(PutLane& lane, std::uint32_t sequence, const NamedPlace* place) {
  const SentMessage& message = lane.message(sequence);
  const std::uint16_t number = lane.wire.send.lane;
  const std::uint64_t each = part_bytes(message.bytes, limits_);
  std::uint64_t offset = 0;
  for (std::uint32_t part = 1; offset < message.bytes; ++part) {
    Put put;
    put.from = message.data + offset;
    put.bytes = static_cast<std::uint32_t>(std::min(each, message.bytes - offset));
    PutQueue& queue = data_queue(number, sequence, part, put.bytes);
    const RemoteMemory& target = place != nullptr ? place->by_rail[queue.rail()] : lane.peer.large[queue.rail()];
    put.registration = message.memory.by_rail[queue.rail()];
    put.to = target.address + (place != nullptr ? 0 : std::uint64_t{message.place} * shape_.slot_bytes) + offset;
    put.key = target.key;
    if (!limits_.ordered) put.tells = pack({number, part, sequence, limits_.told_bits});
    queue.add(put, {PutOwner::Kind::Message, number, sequence}, false);
    if (part > 1 && put.bytes < each) ++port_.counts().tails;
    offset += put.bytes;
  }
}

void PutSender::on_ended(const PutOwner& owner) {
  PutLane& lane = *lanes_[owner.lane];
  if (owner.kind == PutOwner::Kind::Credit) std::erase(lane.credits, owner.sequence);
  if (owner.kind == PutOwner::Kind::Place) landings_.on_ended(owner);
  if (owner.kind != PutOwner::Kind::Message) return;
  --lane.message(owner.sequence).puts;
  release(lane);
}

// Gives the memory of messages back to the executor, in their order: of copied ones at once, of large ones when all
// puts up to theirs have ended. So the messages that the peer may not have are there.
void PutSender::release(PutLane& lane) {
  const std::uint32_t end = lane.wire.sent.end();
  while (lane.ended != end && lane.message(lane.ended).puts == 0) ++lane.ended;
  std::uint32_t& released = lane.wire.shared.send_consumed->value;
  std::uint32_t next = released;
  while (next != end && (is_small(lane.message(next).bytes) || end - next > end - lane.ended)) ++next;
  if (next != released) store_release(released, next);
}

Status PutSender::on_credit(const Told& told) {
  WireWindow& window = lanes_[told.lane]->wire.sent;
  const std::uint32_t ahead = told.since(window.begin());
  if (ahead <= window.messages()) {
    window.remove_before(window.begin() + ahead);
    return {};
  }
  // Puts may come in any order, so an older count may come later. It is not half of all sequences behind, which the
  // peer takes care of: see must_wait().
  if (ahead > told.sequence_mask() / 2) return {};
  return Error{ErrorCode::PeerLost,
               fmt::format("told word: credit is {}, must be between {} and {} (lane {})", told.sequence,
                           window.begin() & told.sequence_mask(), window.end() & told.sequence_mask(), told.lane)};
}

// Returns whether a credit must wait for the end of puts. One put may be under way for so long that many after it come
// and end. The few bits that it tells would be a newer count's if the peer were half of all sequences further by then.
bool PutSender::must_wait(const PutLane& lane, std::uint32_t consumed, const PutQueue& queue) const {
  if (queue.room() == 0 || lane.credits.size() == kMostCredits) return true;
  const Told told{.bits = limits_.told_bits};
  return !lane.credits.empty() && consumed - lane.credits.front() > told.sequence_mask() / 2;
}

// Tells the peer what the executor has consumed, once half of the window is unreported, or the peer may wait for it.
void PutSender::add_owed_credits() {
  credit_waits_ = false;
  for (WireLane* wire : wires_.used()) {
    const std::uint32_t consumed = wire->consumed();
    WireWindow& window = wire->received;
    if (consumed == window.begin() || !(window.is_half(consumed) || window.gains_room(consumed))) continue;
    const std::uint16_t lane = wire->send.lane;
    PutQueue& queue = queues_.in_turn(lane);
    const bool waits = must_wait(*lanes_[lane], consumed, queue);
    credit_waits_ = credit_waits_ || waits;
    if (waits) continue;
    lanes_[lane]->credits.push_back(consumed);
    Put put = nothing_to(queue);
    put.tells = pack({lane, kCreditPart, consumed, limits_.told_bits});
    queue.add(put, {PutOwner::Kind::Credit, lane, consumed}, false);
    window.remove_before(consumed);
    ++port_.counts().credits;
  }
}

Status PutSender::on_slots(const HaveSlots& slots) {
  PeerSlots& peer = lanes_[slots.lane]->peer;
  for (const auto& [known, said] : {std::pair(&peer.small, &slots.small), std::pair(&peer.large, &slots.large)}) {
    if (said->empty()) continue;
    if (said->size() < queues_.count_rails()) {
      return Error{ErrorCode::Mismatch, fmt::format("word: lane {} has slots by {} rails, and {} are used", slots.lane,
                                                    said->size(), queues_.count_rails())};
    }
    if (!known->empty() && *known != *said) {
      return Error{ErrorCode::Mismatch, fmt::format("word: lane {} has other slots already", slots.lane)};
    }
    *known = *said;
  }
  return {};
}

std::vector<LanePosition> PutSender::ended() const {
  std::vector<LanePosition> positions;
  for (const auto& lane : lanes_) {
    positions.push_back({lane->wire.send.lane, lane->wire.sent.begin(), lane->ended});
  }
  return positions;
}

Status PutSender::resume(std::span<const LanePosition> positions) {
  landings_.begin_again();
  std::vector<bool> named(lanes_.size());
  for (const LanePosition& at : positions) {
    named[at.lane] = true;
    WREATH_TRY(resume_lane(*lanes_[at.lane], at));
  }
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i]->credits.clear();
    if (named[i] || lanes_[i]->wire.sent.messages() == 0) continue;
    return Error{ErrorCode::Mismatch, fmt::format("word: lane {} is not named", i)};
  }
  return {};
}

// Messages before `expected` have ended, whatever their puts said. The others are put again.
Status PutSender::resume_lane(PutLane& lane, const LanePosition& at) {
  WireWindow& window = lane.wire.sent;
  const std::uint32_t end = window.end();
  if (at.expected - window.begin() > window.messages()) {
    return Error{ErrorCode::Mismatch, fmt::format("word: expected is {}, must be between {} and {} (lane {})",
                                                  at.expected, window.begin(), end, at.lane)};
  }
  if (at.consumed - window.begin() > at.expected - window.begin()) {
    return Error{ErrorCode::Mismatch, fmt::format("word: consumed is {}, must be between {} and {} (lane {})",
                                                  at.consumed, window.begin(), at.expected, at.lane)};
  }
  if (end - at.expected > end - lane.ended) {
    return Error{ErrorCode::PeerLost,
                 fmt::format("message {} of lane {} had ended and is not there", at.expected, at.lane)};
  }
  for (std::uint32_t sequence = lane.ended; sequence != end; ++sequence) {
    lane.message(sequence).puts = end - sequence > end - at.expected ? 0 : 1;
  }
  release(lane);
  lane.put_next = at.expected;
  window.remove_before(at.consumed);
  return {};
}

// Returns a put without bytes. Adapters look at its target all the same.
Put PutSender::nothing_to(const PutQueue& queue) const {
  const RemoteMemory& slots = lanes_[0]->peer.small[queue.rail()];
  Put put;
  put.to = slots.address;
  put.key = slots.key;
  put.optional = true;
  return put;
}

void PutSender::on_one_rail() {
  const std::uint32_t told_bits = limits_.told_bits;
  limits_ = port_.adapter(0).limits();
  limits_.told_bits = told_bits;
}

void PutSender::probe(std::uint32_t rails) {
  for (PutQueue& queue : queues_.all()) {
    if ((rails & 1U << queue.rail()) != 0) queue.add(nothing_to(queue), {}, true);
  }
}

std::size_t PutSender::unended_bytes() const {
  std::size_t bytes = 0;
  for (const WireLane* wire : wires_.used()) {
    const PutLane& lane = *lanes_[wire->send.lane];
    for (std::uint32_t sequence = wire->sent.begin(); sequence != wire->sent.end(); ++sequence) {
      const SentMessage& message = lane.message(sequence);
      if (message.puts > 0 && is_small(message.bytes)) bytes += kPutHeaderBytes + message.bytes;
    }
  }
  return bytes;
}

bool PutSender::repeats() const {
  return std::ranges::any_of(
      wires_.used(), [&](const WireLane* wire) { return lanes_[wire->send.lane]->put_next != wire->sent.end(); });
}

}  // namespace wreath
