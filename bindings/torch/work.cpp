// Implements works. Futures are made when they are asked for: most calls are waited for by their Work.
#include "bindings/torch/work.hpp"

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace wreath_torch {
namespace {

using c10::ivalue::Future;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

void complete(Future& future, const std::exception_ptr& failure, const std::vector<at::Tensor>& outputs) {
  if (failure) {
    future.setError(failure);
  } else {
    future.markCompleted(c10::IValue(outputs));
  }
}

[[noreturn]] void throw_not_over(const char* title, milliseconds timeout) {
  C10_THROW_ERROR(DistBackendError, c10::str(title, " is not over after ", timeout.count(),
                                             " ms, the timeout of this wait; the call goes on"));
}

}  // namespace

CallWork::CallWork(int rank, const CallName& name, const std::vector<at::Tensor>& inputs,
                   std::vector<at::Tensor> outputs, std::uint64_t sequence)
    : Work(rank, name.type, name.title, inputs),
      title_(name.title),
      outputs_(std::move(outputs)),
      sequence_(sequence) {}

void CallWork::finish_call(std::exception_ptr failure) {
  c10::intrusive_ptr<Future> asked;
  {
    const std::lock_guard lock(mutex_);
    asked = future_;
    failure_ = failure;
    ended_ = true;
  }
  finish(failure);
  if (asked) complete(*asked, failure, outputs_);
}

void CallWork::wait_for_end() {
  std::unique_lock lock(mutex_);
  cv_.wait(lock, [this] { return completed_; });
}

bool CallWork::wait(milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto over = [this] { return completed_; };
  if (timeout == kNoTimeout) {
    cv_.wait(lock, over);
  } else if (!cv_.wait_for(lock, timeout, over)) {
    throw_not_over(title_, timeout);
  }
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

std::vector<at::Tensor> CallWork::result() { return outputs_; }

c10::intrusive_ptr<Future> CallWork::getFuture() {
  std::unique_lock lock(mutex_);
  if (future_) return future_;
  future_ = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()));
  const c10::intrusive_ptr<Future> made = future_;
  const bool ended = ended_;
  lock.unlock();
  if (ended) complete(*made, failure_, outputs_);
  return made;
}

JointWork::JointWork(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> works)
    : Work(rank, c10d::OpType::COALESCED), works_(std::move(works)) {}

bool JointWork::isCompleted() {
  return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->isCompleted(); });
}

bool JointWork::isSuccess() const {
  return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->isSuccess(); });
}

std::exception_ptr JointWork::exception() const {
  for (const auto& work : works_) {
    if (const std::exception_ptr failure = work->exception()) return failure;
  }
  return nullptr;
}

bool JointWork::wait(milliseconds timeout) {
  const auto end = steady_clock::now() + timeout;
  for (const auto& work : works_) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - steady_clock::now());
    work->wait(timeout == kNoTimeout ? kNoTimeout : std::max(left, milliseconds(1)));
  }
  return true;
}

std::vector<at::Tensor> JointWork::result() {
  std::vector<at::Tensor> all;
  for (const auto& work : works_) {
    for (at::Tensor& tensor : work->result()) all.push_back(std::move(tensor));
  }
  return all;
}

c10::intrusive_ptr<Future> JointWork::getFuture() {
  c10::List<c10::intrusive_ptr<Future>> futures(c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
  for (const auto& work : works_) futures.push_back(work->getFuture());
  return c10::collectAll(futures);
}

}  // namespace wreath_torch
