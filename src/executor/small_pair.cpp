// Says which messages a call has, and makes its result of them.
#include "src/executor/small_pair.hpp"

#include <array>

namespace wreath {

void SmallPair::start(const SmallPart& part, const std::byte* input, std::byte* output, std::uint32_t signature) {
  part_ = part;
  input_ = input;
  output_ = output;
  own_is_copied_ = false;
  OutgoingMessage sent;
  if (part.publishes) {
    sent = {to_, input + part.sent_offset, part.message_bytes, signature, epoch_, !part.combines};
  }
  IncomingMessage received;
  if (part.first_source <= peer() && peer() < part.end_source) {
    std::byte* const place = part.combines ? nullptr : part.place_of(output, peer());
    received = {from_, place, part.message_bytes, signature, epoch_};
  }
  messages_.start(sent, received);
}

// The output of a sum may be the memory that the wire sends from. So it is not written before the wire is done with it.
Advance SmallPair::run() {
  const Advance here = messages_.run();
  if (!own_is_copied_) part_.copy_own(input_, output_, rank_);
  own_is_copied_ = true;
  if (here != Advance::Done || !waits()) return here;
  if (part_.combines) {
    if (!messages_.is_sent()) return Advance::Blocked;
    std::array<const std::byte*, 2> sources{};
    sources[static_cast<std::size_t>(rank_)] = part_.own(input_);
    sources[static_cast<std::size_t>(peer())] = messages_.data();
    part_.combine_all(sources.data(), 2, output_, rank_);
  }
  messages_.take();
  return Advance::Done;
}

}  // namespace wreath
