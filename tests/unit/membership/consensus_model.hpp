// Walks all runs of the survivors' agreement with four ranks: every order of events, deaths at every step, partitions.
//
// A state is what each rank knows and what is on its way. Ranks are deterministic, so the effect of an event on a rank
// is computed once and kept. Only events of one rank depend on each other. In each state it is thus enough to follow
// the events of ranks to which no other rank can give new ones (a persistent set). The walk still reaches all final
// states. A word that can have no effect on its receiver any more is checked for that and dropped. This folds states
// that differ by such words alone.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/membership/consensus.hpp"

namespace wreath::test {

inline constexpr int kRanks = 4;
using Set = unsigned;  // of ranks, a bit each

// Describes what may happen in a run.
struct Setting {
  // Each of these ranks dies at some point.
  Set victims = 0;
  // With 0 there is no partition. Else these ranks and the others lose each other.
  Set side = 0;
  // Where `at_once` is true, the partition is one moment for all, and a rank loses the whole other side at once. Else
  // each rank may lose each rank of the other side at any time, and may go on hearing from it. Then nobody promises
  // that the larger side goes on.
  bool at_once = true;
  // The attempts of these ranks may fail.
  Set may_refuse = 0;
  // Each of these ranks may leave once it has an outcome. For the others it then ends.
  Set leavers = 0;
};

struct Channel {
  // The sender died or left.
  static constexpr std::uint16_t kEnd = 0x3FFF;
  // This bit is added where the sender was cut off before it said the word.
  static constexpr std::uint16_t kAfterCut = 0x4000;
  std::uint8_t count = 0;
  enum class Flow : std::uint8_t {
    Open,
    // The receiver takes no notice of what arrives: each word is checked for that, and not kept.
    Ignored,
    // Nothing will arrive any more.
    Closed,
  };
  Flow flow = Flow::Open;
  std::array<std::uint16_t, 11> words{};
};

struct State {
  std::array<std::uint16_t, kRanks> local{};
  std::array<std::array<Channel, kRanks>, kRanks> channels{};  // [from][to]
  std::uint16_t dead = 0;
  // These ranks lost somebody by the partition: what they say stays on their side.
  std::uint16_t cut = 0;
  std::uint16_t left = 0;
};

struct Event {
  static constexpr int kLives = -1;
  enum class Kind : std::uint8_t { Receive, Lose, Join, Refuse, Die, Leave };
  Kind kind;
  int rank;
  // A Receive has the sender here, and a Lose has the set.
  unsigned other = 0;
  // The rank dies after so many of the messages that it says.
  int dies_after = kLives;
};

// Holds hashes of states.
class Visited {
 public:
  // Returns whether the state is new.
  bool insert(const State& state);
  std::size_t count() const { return count_; }

 private:
  bool place(std::uint64_t hash);
  void grow();
  std::vector<std::uint64_t> slots_ = std::vector<std::uint64_t>(1 << 16);
  std::size_t count_ = 0;
};

// Holds what ranks know and say, each once.
class Ranks {
 public:
  struct Effect {
    std::uint16_t local = 0;
    std::vector<std::pair<int, std::uint16_t>> said;
  };
  Effect begin(int rank);
  const Effect& apply(std::uint16_t local, const Event& event, std::uint16_t word);
  bool decides(std::uint16_t word) const { return words_[word].kind == Statement::Kind::Decided; }
  const Consensus& operator[](std::uint16_t local) const { return locals_[local]; }

 private:
  Effect effect_of(Consensus member);
  std::vector<Consensus> locals_;
  std::unordered_map<std::string, std::vector<std::uint16_t>> alike_;  // locals by view and outcome
  std::vector<Statement> words_;
  std::unordered_map<std::uint64_t, Effect> effects_;
};

class Model {
 public:
  explicit Model(const Setting& setting) : setting_(setting) {}
  // Walks all runs, up to the first that ends wrong.
  void walk();
  std::size_t states() const { return visited_.count(); }
  std::size_t ends() const { return ends_; }
  std::size_t refused_ends() const { return refused_ends_; }
  // Returns what was wrong and how it came, or an empty text.
  const std::string& wrong() const { return wrong_; }

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  static bool has(Set set, int rank) { return (set >> rank & 1U) != 0; }
  const Consensus& member(const State& state, int rank) const { return ranks_[state.local[at(rank)]]; }
  bool apart(int a, int b) const { return setting_.side != 0 && has(setting_.side, a) != has(setting_.side, b); }

  void begin(const State& state, const std::array<Ranks::Effect, kRanks>& begins, int rank);
  void take(State& state, int rank, const Ranks::Effect& effect, int dies_after);
  void push(State& state, int from, int to, std::uint16_t word);
  void die(State& state, int rank);
  void end(State& state, int rank);
  void forget_ignored(State& state, int rank);
  bool unheard(const State& state, int from, int to, std::uint16_t word) const;
  void forget_unheard(State& state, int from, int to);
  void check_ignored(const State& state, int from, int to, std::uint16_t word);
  void visit(const State& state);
  void events_of(const State& state, int rank, std::vector<Event>& events) const;
  bool may_act(const State& state, int rank) const;
  bool may_leave(const State& state, int rank) const;
  Set closure(const State& state, int first) const;
  std::vector<Event> enough(const State& state) const;
  void follow(const State& state, const Event& event);
  void check_decision(const State& state, int rank);
  void check_end(const State& state);
  bool goes_on(const State& state, Set side) const;
  void blame(const State& state, const std::string& what);

  Setting setting_;
  Ranks ranks_;
  Visited visited_;
  std::vector<Event> path_;
  std::size_t ends_ = 0;
  std::size_t refused_ends_ = 0;
  std::string wrong_;
};

}  // namespace wreath::test
