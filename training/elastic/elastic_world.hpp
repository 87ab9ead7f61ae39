// ElasticWorld: the ranks of a job that may lose some and gain others, and that go on in the same processes.
//
// All members of the job form the pool; the first of them, in its order, are the world, which trains, and the others
// are spares. When one is lost, or somebody comes, all members meet again (reform): the survivors shrink the pool,
// those who wait are let in, and a new world is split off it. What the program does with the new world is its own
// affair: its state moves as state.hpp says.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "training/elastic/folder.hpp"
#include "training/elastic/state.hpp"
#include "wreath/communicator.hpp"
#include "wreath/environment.hpp"

namespace wreath::training {

// What a program ends with that has too few ranks left, or lost its state: the launcher starts the whole job again.
inline constexpr int kStartAgainCode = 9;

// Whether a death can be what ended a call with this error: then the members meet again.
bool caused_by_a_loss(const Error& error) noexcept;

// What a member tells all others when they meet. Plain bytes.
struct Contribution {
  Holding holding;
  bool began = false;                  // it has trained, or stood by while others did
  bool unharmed = false;               // its world works, and so does its state: both may stay as they are
  bool keep_world = false;             // ... and must stay, for the state could not move
  std::array<std::byte, 256> notes{};  // the program's own
};

struct Member {
  int number = 0;  // of the job, never used twice: the launcher's
  int pid = 0;
  std::string host;
  Contribution contribution;
};
// "member 2 (host vm, pid 77)".
std::string name(const Member& member);

// What came of a meeting; the same on all members.
struct Formation {
  std::int64_t generation = 0;  // 0: the job's start
  std::vector<Member> members;  // in the order of the pool
  int world_ranks = 0;          // the first of them
  bool same_world = false;      // as before: its communicator is the same object
  std::vector<Member> lost;     // since the meeting before; of a joiner's first meeting: none
  std::vector<Member> joined;
  std::string cause;   // the first error of the pool before; empty: none
  double seconds = 0;  // from reform() on, on this rank
};

struct ElasticOptions {
  // How many of so many members the program can use in its world; 0: they are too few. The same function on all.
  std::function<int(int members)> world_ranks;
  std::int64_t join_timeout_ms = 30'000;     // for those who come to be there, once they were invited
  std::int64_t shrink_timeout_ms = 600'000;  // for members that live to come to a meeting
};

// One member's; of one thread.
class ElasticWorld {
 public:
  // A rank of the job's start, or a joiner: that one returns when it was let in, or the job is over. The folder exists.
  static Result<std::unique_ptr<ElasticWorld>> join(const ElasticJob& job, const ElasticOptions& options);
  ~ElasticWorld();

  const Formation& formation() const noexcept { return formation_; }
  // Whether this member is of the world, else it is a spare.
  bool trains() const noexcept { return world_ != nullptr; }
  const std::shared_ptr<Communicator>& world() const noexcept { return world_; }
  Communicator& pool() noexcept { return *pool_; }

  // Every rank of the world calls it between two steps, and gets the same answer: somebody waits to be let in, or a
  // spare was lost, so that all should call reform(). Costs a broadcast of one number. Throws Exception.
  bool change_is_due();
  // A spare's: returns when it should call reform(), or the job is over. No clock ends it, and no core is used.
  void wait_for_change();

  // Every living member calls it, after a failure or when it is due, with what it has. Returns when a new world stands
  // (formation()), or the job is over. Who dies meanwhile is left out. Unavailable, with start_again(): fewer members
  // than the job's minimum or than a world needs.
  Status reform(const Contribution& mine);
  bool start_again() const noexcept { return start_again_; }

  // Called by the first rank of the world when all is done, or when all its ranks have found together that they cannot
  // go on, and end with this exit code: who waits, and who comes later, ends.
  Status announce_over(int code = 0) const { return folder_.announce_over(code); }
  bool over() const noexcept { return over_; }
  // Where it is over: with which exit code.
  int over_code() const noexcept { return over_code_; }

 private:
  struct Hello;
  ElasticWorld(const ElasticJob& job, ElasticOptions options);
  // Asks the folder.
  bool ended();
  Status start();
  Status join_later();
  Result<bool> accept(const Invitation& invitation);
  Status meet(const Contribution& mine);
  Status say_hello(const Contribution& mine);
  Status admit_joiners(const Contribution& mine);
  std::vector<Joiner> waiting() const;
  Result<UniqueId> invite(std::span<const Joiner> joiners) const;
  Result<bool> admit(std::span<const Joiner> joiners, const Contribution& mine);
  Status form_world();
  bool world_stands(int wanted) const;
  void note_changes(const std::vector<Member>& before);

  ElasticJob job_;
  ElasticOptions options_;
  ElasticFolder folder_;
  int number_ = 0;
  std::unique_ptr<Communicator> pool_;
  std::shared_ptr<Communicator> world_;
  Formation formation_;
  std::vector<int> world_places_;  // by rank of the pool: its rank in the world that it is of before the meeting
  bool over_ = false;
  int over_code_ = 0;
  bool start_again_ = false;
  std::int64_t looked_ns_ = 0;  // for joiners
};

}  // namespace wreath::training
