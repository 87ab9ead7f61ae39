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
  if (ranks == 2 && links_->wired().size() == 1) {
    Link& link = *links_->link(1 - engine_.rank());
    over_wire_ = true;
    pair_ = SmallPair(engine_.rank(), link.send_fifo(0), link.recv_fifo(0), engine_.shape().epoch);
  }
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
  if (over_wire_) {
    WREATH_TRY(links_->link(pair_.peer())->prepare(0));
    WREATH_TRY(links_->announce(engine_.members(), pair_.peer()));
  } else if (exchange_.uses_ring(part)) {
    WREATH_TRY(links_->segment().make_ring());
  }
  start(part, call.input, call.output, operation().signature);
  return Started::Now;
}

RunFault SmallRun::fault() const { return {engine_.other_call(*waiting_for())}; }

std::vector<Question> SmallRun::questions() const {
  return questions_of_call(operation(), engine_.rank(), engine_.ranks());
}

}  // namespace wreath
