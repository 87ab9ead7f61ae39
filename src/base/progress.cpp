// Parked in epoll_wait unless a client has work that nobody waits for.
#include "src/base/progress.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "src/base/remote_fence.hpp"
#include "src/base/signals.hpp"
#include "src/base/slice.hpp"
#include "src/base/socket.hpp"

namespace wreath {
namespace {

struct Holder {
  std::mutex mutex;
  std::weak_ptr<Progress> instance;
  std::uint32_t generation = 0;
};

Holder& holder() {
  static Holder* const value = new Holder;  // NOLINT(cppcoreguidelines-*): outlives every thread
  return *value;
}

}  // namespace

Result<std::shared_ptr<Progress>> Progress::instance() {
  notice_forks();
  Holder& all = holder();
  const std::lock_guard lock(all.mutex);
  std::shared_ptr<Progress> found = all.generation == fork_generation() ? all.instance.lock() : nullptr;
  if (found) return found;
  found = std::shared_ptr<Progress>(new Progress);
  WREATH_TRY(found->start());
  all.instance = found;
  all.generation = fork_generation();
  return found;
}

Progress::Progress()
    : epoll_(Fd::of_process(epoll_create1(EPOLL_CLOEXEC))),
      wake_(Fd::of_process(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))) {}

Status Progress::start() {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;
  if (!epoll_ || !wake_ || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
    return os_error("make the progress thread's descriptors", errno);
  }
  const BlockedSignals blocked;
  try {
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "wreath-progress");
  } catch (const std::system_error& refused) {
    return Error{ErrorCode::System, fmt::format("cannot start the progress thread: {}", refused.what())};
  }
  return {};
}

Progress::~Progress() {
  stop_ = true;
  kick();
  if (thread_.joinable()) thread_.join();
}

void Progress::add(Client& client) {
  const std::lock_guard lock(mutex_);
  clients_.push_back(&client);
}

void Progress::remove(Client& client) {
  const std::lock_guard lock(mutex_);
  std::erase(clients_, &client);
  for (auto& watch : watches_) {
    if (watch->client != &client) continue;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watch->descriptor, nullptr);
    watch->client = nullptr;
    removed_.push_back(std::move(watch));
  }
  std::erase_if(watches_, [](const auto& watch) { return watch == nullptr; });
  kick();
}

void Progress::watch(int descriptor, std::uint32_t events, Client& client, std::uint64_t token) {
  const std::lock_guard lock(mutex_);
  watch_within(descriptor, events, client, token);
}

void Progress::watch_within(int descriptor, std::uint32_t events, Client& client, std::uint64_t token) {
  watches_.push_back(std::make_unique<Watch>(Watch{descriptor, &client, token}));
  epoll_event event{};
  event.events = events;
  event.data.ptr = watches_.back().get();
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event);
}

void Progress::unwatch(int descriptor) {
  for (auto& watch : watches_) {
    if (watch->descriptor != descriptor) continue;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
    watch->client = nullptr;
    removed_.push_back(std::move(watch));
  }
  std::erase_if(watches_, [](const auto& watch) { return watch == nullptr; });
}

void Progress::kick() {
  if (kicked_.exchange(true)) return;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_.get(), &one, sizeof one));
}

void Progress::run() {
  ask_for_short_turns();
  while (!stop_) {
    const auto driven = drive_all();
    switch (driven) {
      case Client::Driven::Nothing:
      case Client::Driven::Later:
        if (wants_fences_.exchange(false)) register_for_fences();
        dispatch(driven == Client::Driven::Later ? kLaterMs : -1);
        break;
      case Client::Driven::Moved: dispatch(0); break;
      case Client::Driven::Waiting: wait_driving(); break;
    }
  }
}

Progress::Client::Driven Progress::drive_all() {
  const std::lock_guard lock(mutex_);
  auto result = Client::Driven::Nothing;
  for (Client* client : clients_) result = std::max(result, client->drive());
  return result;
}

// Work is in flight but waits for peers: yield a little, then sleep until one of them rings.
void Progress::wait_driving() {
  for (int i = 0; i < 20; ++i) {
    sched_yield();
    if (drive_all() != Client::Driven::Waiting) return;
  }
  std::vector<int> descriptors;
  int longest_ms = kForever;
  {
    const std::lock_guard lock(mutex_);
    for (Client* client : clients_) longest_ms = std::min(longest_ms, client->begin_wait(descriptors));
  }
  if (drive_all() == Client::Driven::Waiting && longest_ms > 0) {
    std::vector<pollfd> polled{{epoll_.get(), POLLIN, 0}};
    for (const int descriptor : descriptors) polled.push_back({descriptor, POLLIN, 0});
    ::poll(polled.data(), polled.size(), longest_ms);
  }
  {
    const std::lock_guard lock(mutex_);
    for (Client* client : clients_) client->end_wait();
  }
  dispatch(0);
}

void Progress::dispatch(int timeout_ms) {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const auto* watch = static_cast<const Watch*>(event.data.ptr);
    if (watch == nullptr) {
      std::uint64_t value = 0;
      static_cast<void>(!::read(wake_.get(), &value, sizeof value));
      kicked_ = false;  // after the read: a kick in between is served by the round that follows
    } else if (watch->client != nullptr) {
      watch->client->on_event(watch->token, event.events);
    }
  }
  removed_.clear();
}

}  // namespace wreath
