// The remembered calls keep what repeated calls need, and are found by a hash of their arguments.
#include "src/engine/repeated_call.hpp"

#include <algorithm>

#include "src/base/hash.hpp"
#include "wreath/types.hpp"

namespace wreath {

void RepeatedCall::remember(const Call& call, Place place, const Choice& choice, const CallRecord& record) {
  const auto bytes_of = [&](Buffer buffer) {
    const bool one = !moves_blocks(call.collective) || holds_one_block(call.collective, buffer);
    return call.count * size_of(call.dtype) * (one ? 1U : static_cast<std::uint64_t>(place.ranks));
  };
  call_ = call;
  reads_ = uses_input(call.collective, call.root, place.me);
  writes_ = uses_output(call.collective, call.root, place.me);
  both_ = reads_ && writes_;
  same_in_place_ = !moves_blocks(call.collective);
  input_bytes_ = bytes_of(Buffer::Input);
  output_bytes_ = bytes_of(Buffer::Output);
  small_ = {call.collective, call.root, nullptr, nullptr, call.count, call.count * size_of(call.dtype), {}, 0};
  if (reduces(call.collective)) small_.arithmetic = arithmetic(call.dtype, call.reduction, place.ranks);
  choice_ = choice;
  record_ = record;
  known_ = true;
}

std::uint64_t RepeatedCalls::key_of(const Call& call) noexcept {
  const auto dtype = planted_fault(16) ? 0U : static_cast<std::uint64_t>(call.dtype);
  const std::uint64_t kind = static_cast<std::uint64_t>(call.collective) |
                             static_cast<std::uint64_t>(call.reduction.op) << 8 | dtype << 16 |
                             static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.root)) << 32;
  return mix(kind, call.count) * 0x9E3779B97F4A7C15u;
}

const RepeatedCall* RepeatedCalls::find_in_set(const Call& call) noexcept {
  const std::uint64_t key = key_of(call);
  for (const Way& way : set_of(key)) {
    if (way.tag != static_cast<std::uint32_t>(key) || way.call >= calls_.size() || !calls_[way.call].is(call)) continue;
    last_ = way.call;
    return &calls_[last_];
  }
  return nullptr;
}

// The first way has the call that was remembered last. A full set forgets the call that was remembered first.
void RepeatedCalls::remember(const Call& call, Place place, const Choice& choice, const CallRecord& record) {
  const std::uint64_t key = key_of(call);
  Set& set = set_of(key);
  auto way = std::ranges::find_if(
      set, [&](const Way& each) { return each.call < calls_.size() && calls_[each.call].has_arguments_of(call); });
  if (way == set.end()) {
    std::rotate(set.begin(), set.end() - 1, set.end());
    way = set.begin();
  }
  if (way->call >= calls_.size()) {
    way->call = static_cast<std::uint32_t>(calls_.size());
    calls_.emplace_back();
  }
  way->tag = static_cast<std::uint32_t>(key);
  last_ = way->call;
  calls_[last_].remember(call, place, choice, record);
}

}  // namespace wreath
