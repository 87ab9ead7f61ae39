// Implements collectives in which every rank has the same vector (broadcast, all_reduce, reduce), and the barrier.
#include <c10/util/Exception.h>

#include <utility>

#include "bindings/torch/backend.hpp"
#include "bindings/torch/calls.hpp"

namespace wreath_torch {

using wreath::Collective;

WreathBackend::WorkPointer WreathBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  at::Tensor& tensor = only("broadcast", tensors);
  check_root("broadcast", options.rootRank);
  const Elements elements = moved(tensor.scalar_type());
  const auto root = static_cast<wreath::Rank>(options.rootRank);
  const bool sends = root == rank_;
  return enter({c10d::OpType::BROADCAST, "wreath:broadcast"}, settings_of(options), tensors, tensors,
               [tensor, elements, root, sends](Turn& turn) {
                 Joined buffer({tensor}, elements, tensor.scalar_type(), sends);
                 wreath::Call call = with(call_of(Collective::Broadcast, buffer, buffer, buffer.count()), elements);
                 call.root = root;
                 turn.run(call);
                 if (!sends) buffer.spread();
               });
}

WreathBackend::WorkPointer WreathBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  at::Tensor& tensor = only("all_reduce", tensors);
  const Arithmetic how = arithmetic_of("all_reduce", tensor.scalar_type(), options.reduceOp);
  return enter({c10d::OpType::ALLREDUCE, "wreath:all_reduce"}, settings_of(options), tensors, tensors,
               [tensor, how](Turn& turn) {
                 Joined buffer({tensor}, how.elements, how.computed_in, true);
                 turn.run(with(call_of(Collective::AllReduce, buffer, buffer, buffer.count()), how));
                 buffer.spread();
               });
}

WreathBackend::WorkPointer WreathBackend::allreduce_coalesced(Tensors& tensors,
                                                              const c10d::AllreduceCoalescedOptions& options) {
  std::vector<Arithmetic> how;
  for (const at::Tensor& tensor : tensors) {
    check_tensor("all_reduce_coalesced", tensor);
    how.push_back(arithmetic_of("all_reduce_coalesced", tensor.scalar_type(), options.reduceOp));
  }
  return enter({c10d::OpType::ALLREDUCE_COALESCED, "wreath:all_reduce_coalesced"}, settings_of(options), tensors,
               tensors, [tensors, how](Turn& turn) {
                 std::vector<Joined> buffers;
                 std::vector<wreath::Call> calls;
                 for (std::size_t i = 0; i < tensors.size(); ++i) {
                   buffers.emplace_back(Tensors{tensors[i]}, how[i].elements, how[i].computed_in, true);
                   const Joined& buffer = buffers.back();
                   calls.push_back(with(call_of(Collective::AllReduce, buffer, buffer, buffer.count()), how[i]));
                 }
                 turn.run_together(calls);
                 for (Joined& buffer : buffers) buffer.spread();
               });
}

WreathBackend::WorkPointer WreathBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  at::Tensor& tensor = only("reduce", tensors);
  check_root("reduce", options.rootRank);
  const Arithmetic how = arithmetic_of("reduce", tensor.scalar_type(), options.reduceOp);
  const auto root = static_cast<wreath::Rank>(options.rootRank);
  const bool receives = root == rank_;
  return enter({c10d::OpType::REDUCE, "wreath:reduce"}, settings_of(options), tensors, tensors,
               [tensor, how, root, receives](Turn& turn) {
                 Joined buffer({tensor}, how.elements, how.computed_in, true);
                 wreath::Call call = with(call_of(Collective::Reduce, buffer, buffer, buffer.count()), how);
                 call.root = root;
                 if (!receives) call.output = nullptr;
                 turn.run(call);
                 if (receives) buffer.spread();
               });
}

WreathBackend::WorkPointer WreathBackend::barrier(const c10d::BarrierOptions& options) {
  return enter({c10d::OpType::BARRIER, "wreath:barrier"}, settings_of(options), {}, {}, [](Turn& turn) {
    wreath::Call call;
    call.collective = Collective::Barrier;
    turn.run(call);
  });
}

}  // namespace wreath_torch
