// Ranks that act together in one role of training: a communicator with a name, whose traffic is counted.
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

// A call of a group in flight. wait() counts its time and what it moved; dropped without it, the call runs on. Of
// buffers of a Compute nobody waits on the host: wait() makes the Compute's stream wait for the call.
class Pending {
 public:
  // Says whose call it is, and as what it counts.
  struct Origin {
    CommunicationAccounting* accounting = nullptr;
    std::shared_ptr<WireMeter> meter;
    std::string group;
    std::string operation;
    Collective collective = Collective::Exchange;
    WireMeter::Flight flight;
  };
  Pending() = default;  // done
  Pending(Work work, Origin origin) : work_(std::move(work)), origin_(std::move(origin)) {}
  // In `stream` beside that of `compute`; `over` is used for the point behind it.
  Pending(Compute& compute, Stream& stream, std::unique_ptr<Event> over);
  // A call that was made within a wreath::Group calls this after the launch() of that group.
  void launched();
  // Throws Exception where the call failed.
  void wait();
  // Whether wait() would return at once.
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

// Buffers in memory of a Compute: run() puts the call into the Compute's stream and returns; start() puts it into a
// side stream of the group's own, behind what the Compute's stream holds now, so that it runs beside what comes after.
//
// Alone (ranks() == 1) it communicates and counts nothing: outputs are copies of inputs. All calls throw Exception
// when the communicator fails, and are of one thread at a time. Buffers of start() live until the Pending is waited
// for.
class Group {
 public:
  // A group of this rank alone.
  Group(std::string name, CommunicationAccounting& accounting);
  Group(std::string name, std::shared_ptr<Communicator> communicator, CommunicationAccounting& accounting);
  // The same ranks and communicator under another name: calls of both run in the order they are made.
  Group(std::string name, const Group& of);

  const std::string& name() const noexcept { return name_; }
  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }
  bool alone() const noexcept { return ranks_ == 1; }
  // Not of a group of one.
  Communicator& communicator() const noexcept { return *communicator_; }
  CommunicationAccounting& accounting() const noexcept { return *accounting_; }

  // Any collective as a value (call.hpp).
  void run(const Call& call);
  [[nodiscard]] Pending start(const Call& call);

  // In place.
  template <typename T>
  void all_reduce(std::span<T> buffer, const Reduction& reduction = {}) {
    run(call_of(Collective::AllReduce, std::span<const T>(buffer), buffer, buffer.size(), reduction));
  }
  // `input` holds ranks() blocks of the size of `output`.
  template <typename T>
  void reduce_scatter(std::span<const T> input, std::span<T> output, const Reduction& reduction = {}) {
    run(call_of(Collective::ReduceScatter, input, output, output.size(), reduction));
  }
  // `output` holds ranks() blocks of the size of `input`.
  template <typename T>
  void all_gather(std::span<const T> input, std::span<T> output) {
    run(call_of(Collective::AllGather, input, output, input.size(), {}));
  }
  // In place: everyone gets the root's.
  template <typename T>
  void broadcast(std::span<T> buffer, Rank root) {
    Call call = call_of(Collective::Broadcast, std::span<const T>(buffer), buffer, buffer.size(), {});
    call.root = root;
    run(call);
  }
  // Equal blocks.
  template <typename T>
  void all_to_all(std::span<const T> input, std::span<T> output) {
    run(call_of(Collective::AllToAll, input, output, input.size() / static_cast<std::size_t>(ranks_), {}));
  }
  // The call that the functions above run, for start().
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

  // Counts what calls in streams have moved: all that are over, or with `wait` all, which it waits for.
  void settle(bool wait);

  // Point to point; of a communicator calls run in the order they are made. Not of a group of one.
  [[nodiscard]] Pending start_send(std::span<const float> message, Rank to);
  [[nodiscard]] Pending start_recv(std::span<float> message, Rank from);

 private:
  // Calls in streams that may not be over yet, and the stream beside a Compute's own: of the groups of a communicator.
  struct InStreams {
    std::unique_ptr<Stream> side;
    std::deque<std::pair<Work, Pending::Origin>> running;
  };
  Pending::Origin begin(std::string operation, Collective collective);
  // Keeps a call in a stream until it is over, for what it moved.
  void keep(Result<Work> work, Pending::Origin origin);
  Stream& side(Compute& compute);
  // make(stream) makes the call.
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
