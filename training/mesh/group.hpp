// This file declares Group: ranks that act together in one role of training. It is a communicator with a name, whose
// traffic is counted.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "training/compute/compute.hpp"
#include "training/mesh/accounting.hpp"
#include "training/mesh/wire_meter.hpp"
#include "wreath/communicator.hpp"

namespace wreath::training {

// A call of a group in flight. wait() counts its time and the bytes that it moved; without wait() the call still runs
// to its end. For buffers of a Compute the host does not wait: wait() makes the Compute's stream wait for the call.
class Pending {
 public:
  // Names the group of a call and the operation that it counts as.
  struct Origin {
    CommunicationAccounting* accounting = nullptr;
    std::shared_ptr<WireMeter> meter;
    std::string group;
    std::string operation;
    Collective collective = Collective::Exchange;
    WireMeter::Flight flight;
  };
  Pending() = default;  // a call that is done
  Pending(Work work, Origin origin) : work_(std::move(work)), origin_(std::move(origin)) {}
  // Makes a Pending for a call in `stream`, beside the stream of `compute`. It records `over` behind the call.
  Pending(Compute& compute, Stream& stream, std::unique_ptr<Event> over);
  // Must be called for a call made within a wreath::Group, after that group's launch().
  void launched();
  // Waits for the call. Throws Exception where the call failed.
  void wait();
  // Returns whether wait() would return at once.
  bool done() const noexcept {
    if (over_) return over_->done();
    return origin_.accounting == nullptr || work_.done();
  }

 private:
  Work work_;
  Origin origin_;
  Compute* compute_ = nullptr;
  Stream* stream_ = nullptr;
  std::unique_ptr<Event> over_;
};

// Runs calls among the ranks of a group. For buffers in memory of a Compute, run() puts the call into the Compute's
// stream and returns. start() puts it into a side stream of the group, behind the present work of the Compute's stream.
// It so runs beside work that comes after.
//
// A group alone (ranks() == 1) communicates and counts nothing: outputs are copies of inputs. One thread at a time
// makes the calls. All calls throw Exception when the communicator fails. Buffers of start() live until the Pending was
// waited for.
class Group {
 public:
  // Makes a group of this rank alone.
  Group(std::string name, CommunicationAccounting& accounting);
  Group(std::string name, std::shared_ptr<Communicator> communicator, CommunicationAccounting& accounting);
  // Makes a group of the same ranks and communicator under another name. Calls of both run in the order they are made.
  Group(std::string name, const Group& of);

  const std::string& name() const noexcept { return name_; }
  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }
  bool alone() const noexcept { return ranks_ == 1; }
  // Must not be called for a group of one.
  Communicator& communicator() const noexcept { return *communicator_; }
  CommunicationAccounting& accounting() const noexcept { return *accounting_; }

  // Runs any collective as a value (call.hpp).
  void run(const Call& call);
  [[nodiscard]] Pending start(const Call& call);

  // Reduces in place.
  template <typename T>
  void all_reduce(std::span<T> buffer, const Reduction& reduction = {}) {
    run(call_of(Collective::AllReduce, std::span<const T>(buffer), buffer, buffer.size(), reduction));
  }
  // Reduces `input`, which holds ranks() blocks of the size of `output`.
  template <typename T>
  void reduce_scatter(std::span<const T> input, std::span<T> output, const Reduction& reduction = {}) {
    run(call_of(Collective::ReduceScatter, input, output, output.size(), reduction));
  }
  // Gathers into `output`, which holds ranks() blocks of the size of `input`.
  template <typename T>
  void all_gather(std::span<const T> input, std::span<T> output) {
    run(call_of(Collective::AllGather, input, output, input.size(), {}));
  }
  // Copies the root's buffer to all ranks, in place.
  template <typename T>
  void broadcast(std::span<T> buffer, Rank root) {
    Call call = call_of(Collective::Broadcast, std::span<const T>(buffer), buffer, buffer.size(), {});
    call.root = root;
    run(call);
  }
  // Exchanges equal blocks.
  template <typename T>
  void all_to_all(std::span<const T> input, std::span<T> output) {
    run(call_of(Collective::AllToAll, input, output, input.size() / static_cast<std::size_t>(ranks_), {}));
  }
  // Returns the call that the functions above run, for start().
  template <typename T>
  static Call call_of(Collective collective, std::span<const T> input, std::span<T> output, std::size_t count,
                      const Reduction& reduction) {
    Call call;
    call.collective = collective;
    call.dtype = dtype_of<T>;
    call.reduction = reduction;
    call.input = reinterpret_cast<const std::byte*>(input.data());
    call.output = reinterpret_cast<std::byte*>(output.data());
    call.count = count;
    return call;
  }

  // Counts the bytes that calls in streams have moved. It counts all finished calls or, with `wait`, waits for all
  // calls first.
  void settle(bool wait);

  // Both start a message between two ranks. The calls of a communicator run in the order they are made. A group of one
  // must not call them.
  [[nodiscard]] Pending start_send(std::span<const float> message, Rank to);
  [[nodiscard]] Pending start_recv(std::span<float> message, Rank from);

 private:
  // The calls in streams that may still run, and the stream beside a Compute's own. All groups of a communicator share
  // them.
  struct InStreams {
    std::unique_ptr<Stream> side;
    std::deque<std::pair<Work, Pending::Origin>> running;
  };
  Pending::Origin begin(std::string operation, Collective collective);
  // Keeps a call in a stream until it is over, to count its bytes.
  void keep(Result<Work> work, Pending::Origin origin);
  Stream& side(Compute& compute);
  // Starts the call that make(stream) makes, in the side stream.
  template <typename Make>
  Pending start_beside(Compute& compute, Pending::Origin origin, const Make& make);
  void copy(const Call& call) const;
  std::size_t payload_bytes(const Call& call) const;

  std::string name_;
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<WireMeter> meter_;
  std::shared_ptr<InStreams> in_streams_;
  CommunicationAccounting* accounting_;
  int rank_ = 0;
  int ranks_ = 1;
};

}  // namespace wreath::training
