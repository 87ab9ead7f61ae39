// ElasticWorld is the ranks of a job that may lose some ranks and gain others, and that continue in the same processes.
//
// All members of the job form the pool. The first of them, in its order, are the world, which trains, and the others
// are spares. When a member is lost or somebody joins, all members meet again (reform). The survivors shrink the pool,
// the waiting joiners are admitted, and a new world is split off the pool. The program decides how it uses the new
// world; state.hpp moves its state.
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

// A program ends with this code where too few ranks are left, or where it lost its state. The launcher then starts the
// whole job again.
inline constexpr int kStartAgainCode = 9;

// Returns whether a death can have ended a call with this error. The members then meet again.
bool caused_by_a_loss(const Error& error) noexcept;

// The data that a member sends to all others when they meet. It consists of plain bytes.
struct Contribution {
  Holding holding;
  // The member has trained, or was a spare while others trained.
  bool began = false;
  // The member's world works, and so does its state; both may stay as they are.
  bool unharmed = false;
  // The world must also stay, since the state could not move.
  bool keep_world = false;
  std::array<std::byte, 256> notes{};  // the program's own
};

struct Member {
  // The launcher gives each member of the job a number, which is never used twice.
  int number = 0;
  int pid = 0;
  std::string host;
  Contribution contribution;
};
// Returns a text like "member 2 (host vm, pid 77)".
std::string name(const Member& member);

// The result of a meeting, the same on all members.
struct Formation {
  std::int64_t generation = 0;  // 0: the job's start
  std::vector<Member> members;  // in the order of the pool
  int world_ranks = 0;          // the first of them
  // The world is the former one, and its communicator is the same object.
  bool same_world = false;
  // The members lost since the former meeting. A joiner's first meeting has none.
  std::vector<Member> lost;
  std::vector<Member> joined;
  // The first error of the former pool; empty means that there was none.
  std::string cause;
  double seconds = 0;  // from reform() on, on this rank
};

struct ElasticOptions {
  // Returns how many of so many members the program can use in its world, or 0 where they are too few. All members pass
  // the same function.
  std::function<int(int members)> world_ranks;
  // The time in which invited joiners must connect.
  std::int64_t join_timeout_ms = 30'000;
  // The time in which living members must come to a meeting.
  std::int64_t shrink_timeout_ms = 600'000;
};

// Serves one member; one thread uses it.
class ElasticWorld {
 public:
  // Joins a rank of the job's start, or a joiner. A joiner returns when it was admitted, or when the job is over. The
  // folder must exist.
  static Result<std::unique_ptr<ElasticWorld>> join(const ElasticJob& job, const ElasticOptions& options);
  ~ElasticWorld();

  const Formation& formation() const noexcept { return formation_; }
  // Returns whether this member is in the world; otherwise it is a spare.
  bool trains() const noexcept { return world_ != nullptr; }
  const std::shared_ptr<Communicator>& world() const noexcept { return world_; }
  Communicator& pool() noexcept { return *pool_; }

  // Every rank of the world calls it between two steps, and gets the same answer. It returns true where a joiner waits
  // or a spare was lost; all should then call reform(). It costs a broadcast of one number. Throws Exception.
  bool change_is_due();
  // Waits on a spare until it should call reform(), or until the job is over. It has no time limit and uses no core.
  void wait_for_change();

  // Every living member calls it, after a failure or when a change is due, with its contribution. Returns when a new
  // world stands (formation()), or when the job is over. Members that die meanwhile are left out. The error is
  // Unavailable, with start_again(), where there are fewer members than the job's minimum or than a world needs.
  Status reform(const Contribution& mine);
  bool start_again() const noexcept { return start_again_; }

  // Ends the members that wait or join later, with this exit code. The first rank of the world calls it when all is
  // done. It also calls it when all its ranks have found together that they cannot continue.
  Status announce_over(int code = 0) const { return folder_.announce_over(code); }
  bool over() const noexcept { return over_; }
  // Returns the exit code of a job that is over.
  int over_code() const noexcept { return over_code_; }

 private:
  struct Hello;
  ElasticWorld(const ElasticJob& job, ElasticOptions options);
  // Reads from the folder whether the job is over.
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
  // By rank of the pool: the member's rank in the world before the meeting.
  std::vector<int> world_places_;
  bool over_ = false;
  int over_code_ = 0;
  bool start_again_ = false;
  std::int64_t looked_ns_ = 0;  // for joiners
};

}  // namespace wreath::training
