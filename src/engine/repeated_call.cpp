// The remembered calls keep what repeated calls need.
#include "src/engine/repeated_call.hpp"

#include <algorithm>

#include "wreath/types.hpp"

namespace wreath {

void RepeatedCall::remember(const Call& call, Place place, const Choice& choice, const CallRecord& record) {
  const std::uint64_t block_bytes = call.count * size_of(call.dtype);
  const auto is_one = [&](Buffer buffer) {
    return !moves_blocks(call.collective) || holds_one_block(call.collective, buffer);
  };
  const auto bytes_of = [&](Buffer buffer) {
    return block_bytes * (is_one(buffer) ? 1U : static_cast<std::uint64_t>(place.ranks));
  };
  const auto own_offset = [&](Buffer buffer) {
    return is_one(buffer) ? 0 : block_bytes * static_cast<std::uint64_t>(place.me);
  };
  words_ = words_of(call, call.count);
  reads_ = uses_input(call.collective, call.root, place.me);
  writes_ = uses_output(call.collective, call.root, place.me);
  has_in_place_ = call.collective != Collective::AllToAll;
  in_place_distance_ = own_offset(Buffer::Input) - own_offset(Buffer::Output);
  const bool both = reads_ && writes_;
  input_bytes_ = both ? bytes_of(Buffer::Input) : 0;
  output_bytes_ = both ? bytes_of(Buffer::Output) : 0;
  part_ = SmallPart(call, place.me, place.ranks);
  choice_ = choice;
  record_ = record;
}

// The first way has the call that was remembered last. A full set forgets the call that was remembered first. Of two
// calls with one hash, which are one in 2^64, it remembers the last.
void RepeatedCalls::remember(const Call& call, Place place, const Choice& choice, const CallRecord& record) {
  const std::uint64_t hash = RepeatedCall::compared(words_of(call, call.count)).hash;
  Set& set = sets_[set_of(hash)];
  auto way = static_cast<std::size_t>(std::ranges::find(set.hashes, hash) - set.hashes.begin());
  if (way == kWays) {
    std::rotate(set.hashes.begin(), set.hashes.end() - 1, set.hashes.end());
    std::rotate(set.calls.begin(), set.calls.end() - 1, set.calls.end());
    way = 0;
  }
  set.hashes[way] = hash;
  if (set.calls[way] == nullptr) set.calls[way] = std::make_unique<RepeatedCall>();
  set.calls[way]->remember(call, place, choice, record);
}

}  // namespace wreath
