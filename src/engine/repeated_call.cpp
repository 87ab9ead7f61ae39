// The remembered call keeps what a repeated call needs.
#include "src/engine/repeated_call.hpp"

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

}  // namespace wreath
