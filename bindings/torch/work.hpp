// Defines works: one call in flight, and several as one.
#pragma once

#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace wreath_torch {

// Names a call, in torch's words and in Wreath's.
struct CallName {
  c10d::OpType type;
  const char* title;  // "wreath:all_reduce"
};

// Is one call. The code that runs it calls finish_call, once; any thread may wait.
class CallWork : public c10d::Work {
 public:
  CallWork(int rank, const CallName& name, const std::vector<at::Tensor>& inputs, std::vector<at::Tensor> outputs,
           std::uint64_t sequence);
  // Ends the call; a null `failure` means that it succeeded.
  void finish_call(std::exception_ptr failure);
  // Waits as wait() does, but says nothing of how the call ended.
  void wait_for_end();

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::uint64_t getSequencenumber() const override { return sequence_; }

 private:
  const char* title_;
  std::vector<at::Tensor> outputs_;
  std::uint64_t sequence_;
  // Is set once it was asked for.
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  // Says that a future that is made now has to be completed by the code that makes it.
  bool ended_ = false;
  std::exception_ptr failure_;
};

// Is over when all its works are; its error is their first one.
class JointWork : public c10d::Work {
 public:
  JointWork(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> works);
  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

}  // namespace wreath_torch
