// An operation becomes a small call here.
#include "src/engine/small_run.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <vector>

#include "src/engine/engine.hpp"

namespace wreath {

void SmallRun::link() {
  const int ranks = engine_.ranks();
  if (!engine_.tuning().all_mapped() || ranks == 1) return;
  const Links& links = engine_.links();
  std::vector<const std::byte*> areas(static_cast<std::size_t>(ranks));
  std::byte* own = links.segment().small_area();
  for (Rank peer = 0; peer < ranks; ++peer) {
    areas[static_cast<std::size_t>(peer)] = peer == engine_.rank() ? own : links.mapped(peer)->peer().small_area;
  }
  exchange_ = SmallExchange(engine_.rank(), std::move(areas), own, engine_.shape().first_sequence);
}

Result<Started> SmallRun::start() {
  const Call& call = operation_->call;
  SmallCall small{
      call.collective,      call.root, call.input, call.output, call.count, call.count * size_of(call.dtype), {},
      operation_->signature};
  if (reduces(call.collective)) small.arithmetic = arithmetic(call.dtype, call.reduction, engine_.ranks());
  exchange_.start(small);
  return Started::Now;
}

RunFault SmallRun::fault() const {
  const Rank peer = exchange_.waiting_for();
  return {engine_.other_call(peer)};
}

std::vector<Question> SmallRun::questions() const {
  return questions_of_call(*operation_, engine_.rank(), engine_.ranks());
}

Run* SmallRuns::run_for(Operation& operation, RunRows /*below*/) {
  if (!operation.choice.small) return nullptr;
  run_.set(operation);
  return &run_;
}

}  // namespace wreath
