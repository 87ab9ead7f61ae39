// A CUDA device makes these streams and events. Host work runs on a thread of the stream's own (host_work.hpp).
#pragma once

#include <memory>

#include "src/device/capture.hpp"
#include "src/device/cuda/context.hpp"
#include "src/device/library_stream.hpp"
#include "wreath/device.hpp"
#include "wreath/kernel.hpp"

namespace wreath {

class CudaEvent final : public Event {
 public:
  static Result<std::unique_ptr<CudaEvent>> make(const CudaContext& context, EventUse use);
  ~CudaEvent() override;
  bool done() const override;
  Status synchronize(std::int64_t timeout_ms) override;
  Result<std::int64_t> ns_since(const Event& earlier) const override;
  CudaHandle handle() const { return handle_; }
  const CudaContext& context() const { return context_; }
  // Returns the point of a capture that the event means now.
  CaptureMembership& captured() { return captured_; }

 private:
  CudaEvent(const CudaContext& context, CudaHandle handle) : context_(context), handle_(handle) {}

  const CudaContext& context_;
  CudaHandle handle_;
  CaptureMembership captured_;
};

// The host's work of a stream, with the state that it shares with the stream's thread.
class CudaHostWork;
class CudaCommand;

class CudaStream final : public LibraryStream {
 public:
  // `context` lives as long as the device, which lives as long as the process.
  static Result<std::unique_ptr<CudaStream>> make(Device& device, const CudaContext& context, int priority);
  // Uses a stream that stays its maker's, and that may be destroyed before the returned object.
  static Result<std::unique_ptr<CudaStream>> use(Device& device, const CudaContext& context, CudaHandle handle);
  ~CudaStream() override;
  Device& device() const override { return device_; }
  Status copy(void* target, const void* source, std::size_t bytes) override;
  Status run(std::function<Status()> work) override;
  Status record(Event& event) override;
  Status wait(Event& event) override;
  bool idle() const override;
  Status synchronize(std::int64_t timeout_ms) override;
  Status begin_capture() override;
  Result<std::unique_ptr<Graph>> end_capture() override;
  bool capturing() const override { return part_.open().capture != nullptr; }
  CapturePart capture_part() const override { return part_.open(); }
  Status capture(std::shared_ptr<GraphWork> work) override;
  void invalidate(const std::string& reason) override;
  Status takes_calls() const override;
  StreamFailures& failures() override;

  // Gives the driver the command, in its turn, unless the stream has failed. A capture keeps the command, too.
  Status add(const std::shared_ptr<CudaCommand>& command);
  Status launch(CudaHandle function, const Grid& grid);
  // Adds the work that `add` puts into the driver's stream by another library.
  Status add_others(const std::function<Status(void* cuda_stream)>& add);
  const CudaContext& context() const { return context_; }
  // Returns the object that takes failures of work that others run for this stream.
  const std::shared_ptr<CudaHostWork>& host_work() const { return host_; }

 private:
  CudaStream(Device& device, const CudaContext& context, CudaHandle handle, std::shared_ptr<CudaHostWork> host);
  // Gives the driver the command, in its turn, unless the stream has failed.
  Status give(const CudaCommand& command);
  void leave();

  Device& device_;
  const CudaContext& context_;
  CudaHandle handle_;
  std::shared_ptr<CudaHostWork> host_;
  CaptureMembership part_;
  // The event behind the last work of the host. Only a stream of others has one.
  std::unique_ptr<CudaEvent> last_;
};

}  // namespace wreath
