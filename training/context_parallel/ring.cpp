// This file has ring attention. Keys and values pass from rank to rank, and in the backward pass their gradients follow
// them.
#include <algorithm>
#include <initializer_list>
#include <utility>

#include "training/compute/compute.hpp"
#include "training/compute/layers.hpp"
#include "training/context_parallel/blocks.hpp"
#include "wreath/group.hpp"

namespace wreath::training {

namespace {

constexpr std::string_view kRingName = "ring attention";

// Messages to the next rank and from the former one, in flight together. Empty messages are left out. The destructor
// waits for them.
class Hop {
 public:
  Hop(Group& ring, std::initializer_list<std::span<const float>> sent,
      std::initializer_list<std::span<float>> received) {
    wreath::Group calls;
    for (const std::span<const float> message : sent) {
      if (!message.empty()) pending_.push_back(ring.start_send(message, (ring.rank() + 1) % ring.ranks()));
    }
    for (const std::span<float> message : received) {
      if (!message.empty())
        pending_.push_back(ring.start_recv(message, (ring.rank() + ring.ranks() - 1) % ring.ranks()));
    }
    if (!pending_.empty()) calls.launch().value();
    for (Pending& call : pending_) call.launched();
  }
  Hop(const Hop&) = delete;
  Hop& operator=(const Hop&) = delete;
  ~Hop() {
    try {
      wait();
    } catch (const Exception&) {
      // Another error is already being thrown.
    }
  }
  void wait() {
    while (!pending_.empty()) {
      Pending call = std::move(pending_.back());
      pending_.pop_back();
      call.wait();
    }
  }

 private:
  std::vector<Pending> pending_;
};

// The parts of all ranks, and the messages of keys and values: [sequences][places of the owner][2][width].
class Ring {
 public:
  Ring(const AttentionBatch& batch, const Group& group) : rank_(group.rank()) {
    for (int rank = 0; rank < group.ranks(); ++rank) parts_.emplace_back(batch, group.ranks(), rank);
  }
  int ranks() const { return static_cast<int>(parts_.size()); }
  const SequencePart& own() const { return part(rank_); }
  const SequencePart& part(int rank) const { return parts_[static_cast<std::size_t>(rank)]; }
  // Returns the rank whose keys and values are here after so many hops.
  int owner(int hops) const { return (rank_ - hops + ranks()) % ranks(); }
  // Returns the floats of the longest message.
  std::size_t longest_message() const {
    std::size_t longest = 0;
    for (const SequencePart& part : parts_) longest = std::max(longest, part.size(2 * part.width()));
    return longest;
  }
  // Returns the owner's message in a buffer of messages.
  std::span<float> message(const Buffer<float>& buffer, int owner) const {
    return buffer.span().first(part(owner).size(2 * part(owner).width()));
  }

 private:
  int rank_;
  std::vector<SequencePart> parts_;
};

class RingAttention final : public ContextAttention {
 public:
  RingAttention(Group& context, MemoryAccounting& memory) : context_(context), memory_(memory) {}

  void forward(const AttentionBatch& batch, std::span<const float> qkv, std::span<float> output,
               std::span<float> log_sum_exp) override {
    const Ring ring(batch, context_);
    expect_sizes(kRingName, ring.own(), {qkv, output, log_sum_exp});
    ForwardBlocks blocks(ring.own(), qkv, output, memory_);
    if (context_.alone()) {
      blocks.add();
    } else {
      pass_around(ring, qkv, blocks);
    }
    blocks.finish(log_sum_exp);
  }

  void backward(const AttentionBatch& batch, const Saved& saved, std::span<const float> output_gradient,
                std::span<float> qkv_gradient) override {
    const Ring ring(batch, context_);
    expect_sizes(kRingName, ring.own(), saved);
    expect_sizes(kRingName, ring.own(), qkv_gradient, output_gradient);
    const Buffer<float> delta = delta_of(ring.own(), saved.output, output_gradient, memory_);
    const BackwardBlocks blocks(ring.own(), {saved.qkv, output_gradient, saved.log_sum_exp, delta.span()},
                                qkv_gradient);
    if (context_.alone()) {
      blocks.add();
    } else {
      pass_around(ring, saved.qkv, blocks, qkv_gradient);
    }
  }

 private:
  Buffer<float> message_buffer(const Ring& ring) const {
    return {memory_, MemoryTag::Workspace, ring.longest_message(), Contents::Undefined};
  }
  // Returns this rank's keys and values as a message.
  Buffer<float> own_message(const Ring& ring, std::span<const float> qkv) const {
    const std::int64_t width = ring.own().width();
    Buffer<float> message = message_buffer(ring);
    copy_rows({qkv.data() + width, 3 * width}, {message.data(), 2 * width}, ring.own().rows(), 2 * width);
    return message;
  }

  // Adds every rank's keys and values, while the next ones are in flight.
  void pass_around(const Ring& ring, std::span<const float> qkv, ForwardBlocks& blocks) const {
    Buffer<float> here = own_message(ring, qkv);
    Buffer<float> next = message_buffer(ring);
    for (int hops = 0; hops < ring.ranks(); ++hops) {
      const bool passes_on = hops + 1 < ring.ranks();
      const std::span<float> message = ring.message(here, ring.owner(hops));
      Hop hop(context_, {passes_on ? message : std::span<float>()},
              {passes_on ? ring.message(next, ring.owner(hops + 1)) : std::span<float>()});
      blocks.add(key_value(std::span<const float>(message), ring.part(ring.owner(hops)), 2));
      hop.wait();
      std::swap(here, next);
    }
  }

  // Adds every rank's keys and values in the backward pass. Each rank adds its share to the gradients, which arrive one
  // hop behind their keys and values.
  void pass_around(const Ring& ring, std::span<const float> qkv, const BackwardBlocks& blocks,
                   std::span<float> qkv_gradient) const {
    Buffer<float> here = own_message(ring, qkv);
    Buffer<float> next = message_buffer(ring);
    // The share of this rank in the gradients of the keys and values that are here.
    Buffer<float> share = message_buffer(ring);
    // The gradients of the keys and values that were here before.
    Buffer<float> leaving = message_buffer(ring);
    // The gradients of the keys and values that are here, from the former ranks.
    Buffer<float> arriving = message_buffer(ring);
    for (int hops = 0; hops < ring.ranks(); ++hops) {
      const bool passes_on = hops + 1 < ring.ranks();
      const bool follows = hops > 0;
      const std::span<float> message = ring.message(here, ring.owner(hops));
      const std::span<float> gradient = ring.message(share, ring.owner(hops));
      const std::span<float> before = ring.message(arriving, ring.owner(hops));
      Hop hop(context_,
              {passes_on ? message : std::span<float>(),
               follows ? ring.message(leaving, ring.owner(hops - 1)) : std::span<float>()},
              {passes_on ? ring.message(next, ring.owner(hops + 1)) : std::span<float>(),
               follows ? before : std::span<float>()});
      fill(gradient, 0.0f);
      const SequencePart& part = ring.part(ring.owner(hops));
      blocks.add(key_value(std::span<const float>(message), part, 2), key_value(gradient, part, 2));
      hop.wait();
      if (follows) add(gradient, before);
      std::swap(here, next);
      std::swap(share, leaving);
    }
    Hop home(context_, {ring.message(leaving, ring.owner(ring.ranks() - 1))},
             {ring.message(arriving, context_.rank())});
    home.wait();
    const std::int64_t width = ring.own().width();
    copy_rows({arriving.data(), 2 * width}, {qkv_gradient.data() + width, 3 * width}, ring.own().rows(), 2 * width);
  }

  Group& context_;
  MemoryAccounting& memory_;
};

}  // namespace

std::unique_ptr<ContextAttention> make_ring_attention(Group& context, MemoryAccounting& memory) {
  return std::make_unique<RingAttention>(context, memory);
}

}  // namespace wreath::training
