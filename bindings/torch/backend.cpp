// Implements a group's life: its ranks meet, its calls begin, and it ends.
#include "bindings/torch/backend.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <set>
#include <utility>

#include "bindings/torch/gil.hpp"

namespace wreath_torch {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Limits the wait for what is in flight when a group ends.
constexpr milliseconds kGrace{5'000};

// Holds the groups of this process that were not shut down.
class Living {
 public:
  void add(WreathBackend* backend) {
    const std::lock_guard lock(mutex_);
    all_.insert(backend);
  }
  void remove(WreathBackend* backend) {
    const std::lock_guard lock(mutex_);
    all_.erase(backend);
  }
  std::vector<WreathBackend*> all() {
    const std::lock_guard lock(mutex_);
    return {all_.begin(), all_.end()};
  }

 private:
  std::mutex mutex_;
  std::set<WreathBackend*> all_;
};

Living& living() {
  // The object lives as long as the process, whatever ends first.
  static Living& groups = *new Living;
  return groups;
}

const Membership& checked(const Membership& membership) {
  TORCH_CHECK_VALUE(membership.size > 0 && membership.rank >= 0 && membership.rank < membership.size, "wreath: rank ",
                    membership.rank, " of ", membership.size, ": there is no such rank");
  TORCH_CHECK_VALUE(membership.timeout.count() > 0, "wreath: timeout of ", membership.timeout.count(), " ms");
  TORCH_CHECK_VALUE(membership.store, "wreath: there is no store");
  return membership;
}

Meeting meeting_of_all(const Membership& membership) {
  Meeting meeting;
  meeting.store = membership.store;
  meeting.key = "wreath";
  meeting.who = "the ranks of group " + membership.group.name;
  meeting.rank = membership.rank;
  meeting.ranks = membership.size;
  meeting.timeout = membership.timeout;
  meeting.options.timeouts = clocks_of(membership.timeout);
  return meeting;
}

}  // namespace

WreathBackend::WreathBackend(Membership membership)
    : Backend(checked(membership).rank, membership.size),
      membership_(std::move(membership)),
      timeout_ms_(membership_.timeout.count()),
      all_(std::make_shared<Channel>(meeting_of_all(membership_), membership_.group)) {
  all_->connect();
  init();
  living().add(this);
}

WreathBackend::~WreathBackend() {
  const ReleasedGil released;
  WreathBackend::shutdown();
}

c10::intrusive_ptr<c10d::Backend::Options> WreathBackend::getBackendOptions() {
  auto options = c10::make_intrusive<Options>(kBackendName, milliseconds(timeout_ms_.load()));
  options->group_name = membership_.group.name;
  options->global_ranks_in_group.assign(membership_.group.global_ranks.begin(), membership_.group.global_ranks.end());
  return options;
}

void WreathBackend::setTimeout(milliseconds timeout) {
  TORCH_CHECK_VALUE(timeout.count() > 0, "wreath: timeout of ", timeout.count(), " ms");
  timeout_ms_.store(timeout.count());
}

c10::intrusive_ptr<c10d::Backend> WreathBackend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                       const std::vector<int>& ranks,
                                                       const c10::intrusive_ptr<Options>& options) {
  const auto place = std::find(ranks.begin(), ranks.end(), rank_);
  if (place == ranks.end()) return nullptr;
  Membership part;
  part.store = store;
  part.rank = static_cast<int>(place - ranks.begin());
  part.size = static_cast<int>(ranks.size());
  part.timeout = options ? options->timeout : milliseconds(timeout_ms_.load());
  part.group.name = options ? options->group_name : membership_.group.name + " in part";
  const std::vector<std::int64_t>& global = membership_.group.global_ranks;
  for (const int rank : ranks) {
    const auto index = static_cast<std::size_t>(rank);
    part.group.global_ranks.push_back(index < global.size() ? global[index] : rank);
  }
  return c10::make_intrusive<WreathBackend>(std::move(part));
}

c10d::ErrorType WreathBackend::getError() {
  const wreath::Status status = all_->error();
  if (status) return c10d::ErrorType::SUCCESS;
  switch (status.error().code) {
    case wreath::ErrorCode::Timeout: return c10d::ErrorType::TIMEOUT;
    case wreath::ErrorCode::PeerLost:
    case wreath::ErrorCode::Aborted: return c10d::ErrorType::REMOTE_ERROR;
    default: return c10d::ErrorType::COMM_ERROR;
  }
}

std::vector<std::shared_ptr<Channel>> WreathBackend::channels() {
  std::vector<std::shared_ptr<Channel>> every{all_};
  const std::lock_guard lock(mutex_);
  for (const auto& pair : pairs_) every.push_back(pair.second);
  return every;
}

void WreathBackend::abort() {
  for (const auto& channel : channels()) channel->abort();
}

void WreathBackend::shutdown() {
  living().remove(this);
  const auto end = steady_clock::now() + kGrace;
  for (const auto& channel : channels()) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - steady_clock::now());
    channel->close(std::max(left, milliseconds(0)));
  }
}

void shut_down_all() {
  for (WreathBackend* backend : living().all()) backend->shutdown();
}

// ---- the beginning of calls ----

WreathBackend::WorkPointer WreathBackend::enter(const CallName& name, const Settings& settings, const Tensors& inputs,
                                                Tensors outputs, Body body) {
  auto work = c10::make_intrusive<CallWork>(rank_, name, inputs, std::move(outputs), sequence_.fetch_add(1));
  return enter(all_, settings, std::move(work), std::move(body));
}

WreathBackend::WorkPointer WreathBackend::enter(const std::shared_ptr<Channel>& channel, const Settings& settings,
                                                c10::intrusive_ptr<CallWork> work, Body body) {
  const std::int64_t timeout = settings.timeout.count() > 0 ? settings.timeout.count() : timeout_ms_.load();
  Task task{work, std::move(body), timeout == membership_.timeout.count() ? -1 : timeout};
  {
    const std::lock_guard lock(mutex_);
    if (batch_ && batch_->thread == std::this_thread::get_id()) batch_->works.push_back(work);
  }
  if (settings.asynchronous) {
    channel->submit(std::move(task));
  } else {
    channel->run(std::move(task));
  }
  return work;
}

void WreathBackend::startCoalescing() {
  const std::lock_guard lock(mutex_);
  // torch does not end one in which a call was a mistake.
  batch_ = Batch{std::this_thread::get_id(), {}};
}

WreathBackend::WorkPointer WreathBackend::endCoalescing() {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(batch_, "wreath: endCoalescing without startCoalescing");
  auto work = c10::make_intrusive<JointWork>(rank_, std::move(batch_->works));
  batch_.reset();
  return work;
}

void WreathBackend::check_root(std::string_view call, std::int64_t root) const {
  TORCH_CHECK_VALUE(root >= 0 && root < size_, "wreath: ", call, ": root = ", root, ": there are ", size_, " ranks");
}

}  // namespace wreath_torch
