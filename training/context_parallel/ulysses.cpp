// This file has Ulysses attention, which exchanges parts of the sequence for parts of the heads and back.
#include <fmt/format.h>

#include <initializer_list>
#include <numeric>
#include <utility>

#include "training/compute/compute.hpp"
#include "training/context_parallel/blocks.hpp"
#include "training/parameters/arguments.hpp"

namespace wreath::training {

namespace {

constexpr std::string_view kUlyssesName = "Ulysses attention";

// Values of each place and head: `of_head` floats for a head, with the heads of a row side by side.
template <typename T>
struct Column {
  RowField<T> field;
  std::int64_t of_head = 1;
};
template <typename T>
using Columns = std::vector<Column<T>>;

// The part of a side's rows that goes to one rank or comes from it.
struct Slice {
  std::vector<Range> rows;  // of each sequence
  Range heads;
};

// Exchanges rows of this rank's places with all heads, and rows of all places with this rank's heads.
class Exchange {
 public:
  Exchange(const SequencePart& own, Group& group, MemoryAccounting& memory)
      : group_(group), memory_(memory), sequences_(own.batch().sequences) {
    const int ranks = group.ranks();
    const std::int64_t heads = own.batch().shape.heads;
    if (heads < ranks) refuse(kUlyssesName, fmt::format("{} heads cannot be dealt out to {} ranks", heads, ranks));
    heads_ = part_of(heads, ranks, group.rank());
    for (int rank = 0; rank < ranks; ++rank) {
      by_places_.push_back({{{0, own.places()}}, part_of(heads, ranks, rank)});
      by_heads_.push_back({sequence_ranges(own.batch().length, ranks, rank), {0, heads_.count}});
    }
  }
  std::int64_t heads() const { return heads_.count; }  // of this rank
  // Returns the batch of all sequences with these heads.
  AttentionBatch whole(AttentionBatch batch) const {
    batch.shape.heads = heads_.count;
    batch.shape.dropout.first_head += heads_.begin;
    return batch;
  }

  void to_heads(const Columns<const float>& from, const Columns<float>& to) const {
    run(by_places_, from, by_heads_, to);
  }
  void to_places(const Columns<const float>& from, const Columns<float>& to) const {
    run(by_heads_, from, by_places_, to);
  }

 private:
  using Slices = std::vector<Slice>;  // of each rank

  // Returns the floats of one row of a message.
  template <typename T>
  static std::int64_t row_size(const Slice& slice, const Columns<T>& columns) {
    std::int64_t size = 0;
    for (const Column<T>& column : columns) size += slice.heads.count * column.of_head;
    return size;
  }

  // Calls visit(rows as they lie, rows in a message, how many, their width) for all of a message, which has
  // [sequences][rows][columns].
  template <typename T, typename Message, typename Visit>
  void for_each_block(const Slice& slice, const Columns<T>& columns, Message* message, const Visit& visit) const {
    const std::int64_t stride = row_size(slice, columns);
    for (std::int64_t sequence = 0; sequence < sequences_; ++sequence) {
      for (const Range& range : slice.rows) {
        std::int64_t offset = 0;
        for (const auto& [field, of_head] : columns) {
          T* const data =
              field.data + (sequence * field.places + range.begin) * field.stride + slice.heads.begin * of_head;
          const std::int64_t width = slice.heads.count * of_head;
          visit(StridedRows<T>{data, field.stride}, StridedRows<Message>{message + offset, stride}, range.count, width);
          offset += width;
        }
        message += range.count * stride;
      }
    }
  }

  template <typename T>
  std::vector<std::size_t> counts(const Slices& slices, const Columns<T>& columns) const {
    std::vector<std::size_t> counts;
    for (const Slice& slice : slices) {
      std::int64_t rows = 0;
      for (const Range& range : slice.rows) rows += range.count;
      counts.push_back(static_cast<std::size_t>(sequences_ * rows * row_size(slice, columns)));
    }
    return counts;
  }

  void run(const Slices& from_slices, const Columns<const float>& from, const Slices& to_slices,
           const Columns<float>& to) const {
    const std::vector<std::size_t> sent_counts = counts(from_slices, from);
    const std::vector<std::size_t> received_counts = counts(to_slices, to);
    const Buffer<float> sent = message(sent_counts);
    const Buffer<float> received = message(received_counts);
    float* packed = sent.data();
    for (std::size_t rank = 0; rank < from_slices.size(); ++rank) {
      for_each_block(from_slices[rank], from, packed,
                     [](StridedRows<const float> data, StridedRows<float> into, std::int64_t rows, std::int64_t width) {
                       copy_rows(data, into, rows, width);
                     });
      packed += sent_counts[rank];
    }
    Call call = Group::call_of(Collective::AllToAll, std::span<const float>(sent.span()), received.span(), 0, {});
    call.input_blocks.counts = sent_counts;
    call.output_blocks.counts = received_counts;
    group_.run(call);
    const float* unpacked = received.data();
    for (std::size_t rank = 0; rank < to_slices.size(); ++rank) {
      for_each_block(to_slices[rank], to, unpacked,
                     [](StridedRows<float> data, StridedRows<const float> of, std::int64_t rows, std::int64_t width) {
                       copy_rows(of, data, rows, width);
                     });
      unpacked += received_counts[rank];
    }
  }

  Buffer<float> message(const std::vector<std::size_t>& counts) const {
    return {memory_, MemoryTag::Workspace, std::accumulate(counts.begin(), counts.end(), std::size_t{0}),
            Contents::Undefined};
  }

  Group& group_;
  MemoryAccounting& memory_;
  std::int64_t sequences_;
  Range heads_;
  Slices by_places_;
  Slices by_heads_;
};

// A buffer [sequences][places][fields][heads][of_head].
template <typename T>
struct Content {
  std::span<T> buffer;
  std::int64_t fields = 1;
  std::int64_t of_head = 1;
};
template <typename T>
Columns<T> columns(const SequencePart& part, std::initializer_list<Content<T>> contents) {
  Columns<T> all;
  for (const Content<T>& content : contents) {
    const std::int64_t width = part.batch().shape.heads * content.of_head;
    for (std::int64_t i = 0; i < content.fields; ++i) {
      all.push_back({field(content.buffer, part, content.fields * width, i * width), content.of_head});
    }
  }
  return all;
}

class UlyssesAttention final : public ContextAttention {
 public:
  UlyssesAttention(Group& context, MemoryAccounting& memory) : context_(context), memory_(memory) {}

  void forward(const AttentionBatch& batch, std::span<const float> qkv, std::span<float> output,
               std::span<float> log_sum_exp) override {
    const SequencePart own(batch, context_.ranks(), context_.rank());
    expect_sizes(kUlyssesName, own, {qkv, output, log_sum_exp});
    if (context_.alone()) return forward_whole(own, qkv, output, log_sum_exp);
    const std::int64_t head_size = batch.shape.head_size;
    const Exchange exchange(own, context_, memory_);
    const SequencePart whole(exchange.whole(batch), 1, 0);
    const Buffer<float> whole_qkv = buffer(whole, 3 * whole.width());
    const Buffer<float> whole_output = buffer(whole, whole.width());
    const Buffer<float> whole_sums = buffer(whole, exchange.heads());
    exchange.to_heads(columns<const float>(own, {{qkv, 3, head_size}}),
                      columns<float>(whole, {{whole_qkv.span(), 3, head_size}}));
    forward_whole(whole, whole_qkv.span(), whole_output.span(), whole_sums.span());
    exchange.to_places(columns<const float>(whole, {{whole_output.span(), 1, head_size}, {whole_sums.span()}}),
                       columns<float>(own, {{output, 1, head_size}, {log_sum_exp}}));
  }

  void backward(const AttentionBatch& batch, const Saved& saved, std::span<const float> output_gradient,
                std::span<float> qkv_gradient) override {
    const SequencePart own(batch, context_.ranks(), context_.rank());
    expect_sizes(kUlyssesName, own, saved);
    expect_sizes(kUlyssesName, own, qkv_gradient, output_gradient);
    const Buffer<float> delta = delta_of(own, saved.output, output_gradient, memory_);
    const BackwardBlocks::Known known{saved.qkv, output_gradient, saved.log_sum_exp, delta.span()};
    if (context_.alone()) return BackwardBlocks(own, known, qkv_gradient).add();
    const std::int64_t head_size = batch.shape.head_size;
    const Exchange exchange(own, context_, memory_);
    const SequencePart whole(exchange.whole(batch), 1, 0);
    const Buffer<float> whole_qkv = buffer(whole, 3 * whole.width());
    const Buffer<float> whole_output_gradient = buffer(whole, whole.width());
    const Buffer<float> whole_sums = buffer(whole, exchange.heads());
    const Buffer<float> whole_delta = buffer(whole, exchange.heads());
    const Buffer<float> whole_qkv_gradient = buffer(whole, 3 * whole.width());
    exchange.to_heads(
        columns<const float>(
            own, {{saved.qkv, 3, head_size}, {output_gradient, 1, head_size}, {saved.log_sum_exp}, {delta.span()}}),
        columns<float>(whole, {{whole_qkv.span(), 3, head_size},
                               {whole_output_gradient.span(), 1, head_size},
                               {whole_sums.span()},
                               {whole_delta.span()}}));
    const BackwardBlocks::Known whole_known{whole_qkv.span(), whole_output_gradient.span(), whole_sums.span(),
                                            whole_delta.span()};
    BackwardBlocks(whole, whole_known, whole_qkv_gradient.span()).add();
    exchange.to_places(columns<const float>(whole, {{whole_qkv_gradient.span(), 3, head_size}}),
                       columns<float>(own, {{qkv_gradient, 3, head_size}}));
  }

 private:
  void forward_whole(const SequencePart& part, std::span<const float> qkv, std::span<float> output,
                     std::span<float> log_sum_exp) const {
    ForwardBlocks blocks(part, qkv, output, memory_);
    blocks.add();
    blocks.finish(log_sum_exp);
  }
  Buffer<float> buffer(const SequencePart& part, std::int64_t of_row) const {
    return {memory_, MemoryTag::Workspace, part.size(of_row), Contents::Undefined};
  }

  Group& context_;
  MemoryAccounting& memory_;
};

}  // namespace

std::unique_ptr<ContextAttention> make_ulysses_attention(Group& context, MemoryAccounting& memory) {
  return std::make_unique<UlyssesAttention>(context, memory);
}

}  // namespace wreath::training
