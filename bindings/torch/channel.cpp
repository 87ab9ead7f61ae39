// Implements channels: callers and the channel's thread take one turn.
#include "bindings/torch/channel.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace wreath_torch {
namespace {

using wreath::Error;
using wreath::ErrorCode;
using wreath::Exception;

// Keeps the program's signals for its own threads.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

// ---- a turn ----

void Turn::wait(wreath::Work work) {
  const wreath::Status status = work.wait(timeout_ms_);
  if (status || status.error().code != ErrorCode::NotReady) return status.value();
  static_cast<void>(communicator_.abort());
  throw Exception(Error{ErrorCode::Timeout,
                        "a call is not over after " + std::to_string(timeout_ms_) + " ms, its timeout: aborted", -1});
}

void Turn::run(const wreath::Call& call) {
  if (timeout_ms_ < 0) return communicator_.run(call).value();
  wait(communicator_.start(call).value());
}

void Turn::run_together(std::span<const wreath::Call> calls) {
  wreath::Group group;
  for (const wreath::Call& call : calls) communicator_.run(call).value();
  wait(group.launch().value());
}

void Turn::send(const wreath::Call& call, int peer) {
  wait(communicator_.send_async(call.input, call.count, call.dtype, peer).value());
}

void Turn::receive(const wreath::Call& call, int peer) {
  wait(communicator_.recv_async(call.output, call.count, call.dtype, peer).value());
}

// ---- a channel ----

Channel::Channel(Meeting meeting, GroupNames group)
    : meeting_(std::move(meeting)), group_(std::move(group)), pid_(::getpid()) {
  meeting_.interrupt = &interrupt_;
}

Channel::~Channel() {
  // This is a child of fork(); else close() has joined the thread.
  if (thread_.joinable()) thread_.detach();
}

wreath::Communicator& Channel::communicator() {
  if (communicator_) return *communicator_;
  if (not_met_) throw Exception(*not_met_);
  auto met = meet(meeting_);
  const std::lock_guard lock(lifetime_);
  if (!met) {
    not_met_ = met.error();
    throw Exception(*not_met_);
  }
  communicator_ = std::move(*met);
  if (aborted_) static_cast<void>(communicator_->abort());
  return *communicator_;
}

void Channel::connect() {
  if (!take_turn()) return;
  std::exception_ptr failure;
  try {
    communicator();
  } catch (const Exception& exception) {
    failure = as_torch_error(exception.error(), group_);
  } catch (...) {
    failure = std::current_exception();
  }
  give_turn();
  if (failure) std::rethrow_exception(failure);
}

bool Channel::inherited() const { return ::getpid() != pid_; }

bool Channel::take_turn() {
  std::unique_lock lock(mutex_);
  // This is a callback of a Work that is over: what is queued waits for it.
  if (std::this_thread::get_id() == own_) {
    changed_.wait(lock, [this] { return !busy_; });
  } else if (busy_ || !tasks_.empty()) {
    return false;
  }
  busy_ = true;
  return true;
}

void Channel::give_turn() {
  const std::lock_guard lock(mutex_);
  busy_ = false;
  changed_.notify_all();
}

// Runs a task with the turn, which it gives back before others learn of the end.
void Channel::execute(const Task& task) {
  std::exception_ptr failure;
  try {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    Turn turn(communicator(), task.timeout_ms);
    task.body(turn);
  } catch (const Exception& exception) {
    failure = as_torch_error(exception.error(), group_);
  } catch (...) {
    failure = std::current_exception();
  }
  give_turn();
  task.work->finish_call(failure);
}

void Channel::refuse(const Task& task, const char* reason) {
  task.work->finish_call(as_torch_error({ErrorCode::InvalidUsage, reason, -1}, group_));
}

void Channel::run(Task task) {
  if (!inherited() && take_turn()) return execute(task);
  const c10::intrusive_ptr<CallWork> work = task.work;
  submit(std::move(task));
  work->wait_for_end();
}

void Channel::submit(Task task) {
  if (inherited()) return refuse(task, "the process group was made before the fork of this process");
  std::unique_lock lock(mutex_);
  if (closed_) {
    lock.unlock();
    return refuse(task, "the process group was destroyed");
  }
  tasks_.push_back(std::move(task));
  if (!thread_.joinable()) {
    const BlockedSignals inherited_by_the_thread;
    try {
      thread_ = std::thread([self = shared_from_this()] { self->serve(); });
    } catch (const std::system_error& refused) {
      Task last = std::move(tasks_.back());
      tasks_.pop_back();
      lock.unlock();
      return refuse(last, (std::string("cannot start the process group's thread: ") + refused.what()).c_str());
    }
    own_ = thread_.get_id();
    ::pthread_setname_np(thread_.native_handle(), "wreath-torch");
  }
  changed_.notify_all();
}

void Channel::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !busy_ && (!tasks_.empty() || leaving_); });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    execute(task);
    // The task's tensors end without the lock.
    task = {};
    lock.lock();
  }
}

void Channel::abort() noexcept {
  if (inherited()) return;
  interrupt_.raise();
  const std::lock_guard lock(lifetime_);
  aborted_ = true;
  if (communicator_) static_cast<void>(communicator_->abort());
}

void Channel::close(std::chrono::milliseconds grace) {
  if (inherited()) return;
  std::unique_lock lock(mutex_);
  closed_ = true;
  const bool idle = changed_.wait_for(lock, grace, [this] { return !busy_ && tasks_.empty(); });
  lock.unlock();
  if (!idle) abort();
  leave();
}

void Channel::leave() {
  std::unique_lock lock(mutex_);
  leaving_ = true;
  changed_.notify_all();
  std::thread thread = std::move(thread_);
  const bool by_itself = std::this_thread::get_id() == own_;
  lock.unlock();
  if (thread.joinable() && by_itself) thread.detach();
  if (thread.joinable()) thread.join();
  lock.lock();
  changed_.wait(lock, [this] { return !busy_; });
  const std::lock_guard alive(lifetime_);
  communicator_.reset();
  not_met_ = Error{ErrorCode::InvalidUsage, "the process group was destroyed", -1};
}

wreath::Status Channel::error() {
  const std::lock_guard lock(lifetime_);
  if (communicator_) return communicator_->error();
  return not_met_ ? wreath::Status(*not_met_) : wreath::Status();
}

}  // namespace wreath_torch
