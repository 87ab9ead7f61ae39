// Implements the two small-message protocols, and says which messages each collective has.
#include "src/executor/small.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "src/base/memory_order.hpp"
#include "src/base/planted_fault.hpp"
#include "src/schedule/geometry.hpp"

namespace wreath {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kLineData = 56;
constexpr std::uint32_t kLineBuffers = 32;
constexpr std::uint32_t kBlockBuffers = 32;
constexpr std::size_t kLineBufferBytes = 20 * kLine;  // 1 KiB of data, 56 bytes a line
// After so many calls a rank says which call it is past, and looks how far others are.
constexpr std::uint32_t kTellEvery = 8;
// This place has the flag of the last call that this rank is past.
constexpr std::size_t kPastOffset = kLineBuffers * kLineBufferBytes;
constexpr std::size_t kBlocksOffset = kPastOffset + kLine;

constexpr std::size_t kBlockBytes = kLine + kSmallMessageBytes;
static_assert(kBlocksOffset + kBlockBuffers * kBlockBytes <= small_area_bytes(3));
// With a wide ring, short messages have blocks of this size. Longer ones are in a ring one behind the other. They leave
// less than a block unused where they begin again, so that none of kBlockBuffers meets another.
constexpr std::size_t kShortBlockBytes = kLine + kStoreBufferBytes;
constexpr std::size_t kRingOffset = small_area_bytes(3);
static_assert(kPairRingBytes == (kBlockBuffers + 1) * (kLine + kPairMessageBytes));
static_assert(kRingOffset % kLine == 0 && kRingOffset + kPairRingBytes == small_area_bytes(2));

// Says who sends: all ranks to all, the root to all others, or all others to the root.
enum class Direction : std::uint8_t { All, FromRoot, ToRoot };

struct Pattern {
  Direction direction;
  bool combines;  // a result is the sum (...) of all messages
  // A message holds one block for each rank, which takes its own block.
  bool block_for_each;
  bool block_of_each;  // a result holds a block of each rank
};

const Pattern& pattern_of(Collective collective) {
  static constexpr auto kPatterns = [] {
    std::array<Pattern, static_cast<std::size_t>(Collective::Exchange)> patterns{};
    const auto set = [&](Collective of, Pattern pattern) { patterns[static_cast<std::size_t>(of)] = pattern; };
    set(Collective::AllReduce, {Direction::All, true, false, false});
    set(Collective::ReduceScatter, {Direction::All, true, true, false});
    set(Collective::AllGather, {Direction::All, false, false, true});
    set(Collective::Broadcast, {Direction::FromRoot, false, false, false});
    set(Collective::Reduce, {Direction::ToRoot, true, false, false});
    set(Collective::AllToAll, {Direction::All, false, true, true});
    set(Collective::Gather, {Direction::ToRoot, false, false, true});
    set(Collective::Scatter, {Direction::FromRoot, false, true, false});
    set(Collective::Barrier, {Direction::All, false, false, false});
    return patterns;
  }();
  return kPatterns[static_cast<std::size_t>(collective)];
}

std::size_t line_offset(std::uint32_t number) { return number % kLineBuffers * kLineBufferBytes; }

// Returns a flag that is never 0, because a zeroed area holds no message.
std::uint64_t flag_of(std::uint32_t sequence, std::uint32_t signature) {
  return (std::uint64_t{signature == 0 ? 1U : signature} << 32) | sequence;
}

std::uint64_t load_flag(const std::byte* place) { return load_acquire(*reinterpret_cast<const std::uint64_t*>(place)); }

void store_flag(std::byte* place, std::uint64_t flag) { store_release(*reinterpret_cast<std::uint64_t*>(place), flag); }

std::uint32_t number_in(std::uint64_t flag) { return static_cast<std::uint32_t>(flag); }

// Returns Advanced where the message is there, and Failed where the message of another call is there.
Advance look(const std::byte* place, std::uint64_t expected) {
  const std::uint64_t flag = load_flag(place);
  if (flag == expected) return Advance::Advanced;
  const bool other_call = flag != 0 && static_cast<std::uint32_t>(flag) == static_cast<std::uint32_t>(expected);
  return other_call ? Advance::Failed : Advance::Blocked;
}

// Copies a line. Most lines are whole, so that the compiler knows the size of the copy.
void copy_line(std::byte* target, const std::byte* source, std::size_t bytes) {
  if (bytes == kLineData) {
    std::memcpy(target, source, kLineData);
  } else {
    std::memcpy(target, source, bytes);
  }
}

// Returns how many calls `other` lies before `number`; 0 if it is ahead. Both wrap.
std::uint32_t behind(std::uint32_t number, std::uint32_t other) {
  return static_cast<std::int32_t>(number - other) > 0 ? number - other : 0;
}

}  // namespace

SmallPart::SmallPart(const Call& call, int rank, int ranks)
    : elements(call.count), bytes(call.count * size_of(call.dtype)) {
  if (reduces(call.collective)) arithmetic = wreath::arithmetic(call.dtype, call.reduction, ranks);
  const Pattern& pattern = pattern_of(call.collective);
  const auto offset_of = [&](int block) {
    return pattern.block_for_each ? static_cast<std::size_t>(block) * bytes : 0;
  };
  own_offset = offset_of(rank);
  // A message for one reader holds that reader's block alone.
  const bool for_one = ranks == 2;
  message_bytes = pattern.block_for_each && !for_one ? bytes * static_cast<std::size_t>(ranks) : bytes;
  sent_offset = for_one ? offset_of(1 - rank) : 0;
  taken_offset = for_one ? 0 : own_offset;
  result_stride = pattern.block_of_each ? bytes : 0;
  first_line = taken_offset / kLineData;
  lines = bytes == 0 ? 1 : divide_up(taken_offset + bytes, kLineData) - first_line;
  combines = pattern.combines;
  combines_in_place = combines && lines == 1;
  const bool root = rank == call.root;
  switch (pattern.direction) {
    case Direction::All:
      publishes = has_result = from_all = true;
      end_source = ranks;
      break;
    case Direction::FromRoot:
      publishes = has_result = root;
      first_source = call.root;
      end_source = root ? call.root : call.root + 1;
      break;
    case Direction::ToRoot:
      publishes = !root;
      has_result = root;
      end_source = root ? ranks : 0;
      break;
  }
}

SmallExchange::SmallExchange(int rank, std::vector<const std::byte*> areas, std::byte* own, const SmallShape& shape)
    : rank_(rank),
      areas_(std::move(areas)),
      own_(own),
      has_ring_(shape.most_bytes > kSmallMessageBytes),
      ping_pong_(shape.ping_pong),
      sources_(areas_.size()),
      gathered_(areas_.size() * kLineMessageBytes),
      first_sequence_(shape.first_sequence) {}

std::uint32_t SmallExchange::buffers() const { return lines() ? kLineBuffers : kBlockBuffers; }

// Both ranks count such calls by the size of their messages, which is the same on both.
void SmallExchange::pass_ping_pong() {
  const bool large = part_.message_bytes > kSmallMessageBytes;
  const PingPongPlaces& places = large ? kPingPongLargeBlocks : kPingPongBlocks;
  const std::uint32_t call = ping_pong_calls_[large ? 1 : 0]++;
  const std::size_t offset = places.offset + call % places.count * places.bytes;
  const std::size_t own = (static_cast<std::size_t>(rank_) + call / places.count) % 2;
  own_place_ = ping_pong_[own] + offset;
  ping_pong_message_ = ping_pong_[1 - own] + offset;
}

void SmallExchange::pass_lines() {
  place_ = line_offset(number_);
  next_place_ = line_offset(number_ + 1);
}

// Every rank passes the blocks of all calls, of its own and of others, and so knows where each one is.
void SmallExchange::pass_block() {
  if (!uses_ring(part_)) {
    const std::size_t bytes = has_ring_ ? kShortBlockBytes : kBlockBytes;
    place_ = kBlocksOffset + number_ % kBlockBuffers * bytes;
    next_place_ = kBlocksOffset + (number_ + 1) % kBlockBuffers * bytes;
    return;
  }
  const std::size_t bytes = round_up(kLine + part_.message_bytes, kLine);
  const std::size_t place = ring_place_ + bytes > kPairRingBytes ? 0 : ring_place_;
  ring_place_ = place + bytes;
  place_ = kRingOffset + place;
  next_place_ = kRingOffset + ring_place_;
}

void SmallExchange::start(const SmallPart& part, const std::byte* input, std::byte* output, std::uint32_t signature) {
  part_ = part;
  input_ = input;
  output_ = output;
  ++number_;
  signatures_[number_ % signatures_.size()] = signature;
  flag_ = flag_of(first_sequence_ + number_, signature);
  published_ = !part.publishes;
  peer_ = part.first_source;
  line_ = 0;
  looked_ = false;
  loaded_bytes_ = 0;
  if (plays_ping_pong(part_)) {
    pass_ping_pong();
    return publish();
  }
  ping_pong_message_ = nullptr;
  lines() ? pass_lines() : pass_block();
  own_place_ = own_ + place_;
  if (!published_ && find_free_buffer() == Advance::Advanced) publish();
}

// Returns Advanced where every rank is past the call that used this call's buffer. Returns Blocked otherwise; peer_ is
// the rank that is furthest behind. Returns Failed where rank peer_ has come this far by other calls. A rank that reads
// no messages looks now and then, only to find such a rank.
Advance SmallExchange::find_free_buffer() {
  if (behind(number_, all_past_) <= buffers() && behind(number_, looked_past_) < kTellEvery) return Advance::Advanced;
  std::uint32_t furthest = 0;
  for (int peer = 0; peer < static_cast<int>(areas_.size()); ++peer) {
    if (peer == rank_) continue;
    const std::uint64_t past = load_flag(areas_[static_cast<std::size_t>(peer)] + kPastOffset);
    if (differs(past)) {
      peer_ = peer;
      return Advance::Failed;
    }
    const std::uint32_t calls = behind(number_, number_in(past));
    if (calls <= furthest) continue;
    furthest = calls;
    peer_ = peer;
  }
  looked_past_ = number_;
  // The peers' flags may be older than the knowledge that this rank has from messages.
  if (furthest < behind(number_, all_past_)) all_past_ = number_ - furthest;
  if (behind(number_, all_past_) > buffers() + (planted_fault(4) ? 1U : 0U)) return Advance::Blocked;
  peer_ = part_.first_source;
  return Advance::Advanced;
}

// Returns whether the rank with the flag `past` came there by other calls. Returns false where that rank has not said
// yet how far it is, or is ahead.
bool SmallExchange::differs(std::uint64_t past) const {
  const std::uint32_t number = number_in(past);
  if (past == 0 || number_ - number >= signatures_.size()) return false;
  return past != flag_of(number, signatures_[number % signatures_.size()]);
}

void SmallExchange::publish() {
  if (lines()) {
    publish_lines();
  } else {
    slot_fill_.begin(ping_pong_message_ != nullptr ? nullptr : &past_caches_);
    slot_fill_.fill(copy_kernels(), own_place_ + kLine, input_ + part_.sent_offset, part_.message_bytes);
    slot_fill_.end(copy_kernels());
    store_flag(own_place_, flag_);
  }
  told_ = true;
  published_ = true;
}

void SmallExchange::publish_lines() {
  std::byte* line = own_place_;
  const std::byte* const sent = input_ == nullptr ? nullptr : input_ + part_.sent_offset;  // null without bytes
  std::size_t done = 0;
  do {
    const std::size_t bytes = std::min(kLineData, part_.message_bytes - done);
    copy_line(line, sent + done, bytes);
    store_flag(line + kLineData, flag_);
    done += bytes;
    line += kLine;
  } while (done < part_.message_bytes);
}

Advance SmallExchange::run() {
  if (!published_) {
    const Advance found = find_free_buffer();
    if (found == Advance::Failed) return found;
    if (found == Advance::Blocked) return blocked();
    publish();
  }
  const bool first_look = !looked_;
  looked_ = true;
  if (first_look) take_own();
  for (; peer_ < part_.end_source; ++peer_, line_ = 0) {
    if (peer_ == rank_) continue;
    const Advance taken = lines() ? take_lines(peer_) : take_block(peer_);
    if (taken == Advance::Blocked) return blocked();
    if (taken == Advance::Failed) return taken;
    loaded_bytes_ += part_.bytes;
  }
  if (first_look && !part_.publishes) fetch_next();
  finish();
  return Advance::Done;
}

// Says how far this rank is before it waits. Others may wait for a buffer that this rank is past, while this rank waits
// for them. A rank that waits has announced all but its last few calls. So the rank that is furthest behind always
// finds a free buffer.
Advance SmallExchange::blocked() {
  if (behind(number_, heard_past_) > kTellEvery) tell_past(number_ - 1);
  return Advance::Blocked;
}

// Prefetches the root's next line. A root that was here first may be calls ahead: its next line then comes while the
// program makes its next call.
void SmallExchange::fetch_next() const {
  __builtin_prefetch(areas_[static_cast<std::size_t>(part_.first_source)] + next_place_);
}

// Takes the rank's own data while messages are on their way.
void SmallExchange::take_own() {
  sources_[static_cast<std::size_t>(rank_)] = part_.own(input_);
  part_.copy_own(input_, output_, rank_);
}

// Takes a peer's lines.
Advance SmallExchange::take_lines(int peer) {
  const std::byte* const lines = message_of(peer) + part_.first_line * kLine;
  const std::size_t skipped = part_.taken_offset - part_.first_line * kLineData;
  if (part_.combines_in_place) {
    sources_[static_cast<std::size_t>(peer)] = lines + skipped;
    return look(lines + kLineData, flag_);
  }
  std::byte* const target = part_.combines ? gathered_.data() + static_cast<std::size_t>(peer) * kLineMessageBytes
                                           : part_.place_of(output_, peer);
  sources_[static_cast<std::size_t>(peer)] = target;
  for (; line_ < part_.lines; ++line_) {
    const std::byte* line = lines + line_ * kLine;
    if (const Advance found = look(line + kLineData, flag_); found != Advance::Advanced) return found;
    if (part_.bytes == 0) continue;
    const std::size_t before = line_ * kLineData;
    const std::size_t from = line_ == 0 ? skipped : 0;
    const std::size_t to = std::min(kLineData, skipped + part_.bytes - before);
    copy_line(target + (before + from - skipped), line + from, to - from);
  }
  return Advance::Advanced;
}

Advance SmallExchange::take_block(int peer) {
  const std::byte* block = message_of(peer);
  if (const Advance found = look(block, flag_); found != Advance::Advanced) return found;
  const std::byte* data = block + kLine + part_.taken_offset;
  sources_[static_cast<std::size_t>(peer)] = data;
  if (!part_.combines) copy_kernels().plain(part_.place_of(output_, peer), data, part_.bytes);
  return Advance::Advanced;
}

void SmallExchange::finish() {
  part_.combine_all(sources_.data(), static_cast<int>(areas_.size()), output_, rank_);
  // Where all ranks read all messages, all ranks are past the calls before this one. All ranks know this of this rank,
  // too.
  if (part_.from_all) {
    all_past_ = heard_past_ = looked_past_ = number_ - 1;
  } else if (behind(number_, heard_past_) >= kTellEvery) {
    tell_past(number_);
  }
}

void SmallExchange::tell_past(std::uint32_t number) {
  store_flag(own_ + kPastOffset, flag_of(number, signatures_[number % signatures_.size()]));
  heard_past_ = number;
  told_ = true;
}

}  // namespace wreath
