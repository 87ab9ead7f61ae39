// Implements collectives that move blocks of ranks: all_gather, reduce_scatter, gather, scatter, all_to_all.
#include <c10/util/Exception.h>

#include <torch/csrc/distributed/c10d/Utils.hpp>
#include <utility>

#include "bindings/torch/backend.hpp"
#include "bindings/torch/calls.hpp"

namespace wreath_torch {
namespace {

using wreath::Collective;
using Tensors = std::vector<at::Tensor>;

// Returns after how many bytes the own block of a list of blocks starts.
std::size_t offset_of(const Joined& blocks, std::size_t rank, const Elements& elements) {
  std::size_t elements_before = 0;
  for (std::size_t i = 0; i < rank && i < blocks.counts().size(); ++i) elements_before += blocks.counts()[i];
  return elements_before * wreath::size_of(elements.dtype);
}

// Runs an all_gather of one tensor into a list of blocks, or into one tensor that holds them all.
struct Gathering {
  Tensors outputs;
  at::Tensor input;
  Elements elements;
  std::size_t rank;

  void run(Turn& turn) const {
    const c10::ScalarType type = input.scalar_type();
    Joined from({input}, elements, type, true);
    Joined into(outputs, elements, type, false);
    const bool one = outputs.size() == 1;
    from.keep_apart_from(into, true,
                         one ? rank * from.count() * wreath::size_of(elements.dtype) : offset_of(into, rank, elements));
    wreath::Call call = with(call_of(Collective::AllGather, from, into, from.count()), elements);
    if (!one && !into.even()) call.output_blocks.counts = into.counts();
    turn.run(call);
    into.spread();
  }
};

// Runs a reduce_scatter, which is the other way round.
struct Scattering {
  at::Tensor output;
  Tensors inputs;
  Arithmetic how;
  std::size_t rank;

  void run(Turn& turn) const {
    Joined from(inputs, how.elements, how.computed_in, true);
    Joined into({output}, how.elements, how.computed_in, false);
    if (from.data() != nullptr && into.data() != nullptr) keep_apart(from, into);
    wreath::Call call = with(call_of(Collective::ReduceScatter, from, into, into.count()), how);
    if (inputs.size() > 1 && !from.even()) call.input_blocks.counts = from.counts();
    turn.run(call);
    into.spread();
  }

  // Copies an input that meets the output, except in place: then output is input plus the own block's offset.
  void keep_apart(Joined& from, const Joined& into) const {
    const std::size_t offset = inputs.size() > 1 ? offset_of(from, rank, how.elements)
                                                 : rank * into.count() * wreath::size_of(how.elements.dtype);
    const bool in_place = into.data() == from.data() + offset;
    if (!in_place) from.keep_apart_from(into, false, 0);
  }
};

// Runs an all_to_all of tensors that hold blocks one after the other. It always gives their sizes. A rank does not know
// whether blocks between others are equal, too, and the call must be the same on all.
struct Exchanging {
  Tensors outputs;
  Tensors inputs;
  Elements elements;
  std::vector<std::size_t> sent;
  std::vector<std::size_t> received;

  void run(Turn& turn) const {
    const c10::ScalarType type = inputs.front().scalar_type();
    Joined from(inputs, elements, type, true);
    Joined into(outputs, elements, type, false);
    from.keep_apart_from(into, false, 0);
    wreath::Call call = with(call_of(Collective::AllToAll, from, into, 0), elements);
    call.input_blocks.counts = sent;
    call.output_blocks.counts = received;
    turn.run(call);
    into.spread();
  }
};

void check_same_dtype(std::string_view call, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK_TYPE(a.scalar_type() == b.scalar_type(), "wreath: ", call, ": tensors of ", a.scalar_type(), " and ",
                   b.scalar_type(), " in one call");
}

// Checks that `whole` holds `ranks` blocks of `block`.
void check_whole(std::string_view call, const at::Tensor& whole, const at::Tensor& block, std::int64_t ranks) {
  check_tensor(call, whole);
  check_tensor(call, block);
  check_same_dtype(call, whole, block);
  TORCH_CHECK_VALUE(whole.numel() == block.numel() * ranks, "wreath: ", call, ": one tensor has ", whole.numel(),
                    " elements, the other ", block.numel(), ": it must be ", ranks,
                    " times as many, a block for each rank");
}

void check_equal_sizes(std::string_view call, const Tensors& blocks) {
  for (const at::Tensor& block : blocks) {
    TORCH_CHECK_VALUE(block.numel() == blocks.front().numel(), "wreath: ", call, ": blocks of ", blocks.front().numel(),
                      " and of ", block.numel(), " elements; all must be equal");
  }
}

Tensors& only_list(std::string_view call, std::vector<Tensors>& lists) {
  TORCH_CHECK_VALUE(lists.size() == 1, "wreath: ", call, ": one list of tensors, not ", lists.size());
  return lists.front();
}

void check_pairs(std::string_view call, const Tensors& outputs, const Tensors& inputs) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "wreath: ", call, ": ", outputs.size(), " outputs for ",
                    inputs.size(), " inputs");
}

// Counts the elements that go to or come from each rank.
std::vector<std::size_t> counts_of(const at::Tensor& tensor, const std::vector<std::int64_t>& splits,
                                   const Elements& elements) {
  const std::int64_t row = tensor.dim() == 0 || tensor.size(0) == 0 ? 1 : tensor.numel() / tensor.size(0);
  std::vector<std::size_t> counts;
  for (const std::int64_t split : splits)
    counts.push_back(static_cast<std::size_t>(split * row) * elements.per_element);
  return counts;
}

std::vector<std::size_t> sizes_of(const Tensors& blocks, const Elements& elements) {
  std::vector<std::size_t> sizes;
  for (const at::Tensor& block : blocks)
    sizes.push_back(static_cast<std::size_t>(block.numel()) * elements.per_element);
  return sizes;
}

}  // namespace

// Checks that there is one block for each rank, and that the own one is as large as `own`.
void WreathBackend::check_blocks(std::string_view call, const Tensors& blocks, const at::Tensor& own) const {
  TORCH_CHECK_VALUE(blocks.size() == ranks(), "wreath: ", call, ": a list of ", blocks.size(), " tensors for ", size_,
                    " ranks");
  for (const at::Tensor& block : blocks) {
    check_tensor(call, block);
    check_same_dtype(call, block, own);
  }
  const at::Tensor& mine = blocks[static_cast<std::size_t>(rank_)];
  TORCH_CHECK_VALUE(mine.numel() == own.numel(), "wreath: ", call, ": block ", rank_, " of the list has ", mine.numel(),
                    " elements, this rank's tensor ", own.numel());
}

WreathBackend::WorkPointer WreathBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                                    const c10d::AllgatherOptions& options) {
  at::Tensor& input = only("all_gather", inputs);
  Tensors& blocks = only_list("all_gather", outputs);
  check_blocks("all_gather", blocks, input);
  const Gathering gathering{blocks, input, moved(input.scalar_type()), static_cast<std::size_t>(rank_)};
  return enter({c10d::OpType::ALLGATHER, "wreath:all_gather"}, settings_of(options), inputs, blocks,
               [gathering](Turn& turn) { gathering.run(turn); });
}

WreathBackend::WorkPointer WreathBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                          const c10d::AllgatherOptions& options) {
  check_whole("all_gather_into_tensor", output, input, size_);
  const Gathering gathering{{output}, input, moved(input.scalar_type()), static_cast<std::size_t>(rank_)};
  return enter({c10d::OpType::_ALLGATHER_BASE, "wreath:_all_gather_base"}, settings_of(options), {input}, {output},
               [gathering](Turn& turn) { gathering.run(turn); });
}

WreathBackend::WorkPointer WreathBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                                              const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == ranks(), "wreath: all_gather_coalesced: ", outputs.size(), " lists for ", size_,
                    " ranks");
  std::vector<Gathering> all;
  Tensors flat;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_tensor("all_gather_coalesced", inputs[i]);
    Tensors blocks;
    for (const Tensors& of_rank : outputs) {
      check_pairs("all_gather_coalesced", of_rank, inputs);
      blocks.push_back(of_rank[i]);
    }
    check_blocks("all_gather_coalesced", blocks, inputs[i]);
    flat.insert(flat.end(), blocks.begin(), blocks.end());
    all.push_back({std::move(blocks), inputs[i], moved(inputs[i].scalar_type()), static_cast<std::size_t>(rank_)});
  }
  return enter({c10d::OpType::ALLGATHER_COALESCED, "wreath:all_gather_coalesced"}, settings_of(options), inputs, flat,
               [all](Turn& turn) {
                 for (const Gathering& each : all) each.run(turn);
               });
}

WreathBackend::WorkPointer WreathBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                          const c10d::AllgatherOptions& options) {
  check_pairs("all_gather_into_tensor_coalesced", outputs, inputs);
  std::vector<Gathering> all;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_whole("all_gather_into_tensor_coalesced", outputs[i], inputs[i], size_);
    all.push_back({{outputs[i]}, inputs[i], moved(inputs[i].scalar_type()), static_cast<std::size_t>(rank_)});
  }
  return enter({c10d::OpType::COALESCED, "wreath:all_gather_into_tensor_coalesced"}, settings_of(options), inputs,
               outputs, [all](Turn& turn) {
                 for (const Gathering& each : all) each.run(turn);
               });
}

WreathBackend::WorkPointer WreathBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                         const c10d::ReduceScatterOptions& options) {
  at::Tensor& output = only("reduce_scatter", outputs);
  const Tensors& blocks = only_list("reduce_scatter", inputs);
  check_blocks("reduce_scatter", blocks, output);
  const Scattering scattering{output, blocks, arithmetic_of("reduce_scatter", output.scalar_type(), options.reduceOp),
                              static_cast<std::size_t>(rank_)};
  return enter({c10d::OpType::REDUCE_SCATTER, "wreath:reduce_scatter"}, settings_of(options), blocks, outputs,
               [scattering](Turn& turn) { scattering.run(turn); });
}

WreathBackend::WorkPointer WreathBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                               const c10d::ReduceScatterOptions& options) {
  check_whole("reduce_scatter_tensor", input, output, size_);
  const Scattering scattering{output,
                              {input},
                              arithmetic_of("reduce_scatter_tensor", output.scalar_type(), options.reduceOp),
                              static_cast<std::size_t>(rank_)};
  return enter({c10d::OpType::_REDUCE_SCATTER_BASE, "wreath:_reduce_scatter_base"}, settings_of(options), {input},
               {output}, [scattering](Turn& turn) { scattering.run(turn); });
}

WreathBackend::WorkPointer WreathBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                          const c10d::ReduceScatterOptions& options) {
  check_pairs("reduce_scatter_tensor_coalesced", outputs, inputs);
  std::vector<Scattering> all;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_whole("reduce_scatter_tensor_coalesced", inputs[i], outputs[i], size_);
    all.push_back({outputs[i],
                   {inputs[i]},
                   arithmetic_of("reduce_scatter_tensor_coalesced", outputs[i].scalar_type(), options.reduceOp),
                   static_cast<std::size_t>(rank_)});
  }
  return enter({c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED, "wreath:reduce_scatter_tensor_coalesced"},
               settings_of(options), inputs, outputs, [all](Turn& turn) {
                 for (const Scattering& each : all) each.run(turn);
               });
}

WreathBackend::WorkPointer WreathBackend::gather(TensorLists& outputs, Tensors& inputs,
                                                 const c10d::GatherOptions& options) {
  at::Tensor& input = only("gather", inputs);
  check_root("gather", options.rootRank);
  const bool receives = options.rootRank == rank_;
  TORCH_CHECK_VALUE(receives || outputs.empty() || outputs.front().empty(), "wreath: gather: outputs at rank ", rank_,
                    ", which is not the root");
  const Tensors blocks = receives ? only_list("gather", outputs) : Tensors{};
  if (receives) {
    check_blocks("gather", blocks, input);
    check_equal_sizes("gather", blocks);
  }
  const Elements elements = moved(input.scalar_type());
  return enter({c10d::OpType::GATHER, "wreath:gather"}, settings_of(options), inputs, blocks,
               [blocks, input, elements, root = static_cast<wreath::Rank>(options.rootRank), receives](Turn& turn) {
                 Joined from({input}, elements, input.scalar_type(), true);
                 Joined into(blocks, elements, input.scalar_type(), false);
                 from.keep_apart_from(into, true, offset_of(into, static_cast<std::size_t>(root), elements));
                 wreath::Call call = with(call_of(Collective::Gather, from, into, from.count()), elements);
                 call.root = root;
                 if (!receives) call.output = nullptr;
                 turn.run(call);
                 into.spread();
               });
}

WreathBackend::WorkPointer WreathBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                                  const c10d::ScatterOptions& options) {
  at::Tensor& output = only("scatter", outputs);
  check_root("scatter", options.rootRank);
  const bool sends = options.rootRank == rank_;
  TORCH_CHECK_VALUE(sends || inputs.empty() || inputs.front().empty(), "wreath: scatter: inputs at rank ", rank_,
                    ", which is not the root");
  const Tensors blocks = sends ? only_list("scatter", inputs) : Tensors{};
  if (sends) {
    check_blocks("scatter", blocks, output);
    check_equal_sizes("scatter", blocks);
  }
  const Elements elements = moved(output.scalar_type());
  return enter({c10d::OpType::SCATTER, "wreath:scatter"}, settings_of(options), blocks, outputs,
               [blocks, output, elements, root = static_cast<wreath::Rank>(options.rootRank), sends](Turn& turn) {
                 Joined from(blocks, elements, output.scalar_type(), true);
                 Joined into({output}, elements, output.scalar_type(), false);
                 from.keep_apart_from(into, false, 0);
                 wreath::Call call = with(call_of(Collective::Scatter, from, into, into.count()), elements);
                 call.root = root;
                 if (!sends) call.input = nullptr;
                 turn.run(call);
                 into.spread();
               });
}

WreathBackend::WorkPointer WreathBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                                   const c10d::AllToAllOptions& options) {
  TORCH_CHECK_VALUE(inputs.size() == ranks() && outputs.size() == ranks(), "wreath: all_to_all: ", inputs.size(),
                    " inputs and ", outputs.size(), " outputs for ", size_, " ranks");
  check_tensor("all_to_all", inputs.front());
  for (const Tensors* list : {&inputs, &outputs}) {
    for (const at::Tensor& tensor : *list) {
      check_tensor("all_to_all", tensor);
      check_same_dtype("all_to_all", tensor, inputs.front());
    }
  }
  check_blocks("all_to_all", outputs, inputs[static_cast<std::size_t>(rank_)]);
  const Elements elements = moved(inputs.front().scalar_type());
  const Exchanging exchanging{outputs, inputs, elements, sizes_of(inputs, elements), sizes_of(outputs, elements)};
  return enter({c10d::OpType::ALLTOALL, "wreath:all_to_all"}, settings_of(options), inputs, outputs,
               [exchanging](Turn& turn) { exchanging.run(turn); });
}

WreathBackend::WorkPointer WreathBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                        std::vector<std::int64_t>& output_splits,
                                                        std::vector<std::int64_t>& input_splits,
                                                        const c10d::AllToAllOptions& options) {
  check_tensor("all_to_all_single", output);
  check_tensor("all_to_all_single", input);
  check_same_dtype("all_to_all_single", output, input);
  c10d::checkSplitSizes(input_splits, input, size_);
  c10d::checkSplitSizes(output_splits, output, size_);
  for (const auto* const given : {&input_splits, &output_splits}) {
    for (const std::int64_t count : *given)
      TORCH_CHECK_VALUE(count >= 0, "wreath: all_to_all_single: a split of ", count);
  }
  const Elements elements = moved(input.scalar_type());
  const auto splits = [this](const std::vector<std::int64_t>& given, const at::Tensor& tensor) {
    return given.empty() ? std::vector<std::int64_t>(ranks(), tensor.size(0) / size_) : given;
  };
  const auto sent = counts_of(input, splits(input_splits, input), elements);
  const auto received = counts_of(output, splits(output_splits, output), elements);
  const auto own = static_cast<std::size_t>(rank_);
  TORCH_CHECK_VALUE(sent[own] == received[own], "wreath: all_to_all_single: rank ", rank_, " sends ", sent[own],
                    " elements to itself and receives ", received[own]);
  const Exchanging exchanging{{output}, {input}, elements, sent, received};
  return enter({c10d::OpType::ALLTOALL_BASE, "wreath:all_to_all_single"}, settings_of(options), {input}, {output},
               [exchanging](Turn& turn) { exchanging.run(turn); });
}

}  // namespace wreath_torch
