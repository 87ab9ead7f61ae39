// Implements collectives, sends and receives: each becomes a Call, which runs at once or gives a work.
#include "bindings/c/handles.hpp"
#include "bindings/c/status.hpp"

using namespace wreath;
using namespace wreath::c_api;

namespace {

template <typename Enumeration>
constexpr bool same(int code, Enumeration value) {
  return code == static_cast<int>(value);
}

static_assert(same(WREATH_DTYPE_COUNT, kDataTypeCount));
static_assert(same(WREATH_SUM, ReduceOp::Sum) && same(WREATH_PROD, ReduceOp::Prod));
static_assert(same(WREATH_MIN, ReduceOp::Min) && same(WREATH_MAX, ReduceOp::Max));
static_assert(same(WREATH_AVG, ReduceOp::Avg) && same(WREATH_PREMULTIPLIED_SUM, ReduceOp::PremultipliedSum));
static_assert(same(WREATH_ALL_REDUCE, Collective::AllReduce) && same(WREATH_ALL_GATHER, Collective::AllGather));
static_assert(same(WREATH_REDUCE_SCATTER, Collective::ReduceScatter) && same(WREATH_REDUCE, Collective::Reduce));
static_assert(same(WREATH_BROADCAST, Collective::Broadcast) && same(WREATH_ALL_TO_ALL, Collective::AllToAll));
static_assert(same(WREATH_GATHER, Collective::Gather) && same(WREATH_SCATTER, Collective::Scatter));
static_assert(same(WREATH_BARRIER, Collective::Barrier));

// Returns the enumerator that `code` stands for. A code that is none stays none, so that the call refuses it on all
// ranks.
template <typename Enumeration>
Enumeration enumerator(int code) {
  constexpr int kNone = 255;
  return static_cast<Enumeration>(code >= 0 && code < kNone ? code : kNone);
}

Blocks blocks_of(const wreath_blocks& blocks, int ranks) {
  if (blocks.counts == nullptr) return {};
  const auto entries = static_cast<std::size_t>(ranks);
  Blocks own{{blocks.counts, entries}};
  if (blocks.displacements != nullptr) own.displacements = {blocks.displacements, entries};
  return own;
}

Call call_of(const wreath_call& call, int ranks) {
  Call own;
  own.collective = enumerator<Collective>(call.collective);
  own.dtype = enumerator<DataType>(call.dtype);
  own.reduction.op = enumerator<ReduceOp>(call.op);
  own.reduction.factor = call.factor;
  own.reduction.integer_factor = call.integer_factor;
  own.root = call.root;
  own.input = static_cast<const std::byte*>(call.input);
  own.output = static_cast<std::byte*>(call.output);
  own.count = call.count;
  own.input_blocks = blocks_of(call.input_blocks, ranks);
  own.output_blocks = blocks_of(call.output_blocks, ranks);
  return own;
}

Status run(wreath_communicator* communicator, const wreath_call& call, wreath_work** work) {
  WREATH_TRY(given(communicator, "communicator"));
  Communicator& on = communicator->communicator;
  const Call own = call_of(call, on.ranks());
  return work == nullptr ? on.run(own) : hand_over(on.start(own), work);
}

int guarded_run(wreath_communicator* communicator, const wreath_call& call, wreath_work** work) noexcept {
  return guarded([&] { return run(communicator, call, work); });
}

// Runs a v-form: `blocks` is on the side that holds all ranks' blocks.
int guarded_run_v(wreath_communicator* communicator, wreath_call call, const wreath_blocks* blocks,
                  wreath_blocks wreath_call::*side, wreath_work** work) noexcept {
  return guarded([&]() -> Status {
    WREATH_TRY(given(blocks, "blocks"));
    WREATH_TRY(given(blocks->counts, "counts"));
    call.*side = *blocks;
    return run(communicator, call, work);
  });
}

wreath_call call_with(int collective, const void* input, void* output, size_t count, int dtype) {
  wreath_call call{};
  call.collective = collective;
  call.input = input;
  call.output = output;
  call.count = count;
  call.dtype = dtype;
  return call;
}

wreath_call reducing(wreath_call call, int op, int root = 0) {
  call.op = op;
  call.root = root;
  call.factor = 1;
  call.integer_factor = 1;
  return call;
}

wreath_call rooted(wreath_call call, int root) {
  call.root = root;
  return call;
}

// Makes a message: `now` begins and ends it, `later` gives a work.
template <typename Now, typename Later>
int message(wreath_communicator* communicator, int dtype, wreath_work** work, Now now, Later later) noexcept {
  return guarded([&]() -> Status {
    WREATH_TRY(given(communicator, "communicator"));
    const auto own = enumerator<DataType>(dtype);
    Communicator& on = communicator->communicator;
    return work == nullptr ? now(on, own) : hand_over(later(on, own), work);
  });
}

}  // namespace

extern "C" {

size_t wreath_dtype_size(int dtype) {
  const bool known = dtype >= 0 && static_cast<std::size_t>(dtype) < all_dtypes().size();
  return known ? size_of(static_cast<DataType>(dtype)) : 0;
}

int wreath_run(wreath_communicator* communicator, const wreath_call* call, wreath_work** work) {
  return guarded([&]() -> Status {
    WREATH_TRY(given(call, "call"));
    return run(communicator, *call, work);
  });
}

int wreath_all_reduce(wreath_communicator* communicator, const void* input, void* output, size_t count, int dtype,
                      int op, wreath_work** work) {
  return guarded_run(communicator, reducing(call_with(WREATH_ALL_REDUCE, input, output, count, dtype), op), work);
}

int wreath_reduce_scatter(wreath_communicator* communicator, const void* input, void* output, size_t count, int dtype,
                          int op, wreath_work** work) {
  return guarded_run(communicator, reducing(call_with(WREATH_REDUCE_SCATTER, input, output, count, dtype), op), work);
}

int wreath_reduce_scatter_v(wreath_communicator* communicator, const void* input, const wreath_blocks* blocks,
                            void* output, int dtype, int op, wreath_work** work) {
  return guarded_run_v(communicator, reducing(call_with(WREATH_REDUCE_SCATTER, input, output, 0, dtype), op), blocks,
                       &wreath_call::input_blocks, work);
}

int wreath_all_gather(wreath_communicator* communicator, const void* input, void* output, size_t count, int dtype,
                      wreath_work** work) {
  return guarded_run(communicator, call_with(WREATH_ALL_GATHER, input, output, count, dtype), work);
}

int wreath_all_gather_v(wreath_communicator* communicator, const void* input, void* output, const wreath_blocks* blocks,
                        int dtype, wreath_work** work) {
  return guarded_run_v(communicator, call_with(WREATH_ALL_GATHER, input, output, 0, dtype), blocks,
                       &wreath_call::output_blocks, work);
}

int wreath_broadcast(wreath_communicator* communicator, const void* input, void* output, size_t count, int dtype,
                     int root, wreath_work** work) {
  return guarded_run(communicator, rooted(call_with(WREATH_BROADCAST, input, output, count, dtype), root), work);
}

int wreath_reduce(wreath_communicator* communicator, const void* input, void* output, size_t count, int dtype, int op,
                  int root, wreath_work** work) {
  return guarded_run(communicator, reducing(call_with(WREATH_REDUCE, input, output, count, dtype), op, root), work);
}

int wreath_all_to_all(wreath_communicator* communicator, const void* input, void* output, size_t count, int dtype,
                      wreath_work** work) {
  return guarded_run(communicator, call_with(WREATH_ALL_TO_ALL, input, output, count, dtype), work);
}

int wreath_all_to_all_v(wreath_communicator* communicator, const void* input, const wreath_blocks* sent, void* output,
                        const wreath_blocks* received, int dtype, wreath_work** work) {
  return guarded([&]() -> Status {
    WREATH_TRY(given(sent, "sent"));
    WREATH_TRY(given(sent->counts, "sent.counts"));
    WREATH_TRY(given(received, "received"));
    WREATH_TRY(given(received->counts, "received.counts"));
    wreath_call call = call_with(WREATH_ALL_TO_ALL, input, output, 0, dtype);
    call.input_blocks = *sent;
    call.output_blocks = *received;
    return run(communicator, call, work);
  });
}

int wreath_gather(wreath_communicator* communicator, const void* input, void* output, size_t count, int dtype, int root,
                  wreath_work** work) {
  return guarded_run(communicator, rooted(call_with(WREATH_GATHER, input, output, count, dtype), root), work);
}

int wreath_gather_v(wreath_communicator* communicator, const void* input, void* output, const wreath_blocks* blocks,
                    int dtype, int root, wreath_work** work) {
  return guarded_run_v(communicator, rooted(call_with(WREATH_GATHER, input, output, 0, dtype), root), blocks,
                       &wreath_call::output_blocks, work);
}

int wreath_scatter(wreath_communicator* communicator, const void* input, void* output, size_t count, int dtype,
                   int root, wreath_work** work) {
  return guarded_run(communicator, rooted(call_with(WREATH_SCATTER, input, output, count, dtype), root), work);
}

int wreath_scatter_v(wreath_communicator* communicator, const void* input, const wreath_blocks* blocks, void* output,
                     int dtype, int root, wreath_work** work) {
  return guarded_run_v(communicator, rooted(call_with(WREATH_SCATTER, input, output, 0, dtype), root), blocks,
                       &wreath_call::input_blocks, work);
}

int wreath_barrier(wreath_communicator* communicator, wreath_work** work) {
  return guarded_run(communicator, call_with(WREATH_BARRIER, nullptr, nullptr, 0, WREATH_INT8), work);
}

int wreath_send(wreath_communicator* communicator, const void* input, size_t count, int dtype, int to,
                wreath_work** work) {
  return message(
      communicator, dtype, work, [&](Communicator& on, DataType own) { return on.send(input, count, own, to); },
      [&](Communicator& on, DataType own) { return on.send_async(input, count, own, to); });
}

int wreath_recv(wreath_communicator* communicator, void* output, size_t count, int dtype, int from,
                wreath_work** work) {
  return message(
      communicator, dtype, work, [&](Communicator& on, DataType own) { return on.recv(output, count, own, from); },
      [&](Communicator& on, DataType own) { return on.recv_async(output, count, own, from); });
}
}
