// Runs a group of ranks as threads with plain collectives in memory, and makes the faults that a test asks for.
#pragma once

#include <barrier>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <thread>
#include <vector>

#include "perf/base/member.hpp"
#include "perf/base/reference.hpp"

namespace wreath::perf {

// The faults of a rank in one large call. `number` counts the large calls of that rank from 0.
struct Fault {
  // Returns true where the rank shall leave its output as it is.
  std::function<bool(int rank, int number)> skip = [](int, int) { return false; };
  std::function<void(int rank, int number, std::byte* output, std::size_t bytes)> spoil = [](auto...) {};
};

using Bytes = std::vector<std::byte>;

struct SharedState {
  explicit SharedState(int count)
      : ranks(count), meet(count), inputs(static_cast<std::size_t>(count)), sent(static_cast<std::size_t>(count)) {}
  int ranks;
  std::barrier<> meet;
  std::vector<Bytes> inputs;
  std::vector<std::vector<std::size_t>> sent;  // counts of all_to_all_v
  std::vector<std::map<Rank, Bytes>> mail = std::vector<std::map<Rank, Bytes>>(sent.size());
};

// A member whose calls of `large` elements, and calls with varying blocks, are subject to the fault. The exchanges of
// the tool are not.
class ThreadMember final : public Member {
 public:
  ThreadMember(SharedState& state, int rank, const Fault& fault, std::size_t large)
      : state_(state), rank_(rank), fault_(fault), large_(large) {}
  int rank() const override { return rank_; }
  int ranks() const override { return state_.ranks; }
  std::string plan_for(Collective, std::size_t bytes) const override {
    return bytes > 4096 ? "ring lanes=2 tile=4K order=ring" : "one_shot lanes=1 tile=4K order=canonical";
  }

  // Each call that is subject to the fault counts as a message.
  std::vector<WireCounts> wire_counts() const override {
    const auto calls = static_cast<std::uint64_t>(number_);
    return {WireCounts{"tcp", calls << 20, {{"messages", calls}}}};
  }

  Status run(const Call& call) override {
    const std::size_t bytes = input_elements(call) * size_of(call.dtype);
    Bytes& mine = state_.inputs[own()];
    mine.assign(call.input, call.input + bytes);
    state_.sent[own()].assign(call.input_blocks.counts.begin(), call.input_blocks.counts.end());
    state_.meet.arrive_and_wait();
    deliver(call, result_of(call));
    state_.meet.arrive_and_wait();
    return {};
  }

  Status exchange(std::span<const Transfer> transfers, DataType dtype) override {
    const std::size_t size = size_of(dtype);
    for (const Transfer& each : transfers) {
      if (each.to >= 0) state_.mail[own()][each.to].assign(each.data, each.data + each.count * size);
    }
    state_.meet.arrive_and_wait();
    for (const Transfer& each : transfers) {
      if (each.to >= 0) continue;
      const Bytes& got = state_.mail[static_cast<std::size_t>(each.from)].at(rank_);
      std::copy(got.begin(), got.end(), each.data);
    }
    state_.meet.arrive_and_wait();
    return {};
  }

 private:
  std::size_t own() const { return static_cast<std::size_t>(rank_); }

  std::size_t input_elements(const Call& call) const {
    const auto blocks = static_cast<std::size_t>(state_.ranks);
    const auto& varying = call.input_blocks.counts;
    switch (call.collective) {
      case Collective::Barrier: return 0;
      case Collective::Broadcast: return rank_ == call.root ? call.count : 0;
      case Collective::Scatter: return rank_ == call.root ? call.count * blocks : 0;
      case Collective::ReduceScatter: return call.count * blocks;
      case Collective::AllToAll:
        return varying.empty() ? call.count * blocks : std::accumulate(varying.begin(), varying.end(), std::size_t{0});
      default: return call.count;
    }
  }

  Bytes result_of(const Call& call) const {
    const Bytes& of_root = state_.inputs[static_cast<std::size_t>(call.root)];
    switch (call.collective) {
      case Collective::AllReduce: return combined(call);
      case Collective::Reduce: return rank_ == call.root ? combined(call) : Bytes{};
      case Collective::ReduceScatter: return block_of(combined(call), own());
      case Collective::AllGather: return all_blocks();
      case Collective::Gather: return rank_ == call.root ? all_blocks() : Bytes{};
      case Collective::Broadcast: return of_root;
      case Collective::Scatter: return block_of(of_root, own());
      case Collective::AllToAll: return blocks_for_me(size_of(call.dtype));
      default: return {};
    }
  }

  Bytes combined(const Call& call) const {
    std::vector<const std::byte*> inputs;
    for (const Bytes& each : state_.inputs) inputs.push_back(each.data());
    Bytes result(state_.inputs[0].size());
    reduce_ranks(call.dtype, call.reduction.op, inputs, result.data(), result.size() / size_of(call.dtype));
    return result;
  }
  Bytes block_of(const Bytes& all, std::size_t index) const {
    const std::size_t bytes = all.size() / static_cast<std::size_t>(state_.ranks);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(index * bytes);
    return {first, first + static_cast<std::ptrdiff_t>(bytes)};
  }
  Bytes all_blocks() const {
    Bytes all;
    for (const Bytes& each : state_.inputs) all.insert(all.end(), each.begin(), each.end());
    return all;
  }
  Bytes blocks_for_me(std::size_t size) const {
    Bytes all;
    for (std::size_t source = 0; source < state_.inputs.size(); ++source) {
      const Bytes& input = state_.inputs[source];
      const std::vector<std::size_t>& counts = state_.sent[source];
      std::size_t first = own() * (input.size() / state_.inputs.size());
      std::size_t bytes = input.size() / state_.inputs.size();
      if (!counts.empty()) {
        first = std::accumulate(counts.begin(), counts.begin() + rank_, std::size_t{0}) * size;
        bytes = counts[own()] * size;
      }
      all.insert(all.end(), input.begin() + static_cast<std::ptrdiff_t>(first),
                 input.begin() + static_cast<std::ptrdiff_t>(first + bytes));
    }
    return all;
  }

  void deliver(const Call& call, const Bytes& result) {
    const bool large = call.varying() || call.count == large_;
    if (!large || !fault_.skip(rank_, number_)) std::copy(result.begin(), result.end(), call.output);
    if (large) fault_.spoil(rank_, number_++, call.output, result.size());
  }

  SharedState& state_;
  int rank_;
  const Fault& fault_;
  std::size_t large_;
  int number_ = 0;
};

// Runs body(member) on every rank and waits until all have ended.
inline void on_ranks(int ranks, const Fault& fault, std::size_t large, const std::function<void(Member&)>& body) {
  SharedState state(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadMember member(state, rank, fault, large);
      body(member);
    });
  }
}

}  // namespace wreath::perf
