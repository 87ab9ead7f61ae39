// The collectives' methods make a Call of their arguments, check it, and give it to the engine.
#include <fmt/format.h>

#include "src/communicator/begin_operation.hpp"
#include "src/communicator/impl.hpp"

namespace wreath {
namespace {

// Returns the name of a call. A value that is no collective has one, too, since run() may get any number.
std::string_view text_of(Collective collective, bool varying) {
  return collective <= Collective::Exchange ? name(collective, varying) : "call";
}

struct Buffers {
  const void* input;
  void* output;
  std::size_t count;
  DataType dtype;
};

Call make_call(Collective collective, const Buffers& buffers, Rank root = 0, const Reduction& reduction = {}) {
  // An object that is made empty first would be cleared by a string instruction, which takes longer than all the rest.
  return {.collective = collective,
          .dtype = buffers.dtype,
          .reduction = reduction,
          .root = root,
          .input = static_cast<const std::byte*>(buffers.input),
          .output = static_cast<std::byte*>(buffers.output),
          .count = buffers.count};
}

// Returns the call of a barrier: an all_reduce of one byte, in the engine's own memory.
Call barrier_call() { return normalized(make_call(Collective::Barrier, {nullptr, nullptr, 0, DataType::Uint8})); }

Call with_input(Call call, const Blocks& blocks) {
  call.input_blocks = blocks;
  return call;
}

Call with_output(Call call, const Blocks& blocks) {
  call.output_blocks = blocks;
  return call;
}

Result<Work> start_call(Engine& engine, const Call& call) {
  auto operation = begin_operation(engine.prepare(call));
  if (!operation) return operation.error();
  return Work(std::move(*operation));
}

Status run_call(Engine& engine, const Call& call) {
  const Undriven* const undriven = engine.undriven();
  if (call.stream == nullptr && (undriven == nullptr || !undriven->takes(call))) return engine.run(call);
  WREATH_TRY(check_blocking(engine, call));
  auto work = start_call(engine, call);
  return work ? work->wait() : Status(work.error());
}

}  // namespace

Status Communicator::run(const Call& call, bool varying) {
  if (!impl_) return not_made();
  if (!varying) {
    if (const auto done = impl_->run_again(call)) return *done;
  }
  return impl_->make([&] { return text_of(call.collective, varying); },
                     [&] {
                       return check_call(call, varying, {ranks(), rank()});
                     },
                     [&](Engine& engine) -> Status {
                       if (GroupCalls* group = GroupCalls::open()) {
                         group->keep(engine, call);
                         return {};
                       }
                       return run_call(engine, call);
                     });
}

Result<Work> Communicator::start(const Call& call, bool varying) {
  if (!impl_) return not_made();
  return impl_->make([&] { return text_of(call.collective, varying); },
                     [&] {
                       return check_call(call, varying, {ranks(), rank()});
                     },
                     [&](Engine& engine) -> Result<Work> {
                       if (GroupCalls* group = GroupCalls::open()) {
                         group->keep(engine, call);
                         return group->work();
                       }
                       return start_call(engine, call);
                     });
}

Status Communicator::run(const Call& call) {
  if (impl_ && call.collective < Collective::Barrier && !call.varying()) {
    // The last call is kept as normalized, and so this one is normalized, too.
    if (const auto done = impl_->run_again(call)) return *done;
  }
  return run(normalized(call), call.varying());
}
Result<Work> Communicator::start(const Call& call) { return start(normalized(call), call.varying()); }

Status Communicator::all_reduce(const void* input, void* output, std::size_t count, DataType dtype,
                                const Reduction& reduction) {
  return run(make_call(Collective::AllReduce, {input, output, count, dtype}, 0, reduction), false);
}
Result<Work> Communicator::all_reduce_async(const void* input, void* output, std::size_t count, DataType dtype,
                                            const Reduction& reduction) {
  return start(make_call(Collective::AllReduce, {input, output, count, dtype}, 0, reduction), false);
}

Status Communicator::reduce_scatter(const void* input, void* output, std::size_t count, DataType dtype,
                                    const Reduction& reduction) {
  return run(make_call(Collective::ReduceScatter, {input, output, count, dtype}, 0, reduction), false);
}
Result<Work> Communicator::reduce_scatter_async(const void* input, void* output, std::size_t count, DataType dtype,
                                                const Reduction& reduction) {
  return start(make_call(Collective::ReduceScatter, {input, output, count, dtype}, 0, reduction), false);
}
Status Communicator::reduce_scatter_v(const void* input, const Blocks& blocks, void* output, DataType dtype,
                                      const Reduction& reduction) {
  const Call call = make_call(Collective::ReduceScatter, {input, output, 0, dtype}, 0, reduction);
  return run(with_input(call, blocks), true);
}
Result<Work> Communicator::reduce_scatter_v_async(const void* input, const Blocks& blocks, void* output, DataType dtype,
                                                  const Reduction& reduction) {
  const Call call = make_call(Collective::ReduceScatter, {input, output, 0, dtype}, 0, reduction);
  return start(with_input(call, blocks), true);
}

Status Communicator::all_gather(const void* input, void* output, std::size_t count, DataType dtype) {
  return run(make_call(Collective::AllGather, {input, output, count, dtype}), false);
}
Result<Work> Communicator::all_gather_async(const void* input, void* output, std::size_t count, DataType dtype) {
  return start(make_call(Collective::AllGather, {input, output, count, dtype}), false);
}
Status Communicator::all_gather_v(const void* input, void* output, const Blocks& blocks, DataType dtype) {
  return run(with_output(make_call(Collective::AllGather, {input, output, 0, dtype}), blocks), true);
}
Result<Work> Communicator::all_gather_v_async(const void* input, void* output, const Blocks& blocks, DataType dtype) {
  return start(with_output(make_call(Collective::AllGather, {input, output, 0, dtype}), blocks), true);
}

Status Communicator::broadcast(const void* input, void* output, std::size_t count, DataType dtype, Rank root) {
  return run(make_call(Collective::Broadcast, {input, output, count, dtype}, root), false);
}
Result<Work> Communicator::broadcast_async(const void* input, void* output, std::size_t count, DataType dtype,
                                           Rank root) {
  return start(make_call(Collective::Broadcast, {input, output, count, dtype}, root), false);
}

Status Communicator::reduce(const void* input, void* output, std::size_t count, DataType dtype, Rank root,
                            const Reduction& reduction) {
  return run(make_call(Collective::Reduce, {input, output, count, dtype}, root, reduction), false);
}
Result<Work> Communicator::reduce_async(const void* input, void* output, std::size_t count, DataType dtype, Rank root,
                                        const Reduction& reduction) {
  return start(make_call(Collective::Reduce, {input, output, count, dtype}, root, reduction), false);
}

Status Communicator::all_to_all(const void* input, void* output, std::size_t count, DataType dtype) {
  return run(make_call(Collective::AllToAll, {input, output, count, dtype}), false);
}
Result<Work> Communicator::all_to_all_async(const void* input, void* output, std::size_t count, DataType dtype) {
  return start(make_call(Collective::AllToAll, {input, output, count, dtype}), false);
}
Status Communicator::all_to_all_v(const void* input, const Blocks& sent, void* output, const Blocks& received,
                                  DataType dtype) {
  const Call call = make_call(Collective::AllToAll, {input, output, 0, dtype});
  return run(with_output(with_input(call, sent), received), true);
}
Result<Work> Communicator::all_to_all_v_async(const void* input, const Blocks& sent, void* output,
                                              const Blocks& received, DataType dtype) {
  const Call call = make_call(Collective::AllToAll, {input, output, 0, dtype});
  return start(with_output(with_input(call, sent), received), true);
}

Status Communicator::gather(const void* input, void* output, std::size_t count, DataType dtype, Rank root) {
  return run(make_call(Collective::Gather, {input, output, count, dtype}, root), false);
}
Result<Work> Communicator::gather_async(const void* input, void* output, std::size_t count, DataType dtype, Rank root) {
  return start(make_call(Collective::Gather, {input, output, count, dtype}, root), false);
}
Status Communicator::gather_v(const void* input, void* output, const Blocks& blocks, DataType dtype, Rank root) {
  return run(with_output(make_call(Collective::Gather, {input, output, 0, dtype}, root), blocks), true);
}
Result<Work> Communicator::gather_v_async(const void* input, void* output, const Blocks& blocks, DataType dtype,
                                          Rank root) {
  return start(with_output(make_call(Collective::Gather, {input, output, 0, dtype}, root), blocks), true);
}

Status Communicator::scatter(const void* input, void* output, std::size_t count, DataType dtype, Rank root) {
  return run(make_call(Collective::Scatter, {input, output, count, dtype}, root), false);
}
Result<Work> Communicator::scatter_async(const void* input, void* output, std::size_t count, DataType dtype,
                                         Rank root) {
  return start(make_call(Collective::Scatter, {input, output, count, dtype}, root), false);
}
Status Communicator::scatter_v(const void* input, const Blocks& blocks, void* output, DataType dtype, Rank root) {
  return run(with_input(make_call(Collective::Scatter, {input, output, 0, dtype}, root), blocks), true);
}
Result<Work> Communicator::scatter_v_async(const void* input, const Blocks& blocks, void* output, DataType dtype,
                                           Rank root) {
  return start(with_input(make_call(Collective::Scatter, {input, output, 0, dtype}, root), blocks), true);
}

Status Communicator::barrier() { return run(barrier_call(), false); }
Result<Work> Communicator::barrier_async() { return start(barrier_call(), false); }

Status Communicator::check_sizes(std::string_view call, std::size_t input, std::size_t output) {
  if (input == output) return {};
  if (!impl_) return not_made();
  const Error wrong{ErrorCode::InvalidArgument, fmt::format("input has {} elements, output {}", input, output), -1};
  return impl_->make([&] { return call; }, [&] { return Status(wrong); }, [](Engine&) { return Status(); });
}

}  // namespace wreath
