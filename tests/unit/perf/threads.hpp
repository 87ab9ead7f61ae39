// A group of ranks as threads with a plain all_reduce in memory, and faults that tests ask for.
#pragma once

#include <barrier>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "perf/common/member.hpp"

namespace wreath::perf {

// What a faulty rank does to one large call. `number` counts the large calls of that rank from 0.
struct Fault {
  std::function<bool(int rank, int number)> skip = [](int, int) { return false; };  // leaves the output as it is
  std::function<void(int rank, int number, std::byte* output, std::size_t bytes)> spoil = [](auto...) {};
};

struct SharedState {
  explicit SharedState(int count) : ranks(count), meet(count), inputs(static_cast<std::size_t>(count)) {}
  int ranks;
  std::barrier<> meet;
  std::vector<std::vector<std::byte>> inputs;
};

// Calls of `large` elements and more are subject to the fault; the exchanges of the tool are not.
class ThreadMember final : public Member {
 public:
  ThreadMember(SharedState& state, int rank, const Fault& fault, std::size_t large)
      : state_(state), rank_(rank), fault_(fault), large_(large) {}
  int rank() const override { return rank_; }
  int ranks() const override { return state_.ranks; }
  std::string plan_for(Collective, std::size_t bytes) const override {
    return bytes > 4096 ? "ring lanes=2 tile=4K order=ring" : "one_shot lanes=1 tile=4K order=canonical";
  }
  Status all_reduce(const void* input, void* output, std::size_t count, DataType dtype, ReduceOp) override {
    const auto* from = static_cast<const std::byte*>(input);
    const std::size_t bytes = count * size_of(dtype);
    state_.inputs[static_cast<std::size_t>(rank_)].assign(from, from + bytes);
    state_.meet.arrive_and_wait();
    const bool large = count == large_;
    if (!large || !fault_.skip(rank_, number_)) {
      dtype == DataType::Float32 ? sum<float>(output, count) : sum<std::uint32_t>(output, count);
    }
    if (large) fault_.spoil(rank_, number_++, static_cast<std::byte*>(output), bytes);
    state_.meet.arrive_and_wait();
    return {};
  }

 private:
  template <typename T>
  void sum(void* output, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) {
      T total{};
      for (const auto& each : state_.inputs) {
        T value;
        std::memcpy(&value, each.data() + i * sizeof(T), sizeof(T));
        total += value;
      }
      std::memcpy(static_cast<std::byte*>(output) + i * sizeof(T), &total, sizeof(T));
    }
  }

  SharedState& state_;
  int rank_;
  const Fault& fault_;
  std::size_t large_;
  int number_ = 0;
};

// Runs body(member) on every rank.
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
