// A call that needs no peer moves its block, or gets its error, in start().
#include "src/engine/alone_run.hpp"

#include <cstddef>

#include "src/engine/engine.hpp"

namespace wreath {
namespace {

// Moves the rank's one block, or the vector, from Input to Output. It also finishes the sum of this one rank.
void move_alone(const Call& call) {
  std::size_t elements = call.count;
  const std::byte* input = call.input;
  std::byte* output = call.output;
  if (call.varying()) {
    const Blocks& in = call.input_blocks;
    const Blocks& out = call.output_blocks;
    elements = (in.counts.empty() ? out : in).counts.front();
    if (elements == 0) return;
    if (!in.counts.empty()) input += in.displacements.front() * size_of(call.dtype);
    if (!out.counts.empty()) output += out.displacements.front() * size_of(call.dtype);
  }
  const Arithmetic sum = arithmetic(call.dtype, call.reduction, 1);
  if (reduces(call.collective) && !sum.moves(Form::Data, Form::Data)) {
    sum.combine(sum, output, Form::Data, &input, 1, {Form::Data, 0, Form::Data}, elements);
  } else if (input != output) {
    copy_kernels().plain(output, input, elements * size_of(call.dtype));
  }
}

}  // namespace

Result<Started> AloneRun::start() {
  const Call& call = operation().call;
  const bool nothing = !call.varying() && call.count == 0;
  status_ = Status();
  if (!nothing && engine_.ranks() > 1) {
    status_ = engine_.no_algorithm_for(call);
  } else if (!nothing && call.collective != Collective::Barrier) {
    move_alone(call);
  }
  return Started::Now;
}

}  // namespace wreath
