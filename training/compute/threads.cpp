// This file keeps a team of helper threads for each thread that divides loops.
#include "training/compute/threads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "wreath/result.hpp"

namespace wreath::training {

namespace {

constinit std::atomic<int> threads_set{1};
thread_local bool inside = false;  // this thread is inside a body

// A loop in parts of `part` elements.
struct Loop {
  std::int64_t count = 0;
  std::int64_t part = 1;
  const std::function<void(std::int64_t, std::int64_t)>* body = nullptr;

  void run(std::int64_t index) const {
    const std::int64_t begin = std::min(count, index * part);
    const std::int64_t end = std::min(count, begin + part);
    if (begin < end) (*body)(begin, end);
  }
};

// The helpers of one thread. Helper i does part i + 1 of each loop.
class Team {
 public:
  explicit Team(int helpers) {
    try {
      for (int i = 0; i < helpers; ++i) helpers_.emplace_back([this, i] { help(i + 1); });
    } catch (...) {
      end();
      throw;
    }
  }
  ~Team() { end(); }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int threads() const noexcept { return static_cast<int>(helpers_.size()) + 1; }

  void run(const Loop& loop) {
    {
      const std::lock_guard lock(mutex_);
      loop_ = loop;
      left_ = static_cast<int>(helpers_.size());
      ++round_;
    }
    begun_.notify_all();
    run_part(loop, 0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return left_ == 0; });
    if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void help(int index) {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      begun_.wait(lock, [&] { return ended_ || round_ != seen; });
      if (ended_) return;
      seen = round_;
      const Loop loop = loop_;
      lock.unlock();
      run_part(loop, index);
      lock.lock();
      if (--left_ == 0) done_.notify_one();
    }
  }
  void run_part(const Loop& loop, int index) {
    inside = true;
    try {
      loop.run(index);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (error_ == nullptr) error_ = std::current_exception();
    }
    inside = false;
  }
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    begun_.notify_all();
    for (std::thread& helper : helpers_) helper.join();
  }

  std::mutex mutex_;
  std::condition_variable begun_;
  std::condition_variable done_;
  Loop loop_;
  std::uint64_t round_ = 0;
  // The number of helpers that have not ended their part.
  int left_ = 0;
  bool ended_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> helpers_;
};

// Returns the calling thread's team of `threads` threads.
Team& team_of(int threads) {
  thread_local std::unique_ptr<Team> team;
  if (team == nullptr || team->threads() != threads) {
    team.reset();
    team = std::make_unique<Team>(threads - 1);
  }
  return *team;
}

}  // namespace

void set_math_threads(int count) {
  if (count < 1 || count > 1024) {
    throw Exception(
        {ErrorCode::InvalidArgument, fmt::format("set_math_threads: count is {}, expected 1 to 1024", count)});
  }
  threads_set.store(count, std::memory_order_relaxed);
}

int math_threads() noexcept { return threads_set.load(std::memory_order_relaxed); }

void parallel_for(std::int64_t count, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& body) {
  const int threads = math_threads();
  if (threads == 1 || inside || count <= grain) {
    if (count > 0) body(0, count);
    return;
  }
  const std::int64_t grains = (count + grain - 1) / grain;
  const std::int64_t part = (grains + threads - 1) / threads * grain;
  team_of(threads).run({count, part, &body});
}

}  // namespace wreath::training
