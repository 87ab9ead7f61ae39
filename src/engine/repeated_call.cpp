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
  words_ = words_of(call, call.count);
  reads_ = uses_input(call.collective, call.root, place.me);
  writes_ = uses_output(call.collective, call.root, place.me);
  both_ = reads_ && writes_;
  same_in_place_ = !moves_blocks(call.collective);
  input_bytes_ = bytes_of(Buffer::Input);
  output_bytes_ = bytes_of(Buffer::Output);
  SmallCall small{call.collective, call.root, nullptr, nullptr, call.count, call.count * size_of(call.dtype), {}, 0};
  if (reduces(call.collective)) small.arithmetic = arithmetic(call.dtype, call.reduction, place.ranks);
  part_ = SmallPart(small, place.me, place.ranks);
  choice_ = choice;
  record_ = record;
}

RepeatedCalls::Set& RepeatedCalls::set_of(const Call& call) noexcept {
  const CallWords words = RepeatedCall::compared(words_of(call, call.count));
  return sets_[mix(0, words.kind, words.elements) >> (64 - kSetBits)];
}

const RepeatedCall* RepeatedCalls::find_in_set(const Call& call) noexcept {
  for (const auto& way : set_of(call)) {
    if (way != nullptr && way->is(call)) return last_ = way.get();
  }
  return nullptr;
}

// The first way has the call that was remembered last. A full set forgets the call that was remembered first.
void RepeatedCalls::remember(const Call& call, Place place, const Choice& choice, const CallRecord& record) {
  Set& set = set_of(call);
  auto way =
      std::ranges::find_if(set, [&](const auto& each) { return each != nullptr && each->has_arguments_of(call); });
  if (way == set.end()) {
    std::rotate(set.begin(), set.end() - 1, set.end());
    way = set.begin();
  }
  if (*way == nullptr) *way = std::make_unique<RepeatedCall>();
  (*way)->remember(call, place, choice, record);
  last_ = way->get();
}

}  // namespace wreath
