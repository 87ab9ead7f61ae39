// Starts threads that wait at a gate until all of them have been started.
#include "src/command_line/threads.hpp"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

namespace wreath::command_line {

Error error_of(const std::exception& thrown) {
  if (const auto* const ours = dynamic_cast<const Exception*>(&thrown)) return ours->error();
  if (dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr) {
    return {ErrorCode::System, "no memory: the system refused more"};
  }
  if (const auto* const refused = dynamic_cast<const std::system_error*>(&thrown)) {
    return {ErrorCode::System, fmt::format("the system refused: {}", refused->what())};
  }
  return {ErrorCode::System, fmt::format("unexpected: {}", thrown.what())};
}

Status guarded(const std::function<Status()>& body) {
  try {
    return body();
  } catch (const std::exception& thrown) {
    return error_of(thrown);
  }
}

Status run_threads(int count, const std::function<Status(int)>& body) {
  std::mutex mutex;
  std::optional<Error> first;
  std::atomic<int> go = 0;  // 1: all have been started; -1: one cannot be started
  const auto run = [&](int number) {
    go.wait(0);
    if (go < 0) return;
    const Status status = guarded([&] { return body(number); });
    const std::lock_guard lock(mutex);
    if (!status && !first) first = status.error();
  };
  std::vector<std::thread> threads;
  try {
    for (int i = 0; i < count; ++i) threads.emplace_back(run, i);
  } catch (const std::system_error& refused) {
    first = Error{ErrorCode::System, fmt::format("cannot start thread {} of {}: {}; raise the limit with ulimit -u",
                                                 threads.size() + 1, count, refused.what())};
  }
  go = first ? -1 : 1;
  go.notify_all();
  for (std::thread& thread : threads) thread.join();
  return first ? Status(*first) : Status();
}

}  // namespace wreath::command_line
