// Names are put like headers: nothing waits for them but the sender, and that not for long.
#include "src/put/landings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/config.hpp"
#include "src/base/hash.hpp"
#include "src/base/little_endian.hpp"
#include "src/fifo/access.hpp"

namespace wreath {
namespace {

// This part of a told word says that there are no places.
constexpr std::uint32_t kNoPlacePart = 1;
constexpr std::uint32_t kMostSkips = 256;
constexpr std::size_t kMeasuredCopyBytes = std::size_t{256} * 1024;

constexpr std::size_t kNameChecksumAt = 8;
constexpr std::size_t kNameRailsAt = 16;

constexpr std::size_t name_bytes(std::size_t rails) { return 24 + 16 * rails; }
static_assert(name_bytes(kMostRails) == kNameBytes);

// Returns the checksum of a name without that field.
std::uint64_t checksum_of(const std::byte* name, std::size_t rails) {
  const std::span<const std::byte> rest(name + kNameRailsAt, name_bytes(rails) - kNameRailsAt);
  return mix(checksum(std::span(name, kNameChecksumAt)), checksum(rest));
}

// Returns whether `sequence` is before `other`, in the order of sequences.
bool before(std::uint32_t sequence, std::uint32_t other) { return static_cast<std::int32_t>(sequence - other) < 0; }

// Returns how long a core copies so many bytes. It is measured the first time that it is asked, by the second of two
// copies, which finds its pages there.
std::int64_t copy_ns(std::uint32_t bytes) {
  static const double ns_of_byte = [] {
    const std::vector<std::byte> from(kMeasuredCopyBytes);
    std::vector<std::byte> to(kMeasuredCopyBytes);
    std::int64_t fastest_ns = INT64_MAX;
    for (int i = 0; i < 2; ++i) {
      const std::int64_t begin_ns = now_ns();
      std::ranges::copy(from, to.begin());
      fastest_ns = std::min(fastest_ns, now_ns() - begin_ns);
    }
    return static_cast<double>(fastest_ns) / static_cast<double>(kMeasuredCopyBytes);
  }();
  return static_cast<std::int64_t>(bytes * ns_of_byte);
}

Error bad_name(const char* field, std::uint64_t value, const std::string& rule, std::uint32_t lane) {
  return {ErrorCode::PeerLost, fmt::format("name of a place: {} is {}, {} (lane {})", field, value, rule, lane)};
}

}  // namespace

Result<PlaceWaiting> PlaceWaiting::read() {
  const auto wanted_ms = setting_integer(Setting::LandingWaitMs);
  if (!wanted_ms) return wanted_ms.error();
  return *wanted_ms < 0 ? PlaceWaiting{} : PlaceWaiting{*wanted_ms, *wanted_ms * kNsPerMs};
}

void write_name(const PlaceName& place, std::byte* name) {
  store_little(name, place.sequence, 4);
  store_little(name + 4, place.bytes, 4);
  store_little(name + kNameRailsAt, place.by_rail.size(), 8);
  for (std::size_t rail = 0; rail < place.by_rail.size(); ++rail) {
    store_little(name + name_bytes(rail), place.by_rail[rail].address, 8);
    store_little(name + name_bytes(rail) + 8, place.by_rail[rail].key, 8);
  }
  store_little(name + kNameChecksumAt, checksum_of(name, place.by_rail.size()), 8);
}

Status PutLandings::on_want(const WantSlots& word) {
  RailMemories& known = lanes_[word.lane]->peer.places;
  if (!word.large) return {};
  if (word.places.size() < queues_.count_rails()) {
    return Error{ErrorCode::Mismatch, fmt::format("word: lane {} takes names by {} rails, and {} are used", word.lane,
                                                  word.places.size(), queues_.count_rails())};
  }
  if (!known.empty() && known != word.places) {
    return Error{ErrorCode::Mismatch, fmt::format("word: lane {} takes names elsewhere already", word.lane)};
  }
  known = word.places;
  return prepare(*lanes_[word.lane]);
}

// Looks at messages that were taken meanwhile, too: the peer has not heard yet whether there are places.
void PutLandings::name_places() {
  for (WireLane* wire : wires_.used()) {
    RecvFifo& fifo = wire->recv;
    PutLane& lane = *lanes_[fifo.lane];
    if (lane.named == fifo.posted && fifo.posted == fifo.next) continue;
    // Lanes that post no places take messages all the same. Old places must not look new when sequences begin again.
    if (fifo.posted - fifo.next > fifo.landings) fifo.posted = lane.named = fifo.next;
    if (fifo.posted - lane.named > fifo.landings) lane.named = fifo.next;
    while (lane.named != fifo.posted && name_place(lane, lane.named)) ++lane.named;
  }
}

// Returns false where the place is to be named later.
bool PutLandings::name_place(PutLane& lane, std::uint32_t sequence) {
  const Landing& place = lane.landings[sequence & (shape_.slot_count - 1)];
  if (place.sequence != sequence || place.bytes < kLeastLandedBytes) return true;
  if (lane.peer.places.empty()) return false;
  std::optional<RailMemories> memory;
  if (place.target != nullptr) memory = port_.find_remote(place.target, place.bytes);
  // The peer need not know the place of a message that is here, but whether there are places.
  const bool here = before(sequence, lane.wire.received.end());
  const bool is_known = memory.has_value() != lane.declined;
  if ((here || !memory) && is_known) return true;
  const std::uint16_t number = lane.wire.recv.lane;
  // The memory of a name is free once its last put has ended.
  if (queues_.in_turn(number).room() == 0 || naming(number, sequence) != 0) return false;
  lane.declined = !memory;
  put_name(lane, sequence, place.bytes, memory ? &*memory : nullptr);
  return true;
}

// Puts the name of a place, or tells that there is none.
void PutLandings::put_name(PutLane& lane, std::uint32_t sequence, std::uint32_t bytes, const RailMemories* place) {
  const std::uint16_t number = lane.wire.recv.lane;
  const std::size_t at = (sequence & (shape_.slot_count - 1)) * kNameBytes;
  std::byte* const name = lane.names.data() + shape_.slot_count * kNameBytes + at;
  PutQueue& queue = queues_.in_turn(number);
  const RemoteMemory& names = lane.peer.places[queue.rail()];
  Put put;
  put.to = names.address + at;
  put.key = names.key;
  put.tells = pack({number + kMostLanes, place == nullptr ? kNoPlacePart : 0, sequence, port_.limits().told_bits});
  if (place != nullptr) {
    write_name({sequence, bytes, *place}, name);
    put.from = name;
    put.bytes = static_cast<std::uint32_t>(name_bytes(place->size()));
    if (put.bytes > port_.limits().inline_bytes) put.registration = lane.names.registered().by_rail[queue.rail()];
    ++port_.counts().places;
  }
  naming(number, sequence) = 1;
  put.optional = true;
  queue.add(put, {PutOwner::Kind::Place, number, sequence}, false);
}

const std::byte* PutLandings::place_of(const PutLane& lane, std::uint32_t sequence, std::uint32_t bytes) const {
  const RecvFifo& fifo = lane.wire.recv;
  const Landing& place = lane.landings[sequence & (shape_.slot_count - 1)];
  const bool posted = fifo.posted - sequence - 1 < fifo.landings && place.sequence == sequence;
  return posted && place.bytes == bytes ? place.target : nullptr;
}

Status PutLandings::prepare(PutLane& lane) const {
  WREATH_TRY(lane.names.allocate(2 * shape_.slot_count * kNameBytes));
  return lane.names.make_registered(true);
}

// A name that comes when its message was put already is not taken: the next one may lie there.
Status PutLandings::on_told(const Told& told) {
  PutLane& lane = *lanes_[told.lane];
  if (!lane.names.is_registered()) {
    return Error{ErrorCode::PeerLost, fmt::format("told word: lane is {}, whose places cannot be named", told.lane)};
  }
  if (told.part > kNoPlacePart) return bad_name("part", told.part, "must be 0 or 1", told.lane);
  const std::uint32_t next = lane.wire.sent.end();
  const std::uint32_t ahead = told.since(next);
  const bool late = ahead > told.sequence_mask() / 2;
  if (!late && ahead >= shape_.slot_count) {
    if (told.part == kNoPlacePart || is_late(lane, told)) return {};
    return bad_name("sequence", told.sequence,
                    fmt::format("must be one of {} from {} on", shape_.slot_count, next & told.sequence_mask()),
                    told.lane);
  }
  const std::uint32_t sequence = next + ahead - (late ? told.sequence_mask() + 1 : 0);
  if (told.part == kNoPlacePart) {
    if (!lane.refused || before(lane.refused_from, sequence)) lane.refused_from = sequence;
    lane.refused = true;
    return {};
  }
  const auto taken = late ? Result<bool>(true) : take_name(lane, sequence);
  if (!taken) return taken.error();
  if (*taken && lane.refused && !before(sequence, lane.refused_from)) lift_refusal(lane, next, sequence);
  return {};
}

// The peer has places again, from message `sequence` on. Those before it that are not sent have none.
void PutLandings::lift_refusal(PutLane& lane, std::uint32_t next, std::uint32_t sequence) const {
  lane.refused = false;
  for (std::uint32_t each = before(lane.refused_from, next) ? next : lane.refused_from; before(each, sequence);
       ++each) {
    NamedPlace& place = lane.places[each & (shape_.slot_count - 1)];
    if (place.sequence != each || place.bytes == 0) place = {.sequence = each, .refused = true};
  }
}

// Returns whether a name that was told belongs to a message that was put already, though its few bits say otherwise.
bool PutLandings::is_late(const PutLane& lane, const Told& told) const {
  const std::byte* const name = lane.names.data() + (told.sequence & (shape_.slot_count - 1)) * kNameBytes;
  const auto sequence = load_little<std::uint32_t>(name);
  return (sequence & told.sequence_mask()) == told.sequence && before(sequence, lane.wire.sent.end());
}

// Returns whether the name was taken. One that another put writes at this moment is of no use, and is not.
Result<bool> PutLandings::take_name(PutLane& lane, std::uint32_t sequence) {
  const std::uint16_t number = lane.wire.send.lane;
  std::array<std::byte, kNameBytes> name;
  std::copy_n(lane.names.data() + (sequence & (shape_.slot_count - 1)) * kNameBytes, kNameBytes, name.begin());
  NamedPlace place;
  place.sequence = load_little<std::uint32_t>(name.data());
  place.bytes = load_little<std::uint32_t>(name.data() + 4);
  const auto rails = load_little<std::uint64_t>(name.data() + kNameRailsAt);
  if (rails < queues_.count_rails() || rails > kMostRails) {
    return bad_name("rails", rails, fmt::format("must be {} to {}", queues_.count_rails(), kMostRails), number);
  }
  const bool whole = load_little<std::uint64_t>(name.data() + kNameChecksumAt) == checksum_of(name.data(), rails);
  if (!whole || before(place.sequence, lane.wire.sent.end())) return false;
  if (place.sequence != sequence) {
    return bad_name("sequence", place.sequence, fmt::format("must be {}", sequence), number);
  }
  if (place.bytes > shape_.slot_bytes) {
    return bad_name("bytes", place.bytes, fmt::format("must be at most {}", shape_.slot_bytes), number);
  }
  for (std::size_t rail = 0; rail < rails; ++rail) {
    place.by_rail[rail] = {load_little<std::uint64_t>(name.data() + name_bytes(rail)),
                           load_little<std::uint64_t>(name.data() + name_bytes(rail) + 8)};
  }
  lane.places[sequence & (shape_.slot_count - 1)] = place;
  return true;
}

const NamedPlace* PutLandings::find(const PutLane& lane, std::uint32_t sequence, std::uint32_t bytes) const {
  if (bytes < kLeastLandedBytes) return nullptr;
  const NamedPlace& place = lane.places[sequence & (shape_.slot_count - 1)];
  return place.sequence == sequence && place.bytes == bytes ? &place : nullptr;
}

// Returns whether a message that may land, and has no place, is not to wait for one.
bool PutLandings::goes_on(PutLane& lane, const SlotHeader& slot) {
  const NamedPlace& place = lane.places[slot.sequence & (shape_.slot_count - 1)];
  if (place.refused && place.sequence == slot.sequence) return true;
  if (lane.refused && !before(slot.sequence, lane.refused_from)) return true;
  if (lane.awaited_since_ns != 0) return false;
  if (lane.skips > 0) {
    --lane.skips;
    return true;
  }
  // Memory that is not registered is copied here anyway.
  const auto memory = port_.find(address_of(slot), slot.bytes);
  return memory && !*memory;
}

// Waits must not cost more than the copies that they save, so those that do become rare.
void PutLandings::charge(PutLane& lane, std::int64_t waited_ns, std::uint32_t saved_bytes) const {
  if (waited_ns <= waiting_.spare_ns + copy_ns(saved_bytes)) {
    lane.skips_next = std::max(lane.skips_next / 2, 1U);
    return;
  }
  lane.skips = lane.skips_next;
  lane.skips_next = std::min(2 * lane.skips_next, kMostSkips);
}

// A receiver that enters its call later would copy what lies in its slots by then, which takes longer than this wait.
// One that sends first, to a peer that does the same, must not wait for ever, and not each time.
bool PutLandings::waits(PutLane& lane, const SlotHeader& slot) {
  const bool may_land = (slot.flags & kSlotLands) != 0 && slot.bytes >= kLeastLandedBytes && shape_.slot_count > 1;
  const bool has_place = may_land && find(lane, slot.sequence, slot.bytes) != nullptr;
  if (has_place && lane.awaited_since_ns != 0) charge(lane, now_ns() - lane.awaited_since_ns, slot.bytes);
  if (!may_land || has_place || goes_on(lane, slot)) {
    lane.awaited_since_ns = 0;
    return false;
  }
  const std::int64_t now = now_ns();
  if (lane.awaited_since_ns == 0) lane.awaited_since_ns = now;
  lane.awaited_ns = std::max(waiting_.most_ms * kNsPerMs, copy_ns(slot.bytes));
  if (now - lane.awaited_since_ns < lane.awaited_ns) return true;
  charge(lane, now - lane.awaited_since_ns, 0);
  lane.awaited_since_ns = 0;
  return false;
}

bool PutLandings::any_waits() const {
  return std::ranges::any_of(wires_.used(), [&](const WireLane* wire) {
    const PutLane& lane = *lanes_[wire->send.lane];
    return lane.awaited_since_ns != 0 && now_ns() - lane.awaited_since_ns < lane.awaited_ns;
  });
}

void PutLandings::begin_again() {
  for (const auto& lane : lanes_) {
    std::ranges::fill(lane->naming, std::uint8_t{0});
    lane->named = lane->wire.recv.next;
    lane->declined = false;
    lane->awaited_since_ns = 0;
  }
}

}  // namespace wreath
