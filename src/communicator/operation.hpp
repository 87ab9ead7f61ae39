// One call in flight on this rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "src/communicator/progress.hpp"
#include "src/tuner/tuner.hpp"
#include "wreath/result.hpp"
#include "wreath/types.hpp"

namespace wreath {

class Engine;

// What the caller asked for. Arguments are checked.
struct Call {
  Collective collective = Collective::AllReduce;
  DataType dtype = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  Rank root = 0;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t count = 0;

  std::size_t bytes() const { return static_cast<std::size_t>(count) * size_of(dtype); }
};

class Operation {
 public:
  Operation() = default;
  explicit Operation(std::shared_ptr<Engine> owner) : engine(std::move(owner)) {}

  // Set once at the end, result first.
  bool over() const { return over_.load(std::memory_order_acquire); }
  void finish(std::optional<Error> error) {
    error_ = std::move(error);
    over_.store(true, std::memory_order_release);
  }
  // Requires over().
  Status status() const { return error_ ? Status(*error_) : Status(); }
  void reset(const Call& next) {
    call = next;
    started = false;
    moved = true;
    entered_ns = 0;
    error_.reset();
    over_.store(false, std::memory_order_relaxed);
  }

  std::shared_ptr<Engine> engine;                      // of a Work: lives as long as its handle
  const std::uint32_t generation = fork_generation();  // another one: this is the child of a fork
  Call call;
  std::uint64_t number = 0;
  std::uint32_t signature = 0;
  bool started = false;
  bool moved = true;  // since the watch looked
  Choice choice;
  std::int64_t entered_ns = 0;  // 0: the watch has not looked yet
  std::int64_t moved_ns = 0;

 private:
  std::atomic<bool> over_{true};
  std::optional<Error> error_;
};

}  // namespace wreath
