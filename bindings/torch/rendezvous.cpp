// Makes ranks meet by a store: rank 0 sets the key, the others look for it. A value that is no id is the sentence of
// rank 0's error.
#include "bindings/torch/rendezvous.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "wreath/unique_id.hpp"

namespace wreath_torch {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using wreath::Error;
using wreath::ErrorCode;
using wreath::Result;
using wreath::UniqueId;

constexpr milliseconds kFirstLook{1};
constexpr milliseconds kLongestSleep{50};

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

Error given_up() { return {ErrorCode::Aborted, "the group was aborted", -1}; }

// Returns the first line of what a store throws; the others are its stack.
std::string sentence_of(const std::exception& thrown) {
  const std::string text = thrown.what();
  return text.substr(0, text.find('\n'));
}

// Asks the store, which throws where the process that serves it has ended.
template <typename Question>
auto ask(const Meeting& meeting, Question question) -> Result<decltype(question(*meeting.store))> {
  try {
    return question(*meeting.store);
  } catch (const std::exception& thrown) {
    return Error{ErrorCode::StartupFailed,
                 "torch's store, by which they meet, cannot be asked: " + sentence_of(thrown) +
                     "; the process that serves it, rank 0 of the job as a rule, must live until then",
                 -1};
  }
}

Result<UniqueId> make_id(const Meeting& meeting) {
  auto made = UniqueId::create_for_hosts();
  const std::string text = made ? made->to_string() : "rank 0: " + made.error().message;
  const auto told = ask(meeting, [&](c10d::Store& store) {
    store.set(meeting.key, bytes_of(text));
    return true;
  });
  return told ? std::move(made) : told.error();
}

Result<UniqueId> look_for_id(const Meeting& meeting) {
  const auto end = steady_clock::now() + meeting.timeout;
  milliseconds sleep = kFirstLook;
  for (;;) {
    const auto there = ask(meeting, [&](c10d::Store& store) { return store.check({meeting.key}); });
    if (!there) return there.error();
    if (*there) break;
    if (meeting.interrupt->wait(sleep)) return given_up();
    if (steady_clock::now() > end) {
      return Error{ErrorCode::StartupFailed,
                   "rank " + std::to_string(meeting.rank) + " waited " + std::to_string(meeting.timeout.count()) +
                       " ms for rank 0 of " + std::to_string(meeting.ranks) + ", which has not come",
                   0};
    }
    sleep = std::min(2 * sleep, kLongestSleep);
  }
  const auto value = ask(meeting, [&](c10d::Store& store) { return store.get(meeting.key); });
  if (!value) return value.error();
  const std::string text(value->begin(), value->end());
  if (text.starts_with("rank 0: ")) return Error{ErrorCode::StartupFailed, text, 0};
  return UniqueId::parse(text);
}

Result<wreath::Communicator> meet_by_store(const Meeting& meeting) {
  const auto id = meeting.rank == 0 ? make_id(meeting) : look_for_id(meeting);
  if (!id) return id.error();
  auto met =
      wreath::Communicator::create(*id, meeting.rank, meeting.ranks, meeting.options, meeting.interrupt->descriptor());
  // No rank leaves before the key is gone: a rank that comes again at once must not find it. No rank reads a store that
  // has ended.
  if (meeting.rank == 0)
    static_cast<void>(ask(meeting, [&](c10d::Store& store) { return store.deleteKey(meeting.key); }));
  if (!met) return met;
  WREATH_TRY(met->barrier());
  return met;
}

}  // namespace

Interrupt::Interrupt() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (descriptor_ < 0) throw std::runtime_error(std::string("wreath: eventfd: ") + std::strerror(errno));
}

Interrupt::~Interrupt() { ::close(descriptor_); }

void Interrupt::raise() noexcept { static_cast<void>(::eventfd_write(descriptor_, 1)); }

bool Interrupt::wait(milliseconds time) const noexcept {
  pollfd one{descriptor_, POLLIN, 0};
  return ::poll(&one, 1, static_cast<int>(time.count())) > 0;
}

Result<wreath::Communicator> meet(const Meeting& meeting) {
  auto met = meet_by_store(meeting);
  if (met) return met;
  const Error& error = met.error();
  return Error{error.code, meeting.who + " have not met: " + error.message, error.failed_rank};
}

wreath::Timeouts clocks_of(milliseconds timeout) {
  wreath::Timeouts clocks;
  const std::int64_t all = std::max<std::int64_t>(timeout.count(), 1);
  clocks.bootstrap_ms = clocks.arrival_ms = all;
  clocks.late_warning_ms = std::min(clocks.late_warning_ms, std::max<std::int64_t>(all / 2, 1));
  clocks.stall_ms = std::min(clocks.stall_ms, all);
  return clocks;
}

}  // namespace wreath_torch
