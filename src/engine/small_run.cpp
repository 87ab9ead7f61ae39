// An operation becomes a small call here.
#include "src/engine/small_run.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <vector>

#include "src/engine/engine.hpp"

namespace wreath {

void SmallRun::link() {
  const int ranks = engine_.ranks();
  links_ = &engine_.links();
  if (!engine_.tuning().all_mapped() || ranks == 1) return;
  std::vector<const std::byte*> areas(static_cast<std::size_t>(ranks));
  std::byte* own = links_->segment().small_area();
  for (Rank peer = 0; peer < ranks; ++peer) {
    areas[static_cast<std::size_t>(peer)] = peer == engine_.rank() ? own : links_->mapped(peer)->peer().small_area();
  }
  SmallShape shape{engine_.tuning().small.rooted_bytes, engine_.shape().first_sequence, {}};
  if (engine_.tuning().ping_pong) {
    for (Rank each = 0; each < ranks; ++each) {
      std::byte* const share =
          each == engine_.rank() ? links_->segment().ping_pong() : links_->mapped(each)->peer().ping_pong();
      shape.ping_pong[static_cast<std::size_t>(each)] = share + kPingPongSlotsBytes;
    }
  }
  exchange_ = SmallExchange(engine_.rank(), std::move(areas), own, shape);
}

Result<Started> SmallRun::start() {
  const Call& call = operation().call;
  const SmallPart part(call, engine_.rank(), engine_.ranks());
  if (exchange_.uses_ring(part)) WREATH_TRY(links_->segment().make_ring());
  exchange_.start(part, call.input, call.output, operation().signature);
  return Started::Now;
}

RunFault SmallRun::fault() const {
  const Rank peer = exchange_.waiting_for();
  return {engine_.other_call(peer)};
}

std::vector<Question> SmallRun::questions() const {
  return questions_of_call(operation(), engine_.rank(), engine_.ranks());
}

}  // namespace wreath
