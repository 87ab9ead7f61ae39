// Implements the life of a member, and the handles that programs have.
#include "bindings/nccl/member.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "bindings/nccl/errors.hpp"

namespace wreath::nccl {
namespace {

// With this bound an abort as a whole stays within a second.
constexpr std::chrono::milliseconds kAbortBound(300);
// A wait for streams looks so often whether the communicator has failed.
constexpr std::int64_t kLookMs = 100;

}  // namespace

StartInterrupt::StartInterrupt() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

StartInterrupt::~StartInterrupt() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void StartInterrupt::set() const {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(descriptor_, &one, sizeof one));
}

// ---- the start ----

ncclResult_t Member::joined(Result<Communicator> made) {
  std::unique_lock lock(mutex_);
  if (state_ != State::Joining) return result_;
  lock.unlock();
  const ncclResult_t code = note(made ? Status() : Status(made.error()));
  lock.lock();
  if (made && !abandoned_) {
    communicator_ = std::move(*made);
    rank_ = communicator_.rank();
    ranks_ = communicator_.ranks();
  }
  state_ = made ? State::Ready : State::Failed;
  changed_.notify_all();
  return code;
}

// ---- use ----

ncclResult_t Member::enter(bool revoked_too) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::Failed) return refuse(result_, text_);
  if (state_ == State::Joining) return refuse(ncclInvalidUsage, "the communicator is still being made");
  if (state_ == State::Ended || finalizing_)
    return refuse(ncclInvalidUsage, "the communicator was finalized or aborted");
  if (revoked_ && !revoked_too) return refuse(ncclInvalidUsage, "the communicator was revoked");
  ++inside_;
  return ncclSuccess;
}

void Member::exit() {
  const std::lock_guard lock(mutex_);
  --inside_;
  changed_.notify_all();
}

ncclResult_t Member::note(const Status& status) {
  if (status) return ncclSuccess;
  const ncclResult_t code = code_of(status.error(), rank());
  if (code == ncclInProgress) return code;
  const std::string text =
      identity_.name.empty() ? status.error().message : identity_.name + ": " + status.error().message;
  const std::lock_guard lock(mutex_);
  const bool own_doing = revoked_ && status.error().code == ErrorCode::Aborted;
  // The caller of a blocking communicator hears of a refusal, after which the communicator goes on.
  const bool refused = state_ == State::Ready && blocking() && code == ncclInvalidUsage && communicator_.error();
  if (result_ == ncclSuccess && !own_doing && !refused) {
    result_ = code;
    text_ = text;
  }
  return refuse(code, text);
}

ncclResult_t Member::note_own_error() {
  const std::unique_lock lock(mutex_);
  if (state_ != State::Ready || revoked_ || result_ != ncclSuccess) return result_;
  const Status status = communicator_.error();
  if (status) return ncclSuccess;
  result_ = code_of(status.error(), rank());
  text_ = status.error().message;
  return refuse(result_, text_);
}

ncclResult_t Member::fail(const Error& error) {
  const ncclResult_t code = note(error);
  static_cast<void>(communicator_.abort());
  return code;
}

std::string Member::error_text() {
  const std::lock_guard lock(mutex_);
  return text_;
}

ncclResult_t Member::asynchronous() {
  static_cast<void>(note_own_error());
  const std::lock_guard lock(mutex_);
  const bool busy = state_ == State::Joining || !turns_.empty() || !works_are_over();
  return result_ != ncclSuccess ? result_ : busy ? ncclInProgress : ncclSuccess;
}

Result<Stream*> Member::stream(Device& device, void* handle) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Stream>& kept = streams_[{&device, handle}];
  if (kept == nullptr) {
    auto stream = use_cuda_stream(device, handle);
    if (!stream) return stream.error();
    kept = *std::move(stream);
  }
  return kept.get();
}

int number_of(const Device* device) {
  const Result<int> devices = device == nullptr ? Result<int>(0) : cuda_devices();
  for (int number = 0; devices && number < *devices; ++number) {
    const auto found = cuda_device(number);
    if (found && *found == device) return number;
  }
  return -1;
}

// ---- turns ----

std::uint64_t Member::take_turn() {
  const std::lock_guard lock(mutex_);
  turns_.insert(++taken_turns_);
  return taken_turns_;
}

bool Member::is_next(std::uint64_t turn) {
  const std::lock_guard lock(mutex_);
  return *turns_.begin() == turn;
}

void Member::wait_for_turn(std::uint64_t turn) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return *turns_.begin() == turn; });
}

void Member::end_turn(std::uint64_t turn) {
  const std::lock_guard lock(mutex_);
  turns_.erase(turn);
  changed_.notify_all();
}

std::vector<Turn> take_turns(const std::set<std::shared_ptr<Member>>& members) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  std::vector<Turn> turns(members.begin(), members.end());
  return turns;
}

// ---- works and helpers of a non-blocking communicator ----

bool Member::works_are_over() {
  std::erase_if(works_, [](const std::shared_ptr<Work>& work) { return work->done(); });
  return works_.empty();
}

void Member::keep(std::shared_ptr<Work> work) {
  const std::lock_guard lock(mutex_);
  works_.push_back(std::move(work));
}

void Member::keep_in_stream(std::shared_ptr<Work> work) {
  const std::lock_guard lock(mutex_);
  while (!in_streams_.empty() && in_streams_.front()->done()) in_streams_.pop_front();
  in_streams_.push_back(std::move(work));
}

void Member::keep(std::thread helper) {
  const std::lock_guard lock(mutex_);
  helpers_.push_back(std::move(helper));
}

ncclResult_t Member::settle() {
  join_helpers();
  wait_for_streams();
  return wait_for_works();
}

// An abort by another thread ends this wait, and then the communicator.
void Member::wait_for_streams() {
  std::deque<std::shared_ptr<Work>> works;
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::Ready) return;
    works.swap(in_streams_);
    ++inside_;
  }
  for (const auto& work : works) {
    while (!work->done() && communicator_.error()) static_cast<void>(work->wait(kLookMs));
  }
  static_cast<void>(note_own_error());
  exit();
}

ncclResult_t Member::wait_for_works() {
  std::vector<std::shared_ptr<Work>> works;
  {
    const std::lock_guard lock(mutex_);
    works.swap(works_);
  }
  ncclResult_t result = ncclSuccess;
  for (const auto& work : works) {
    const ncclResult_t next = note(work->wait());
    if (result == ncclSuccess) result = next;
  }
  return result;
}

void Member::join_helpers() {
  std::vector<std::thread> helpers;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turns_.empty(); });
    helpers.swap(helpers_);
  }
  for (std::thread& helper : helpers) helper.join();
}

// ---- the end ----

bool Member::begin_finalizing() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(finalizing_, true);
}

ncclResult_t Member::revoke() {
  {
    const std::lock_guard lock(mutex_);
    revoked_ = true;
  }
  const Status status = communicator_.revoke();
  if (!status) return note(status);
  // The revocation has ended these works.
  static_cast<void>(wait_for_works());
  return ncclSuccess;
}

bool Member::revoked() {
  const std::lock_guard lock(mutex_);
  return revoked_;
}

void Member::end() { end_within(std::nullopt); }

void Member::end_within(std::optional<std::chrono::milliseconds> bound) {
  Communicator ending;
  std::unique_lock lock(mutex_);
  const auto nobody_inside = [&] { return inside_ == 0; };
  if (!bound) {
    changed_.wait(lock, nobody_inside);
  } else if (!changed_.wait_for(lock, *bound, nobody_inside)) {
    // The last thread that leaves ends the communicator, with the member.
    return;
  }
  ending = std::move(communicator_);
  state_ = State::Ended;
  lock.unlock();
}

ncclResult_t Member::abort() {
  std::unique_lock lock(mutex_);
  abandoned_ = true;
  works_.clear();
  in_streams_.clear();
  const bool ready = state_ == State::Ready;
  if (ready) ++inside_;
  lock.unlock();
  interrupt_.set();
  Status aborted;
  if (ready) {
    aborted = communicator_.abort();
    exit();
  }
  lock.lock();
  const bool idle = changed_.wait_for(lock, kAbortBound, [&] { return turns_.empty(); });
  std::vector<std::thread> helpers = std::move(helpers_);
  lock.unlock();
  for (std::thread& helper : helpers) {
    if (idle) {
      helper.join();
    } else {
      // The helper holds the member, and ends it.
      helper.detach();
    }
  }
  end_within(kAbortBound);
  return aborted ? ncclSuccess : refuse(code_of(aborted.error(), -1), aborted.error().message);
}

// ---- handles ----

ncclComm_t Members::add(std::shared_ptr<Member> member) {
  const auto handle = reinterpret_cast<ncclComm_t>(member.get());
  const std::unique_lock lock(mutex_);
  members_.emplace(handle, std::move(member));
  return handle;
}

std::shared_ptr<Member> Members::find(const void* handle) {
  const std::shared_lock lock(mutex_);
  const auto found = members_.find(handle);
  return found == members_.end() ? nullptr : found->second;
}

std::shared_ptr<Member> Members::take(const void* handle) {
  const std::unique_lock lock(mutex_);
  const auto found = members_.find(handle);
  if (found == members_.end()) return nullptr;
  auto member = std::move(found->second);
  members_.erase(found);
  return member;
}

Members& members() {
  static Members* const all = new Members;  // NOLINT(cppcoreguidelines-*): never deleted
  return *all;
}

ncclResult_t with_member(const char* function, ncclComm_t comm,
                         const std::function<ncclResult_t(const std::shared_ptr<Member>&)>& body) noexcept {
  return guarded([&] {
    if (comm == nullptr) return bad_argument(function, "comm = null");
    const std::shared_ptr<Member> member = members().find(comm);
    return member != nullptr ? body(member) : bad_argument(function, "comm is no communicator, or no longer one");
  });
}

}  // namespace wreath::nccl
