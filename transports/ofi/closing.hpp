// Closes an endpoint of libfabric without waiting for that. A provider may wait in fi_close() for the ends of what it
// has sent: efa does, until its adapter gives a peer up that is gone or stopped.
#pragma once

#include <rdma/fi_endpoint.h>

#include <atomic>
#include <thread>

namespace wreath {

// One thread at a time uses an object.
class OfiClosing {
 public:
  OfiClosing() = default;
  OfiClosing(const OfiClosing&) = delete;
  OfiClosing& operator=(const OfiClosing&) = delete;
  // Waits for the end of what was begun.
  ~OfiClosing() { wait(); }

  // Begins to close the endpoint, on a thread of its own where there can be one. Nobody uses the endpoint afterwards.
  void begin(fid_ep* endpoint);
  // Says whether it has begun and its result was not taken.
  bool begun() const { return state_ != State::None; }
  bool over() const { return state_ == State::Over; }
  void wait();
  // Returns what fi_close() returned, 0 where the endpoint is closed. It is over. Another closing may begin afterwards.
  int take_result();

 private:
  enum class State { None, Begun, Over };

  std::atomic<State> state_{State::None};
  int result_ = 0;
  std::thread thread_;
};

}  // namespace wreath
