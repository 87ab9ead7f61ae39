// This file lets the members of an elastic job meet: at the start, after a loss, and when somebody joins.
#include "training/elastic/elastic_world.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace wreath::training {

namespace {

using Clock = std::chrono::steady_clock;

// The number of meetings that may fail, each by a death, before reform() gives up.
constexpr int kMeetings = 20;
// The number of requests of a joiner whose meetings fail.
constexpr int kAskings = 3;
constexpr std::int64_t kLookNs = 250'000'000;
constexpr std::chrono::milliseconds kPoll(20);
constexpr int kPollsToAskAgain = 250;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

}  // namespace

bool caused_by_a_loss(const Error& error) noexcept {
  return error.code == ErrorCode::PeerLost || error.code == ErrorCode::Aborted || error.code == ErrorCode::Timeout ||
         error.code == ErrorCode::StartupFailed;
}

// A member's data as it is sent to the others.
struct ElasticWorld::Hello {
  std::int32_t number = 0;
  std::int32_t pid = 0;
  std::int32_t world_rank = -1;
  std::int32_t world_ranks = 0;
  std::int64_t generation = 0;
  std::array<char, 64> host{};
  Contribution contribution;
};

std::string name(const Member& member) {
  return fmt::format("member {} (host {}, pid {})", member.number, member.host, member.pid);
}

ElasticWorld::ElasticWorld(const ElasticJob& job, ElasticOptions options)
    : job_(job), options_(std::move(options)), folder_(job.folder) {}

ElasticWorld::~ElasticWorld() = default;

Result<std::unique_ptr<ElasticWorld>> ElasticWorld::join(const ElasticJob& job, const ElasticOptions& options) {
  std::unique_ptr<ElasticWorld> world(new ElasticWorld(job, options));
  WREATH_TRY(job.joiner >= 0 ? world->join_later() : world->start());
  return world;
}

// ---- joining ----

Status ElasticWorld::start() {
  const Result<EnvironmentJob> ranks = environment_job();
  if (!ranks) return ranks.error();
  number_ = ranks->rank;
  if (number_ == 0) WREATH_TRY(folder_.announce(0));
  Result<Communicator> pool = Communicator::create_from_environment();
  if (!pool) return pool.error();
  pool_ = std::make_unique<Communicator>(std::move(*pool));
  const Contribution nothing;
  Status met = say_hello(nothing);
  if (met) met = form_world();
  return met || !caused_by_a_loss(met.error()) ? met : reform(nothing);
}

bool ElasticWorld::ended() {
  const ElasticFolder::Announcement announced = folder_.announced();
  over_ = announced.over;
  over_code_ = announced.code;
  return over_;
}

Status ElasticWorld::join_later() {
  number_ = job_.joiner;
  for (int asked = 0; asked < kAskings; ++asked) {
    WREATH_TRY(folder_.ask({number_, ::getpid(), own_host()}));
    std::optional<Invitation> invitation;
    for (int polls = 1; !invitation; ++polls) {
      if (ended()) return {};
      std::this_thread::sleep_for(kPoll);
      invitation = folder_.take_invitation(number_);
      if (!invitation && polls % kPollsToAskAgain == 0) WREATH_TRY(folder_.ask({number_, ::getpid(), own_host()}));
    }
    const Result<bool> accepted = accept(*invitation);
    if (!accepted) return accepted.error();
    if (*accepted) return {};
  }
  return Error{ErrorCode::StartupFailed,
               fmt::format("member {} was invited {} times, and each meeting failed", number_, kAskings)};
}

// Returns false where a member died before all had spoken over the new pool, so that the members do not use it.
Result<bool> ElasticWorld::accept(const Invitation& invitation) {
  CommunicatorOptions options;
  options.timeouts.bootstrap_ms = options_.join_timeout_ms;
  Result<Communicator> pool = Communicator::create(invitation.id, invitation.rank, invitation.ranks, options);
  if (!pool) return false;
  pool_ = std::make_unique<Communicator>(std::move(*pool));
  formation_.generation = invitation.generation;
  const Contribution nothing;
  if (!pool_->barrier() || !say_hello(nothing)) return false;
  ++formation_.generation;
  WREATH_TRY(folder_.note_joined(number_));
  Status met = form_world();
  if (!met && caused_by_a_loss(met.error())) met = reform(nothing);
  if (!met) return met.error();
  return true;
}

// ---- waiting for changes ----

bool ElasticWorld::change_is_due() {
  std::int64_t due = 0;
  if (world_->rank() == 0) {
    if (const std::int64_t now = now_ns(); now - looked_ns_ >= kLookNs) {
      looked_ns_ = now;
      due = waiting().empty() ? 0 : 1;
    }
    if (!pool_->error()) due = 1;
  }
  if (world_->ranks() > 1) world_->broadcast(std::span(&due, 1), 0).value();
  return due != 0;
}

void ElasticWorld::wait_for_change() {
  for (;;) {
    const ElasticFolder::Announcement announced = folder_.announced();
    over_ = announced.over;
    over_code_ = announced.code;
    if (over_ || announced.generation > formation_.generation || !pool_->error()) return;
    std::this_thread::sleep_for(kPoll);
  }
}

// ---- meeting again ----

Status ElasticWorld::reform(const Contribution& mine) {
  const Clock::time_point start = Clock::now();
  const std::vector<Member> before = formation_.members;
  Contribution now = mine;
  if (trains()) static_cast<void>(folder_.announce(formation_.generation + 1));
  ++formation_.generation;
  formation_.cause.clear();
  Status met;
  for (int meeting = 0; meeting < kMeetings; ++meeting) {
    Result<Communicator> survivors = pool_->shrink(options_.shrink_timeout_ms);
    if (const Status failed = pool_->error(); !failed && formation_.cause.empty()) {
      formation_.cause = failed.error().message;
    }
    if (ended()) return {};
    if (!survivors) return survivors.error();
    pool_ = std::make_unique<Communicator>(std::move(*survivors));
    met = meet(now);
    if (met) {
      note_changes(before);
      formation_.seconds = std::chrono::duration<double>(Clock::now() - start).count();
      return {};
    }
    if (!caused_by_a_loss(met.error())) return met;
    // Others may have completed this meeting, and wait in the world for this rank.
    if (world_) static_cast<void>(world_->abort());
    now.unharmed = now.keep_world = false;
  }
  return met;
}

Status ElasticWorld::meet(const Contribution& mine) {
  WREATH_TRY(say_hello(mine));
  if (folder_.announced().generation > formation_.generation) {
    return Error{ErrorCode::InvalidUsage, fmt::format("member {}: the others have gone on without it", number_)};
  }
  WREATH_TRY(admit_joiners(mine));
  return form_world();
}

Status ElasticWorld::say_hello(const Contribution& mine) {
  Hello hello;
  hello.number = number_;
  hello.pid = ::getpid();
  if (world_) {
    hello.world_rank = world_->rank();
    hello.world_ranks = world_->ranks();
  }
  hello.generation = formation_.generation;
  own_host().copy(hello.host.data(), hello.host.size() - 1);
  hello.contribution = mine;
  std::vector<Hello> all(static_cast<std::size_t>(pool_->ranks()));
  WREATH_TRY(pool_->all_gather(&hello, all.data(), sizeof hello, DataType::Uint8));
  formation_.members.clear();
  world_places_.clear();
  for (const Hello& one : all) {
    formation_.members.push_back({one.number, one.pid, one.host.data(), one.contribution});
    formation_.generation = std::max(formation_.generation, one.generation);
    world_places_.push_back(one.contribution.unharmed ? one.world_rank : -1);
    if (one.world_rank == 0) formation_.world_ranks = one.world_ranks;
  }
  return {};
}

// Returns the joiners who have asked and are no members.
std::vector<Joiner> ElasticWorld::waiting() const {
  std::vector<Joiner> joiners = folder_.joiners();
  std::erase_if(joiners, [&](const Joiner& joiner) {
    const bool member =
        std::ranges::find(formation_.members, joiner.number, &Member::number) != formation_.members.end();
    if (member) folder_.dismiss(joiner.number);
    return member;
  });
  return joiners;
}

// Admits the joiners who wait, unless there was a failure. After one the members first continue without them, and admit
// them at the next step.
Status ElasticWorld::admit_joiners(const Contribution& mine) {
  const bool calm = std::ranges::any_of(formation_.members, [](const Member& m) { return m.contribution.unharmed; });
  if (!calm) return {};
  std::vector<Joiner> joiners;
  if (pool_->rank() == 0) joiners = waiting();
  const Result<bool> admitted = admit(joiners, mine);
  for (const Joiner& joiner : joiners) folder_.dismiss(joiner.number);
  return admitted ? Status() : Status(admitted.error());
}

Result<UniqueId> ElasticWorld::invite(std::span<const Joiner> joiners) const {
  const Result<UniqueId> id = UniqueId::create(job_.address);
  if (!id) return id.error();
  Invitation invitation{*id, pool_->ranks(), pool_->ranks() + static_cast<int>(joiners.size()), formation_.generation};
  for (const Joiner& joiner : joiners) {
    WREATH_TRY(folder_.invite(joiner.number, invitation));
    ++invitation.rank;
  }
  return *id;
}

// Makes the pool anew with the joiners, who are known to its first rank only. Returns false where there are none, or
// where one did not come. The pool is then the former one, and also after an error.
//
// The new pool counts once all have spoken over it. A member that dies at that very moment can leave some others in
// doubt whether it does. These go back to the old pool. They find by the generation that they were left behind, since
// the new pool has raised it before any member left the old one.
Result<bool> ElasticWorld::admit(std::span<const Joiner> joiners, const Contribution& mine) {
  struct {
    std::int64_t joiners = 0;
    UniqueId id;
  } call;
  if (!joiners.empty()) {
    if (const Result<UniqueId> id = invite(joiners)) {
      call.joiners = static_cast<std::int64_t>(joiners.size());
      call.id = *id;
    }
  }
  WREATH_TRY(pool_->broadcast(&call, &call, sizeof call, DataType::Uint8, 0));
  if (call.joiners == 0) return false;
  CommunicatorOptions options;
  options.timeouts.bootstrap_ms = options_.join_timeout_ms;
  Result<Communicator> larger =
      Communicator::create(call.id, pool_->rank(), pool_->ranks() + static_cast<int>(call.joiners), options);
  std::int64_t came = larger ? 1 : 0;
  WREATH_TRY(pool_->all_reduce(std::span(&came, 1), ReduceOp::Min));
  if (came == 0) return false;
  std::unique_ptr<Communicator> former = std::exchange(pool_, std::make_unique<Communicator>(std::move(*larger)));
  Status spoken = pool_->barrier();
  if (spoken) spoken = say_hello(mine);
  if (!spoken) {
    pool_ = std::move(former);
    return spoken.error();
  }
  ++formation_.generation;
  if (pool_->rank() == 0) WREATH_TRY(folder_.announce(formation_.generation));
  return true;
}

// Returns whether the former world can continue: all of its ranks are here, in their order, and unharmed.
bool ElasticWorld::world_stands(int wanted) const {
  const int ranks = formation_.world_ranks;
  if (ranks == 0 || ranks > static_cast<int>(world_places_.size())) return false;
  for (int rank = 0; rank < ranks; ++rank) {
    if (world_places_[static_cast<std::size_t>(rank)] != rank) return false;
  }
  return wanted == ranks || formation_.members.front().contribution.keep_world;
}

Status ElasticWorld::form_world() {
  const int members = pool_->ranks();
  const int wanted = options_.world_ranks(std::min(members, job_.max_ranks));
  if (members < job_.min_ranks || wanted < 1) {
    start_again_ = true;
    return Error{ErrorCode::Unavailable, fmt::format("{} {} left: too few to go on (the job's least is {})", members,
                                                     members == 1 ? "rank is" : "ranks are", job_.min_ranks)};
  }
  formation_.same_world = world_stands(wanted);
  if (formation_.same_world) return {};
  world_ = nullptr;
  Result<Communicator> world = pool_->split(pool_->rank() < wanted ? 0 : -1, pool_->rank());
  if (!world) return world.error();
  if (world->ranks() > 0) world_ = std::make_shared<Communicator>(std::move(*world));
  formation_.world_ranks = wanted;
  return {};
}

void ElasticWorld::note_changes(const std::vector<Member>& before) {
  const auto missing_in = [](const std::vector<Member>& all, const std::vector<Member>& from) {
    std::vector<Member> missing;
    for (const Member& member : from) {
      if (std::ranges::find(all, member.number, &Member::number) == all.end()) missing.push_back(member);
    }
    return missing;
  };
  formation_.lost = missing_in(formation_.members, before);
  formation_.joined = before.empty() ? std::vector<Member>() : missing_in(before, formation_.members);
}

}  // namespace wreath::training
