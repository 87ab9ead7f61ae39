// Works: one call in flight, and several as one.
#pragma once

#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace wreath_torch {

// What a call is called, in torch's words and in ours.
struct CallName {
  c10d::OpType type;
  const char* title;  // "wreath:all_reduce"
};

// One call. Whoever runs it calls finish_call, once; any thread may wait.
class CallWork : public c10d::Work {
 public:
  CallWork(int rank, const CallName& name, const std::vector<at::Tensor>& inputs, std::vector<at::Tensor> outputs,
           std::uint64_t sequence);
  // Null: it succeeded.
  void finish_call(std::exception_ptr failure);
  // As wait, but says nothing of how it ended.
  void wait_for_end();

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::uint64_t getSequencenumber() const override { return sequence_; }

 private:
  const char* title_;
  std::vector<at::Tensor> outputs_;
  std::uint64_t sequence_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // once it was asked for
  bool ended_ = false;                              // a future that is made now has nobody else to complete it
  std::exception_ptr failure_;
};

// Over when all are; the first error is its.
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
