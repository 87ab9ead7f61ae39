// Explores every execution of two small threads on hardware that may reorder whatever their memory orders leave free.
// Each thread is a list of operations. An operation may run before earlier ones of its thread unless they touch the
// same word. An acquire, a release or a fence between them keeps their order, too. Dependencies through control flow
// give no order, as in C++. Memory itself is one copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace wreath::model {

enum class Order : std::uint8_t { Plain, Acquire, Release, Fence };
enum class Kind : std::uint8_t { Store, Await, Check, Note, Fence };

struct Operation {
  Kind kind;
  Order order;
  std::size_t word = 0;
  // A Store stores this value. In a Note it is the bit that is set in the outcome when `accept` returns true.
  std::uint32_t value = 0;
  // An Await goes on when it returns true, and a Check is wrong when it returns false.
  std::function<bool(std::uint32_t)> accept;
  // Messages contain this name, and mutants find the operation by it.
  std::string where;
};

using Program = std::vector<Operation>;

inline bool may_pass(const Operation& earlier, const Operation& later) {
  if (earlier.kind == Kind::Fence || later.kind == Kind::Fence) return false;
  if (earlier.order == Order::Acquire || later.order == Order::Release) return false;
  return earlier.word != later.word;
}

class Explorer {
 public:
  Explorer(Program first, Program second, std::vector<std::uint32_t> memory)
      : programs_{std::move(first), std::move(second)}, start_{{0, 0}, std::move(memory), 0} {}

  // Runs everything, and returns "" or the first wrong thing that was found.
  std::string run() {
    visit(start_);
    return wrong_;
  }
  std::size_t states() const { return seen_.size(); }
  // Returns the sets of notes with which some execution ended.
  const std::set<std::uint32_t>& outcomes() const { return outcomes_; }

 private:
  struct State {
    std::uint64_t done[2];
    std::vector<std::uint32_t> memory;
    std::uint32_t notes;
    bool operator<(const State& other) const {
      return std::tie(done[0], done[1], notes, memory) <
             std::tie(other.done[0], other.done[1], other.notes, other.memory);
    }
  };

  bool ready(const State& state, int thread, std::size_t i) const {
    const Program& program = programs_[thread];
    if ((state.done[thread] >> i & 1) != 0) return false;
    for (std::size_t j = 0; j < i; ++j) {
      if ((state.done[thread] >> j & 1) == 0 && !may_pass(program[j], program[i])) return false;
    }
    return program[i].kind != Kind::Await || program[i].accept(state.memory[program[i].word]);
  }

  void step(State state, int thread, std::size_t i) {
    const Operation& operation = programs_[thread][i];
    state.done[thread] |= std::uint64_t{1} << i;
    if (operation.kind == Kind::Store) state.memory[operation.word] = operation.value;
    if (operation.kind == Kind::Check && !operation.accept(state.memory[operation.word])) {
      wrong_ = operation.where + " read " + std::to_string(state.memory[operation.word]);
      return;
    }
    if (operation.kind == Kind::Note && operation.accept(state.memory[operation.word])) state.notes |= operation.value;
    visit(state);
  }

  void visit(const State& state) {
    if (!wrong_.empty() || !seen_.insert(state).second) return;
    bool moved = false;
    for (int thread : {0, 1}) {
      for (std::size_t i = 0; i < programs_[thread].size() && wrong_.empty(); ++i) {
        if (!ready(state, thread, i)) continue;
        moved = true;
        step(state, thread, i);
      }
    }
    if (moved) return;
    const auto all = [](const Program& program) { return (std::uint64_t{1} << program.size()) - 1; };
    if (state.done[0] != all(programs_[0]) || state.done[1] != all(programs_[1])) wrong_ = "both threads wait";
    outcomes_.insert(state.notes);
  }

  Program programs_[2];
  State start_;
  std::set<State> seen_;
  std::set<std::uint32_t> outcomes_;
  std::string wrong_;
};

// Writes down every access to a word in place of the access. Loads answer the value that lets the code go on.
struct Recording {
  Program program;
  std::uint32_t answer = 0;
  std::string where;
};

struct Word {
  std::size_t number = 0;
  Recording* recording = nullptr;
  void operator=(std::uint32_t value) { record(Kind::Store, Order::Plain, value); }
  std::uint32_t record(Kind kind, Order order, std::uint32_t value = 0) const {
    recording->program.push_back({kind, order, number, value, nullptr, recording->where});
    return recording->answer;
  }
};

// The FIFO protocol finds these functions in place of those of src/base/memory_order.hpp when it runs on Words.
inline std::uint32_t look(const Word& word) { return word.record(Kind::Await, Order::Acquire); }
inline void tell(Word& word, std::uint32_t value) { word.record(Kind::Store, Order::Release, value); }

}  // namespace wreath::model
