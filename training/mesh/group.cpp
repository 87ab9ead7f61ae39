// This file makes the calls of groups and counts their traffic.
#include "training/mesh/group.hpp"

#include <chrono>
#include <numeric>
#include <utility>

namespace wreath::training {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::size_t sum(const Blocks& blocks) {
  return std::accumulate(blocks.counts.begin(), blocks.counts.end(), std::size_t{0});
}

bool moves_blocks(Collective collective) {
  switch (collective) {
    case Collective::ReduceScatter:
    case Collective::AllGather:
    case Collective::AllToAll:
    case Collective::Gather:
    case Collective::Scatter: return true;
    default: return false;
  }
}

Compute* compute_of_call(const Call& call) {
  Compute* const on = compute_of(static_cast<const void*>(call.output));
  return on != nullptr ? on : compute_of(static_cast<const void*>(call.input));
}

}  // namespace

Pending::Pending(Compute& compute, Stream& stream, std::unique_ptr<Event> over)
    : compute_(&compute), stream_(&stream), over_(std::move(over)) {
  launched();
}

void Pending::launched() {
  if (over_) stream_->record(*over_).value();
}

void Pending::wait() {
  if (over_) {
    compute_->stream().wait(*over_).value();
    return compute_->recycle(std::move(over_));
  }
  if (origin_.accounting == nullptr) return;
  const auto start = std::chrono::steady_clock::now();
  const Status status = work_.wait();
  const Origin origin = std::exchange(origin_, {});
  origin.accounting->add_seconds(origin.group, origin.operation, seconds_since(start));
  // The bytes of a message between two ranks count for its sender, which may wait first for a message that it receives.
  const bool message = origin.collective == Collective::Exchange;
  origin.accounting->add_wire(origin.group, message ? "send" : origin.operation, origin.meter->take(origin.collective));
  status.value();
}

Group::Group(std::string name, CommunicationAccounting& accounting)
    : name_(std::move(name)), accounting_(&accounting) {}

Group::Group(std::string name, std::shared_ptr<Communicator> communicator, CommunicationAccounting& accounting)
    : name_(std::move(name)),
      communicator_(std::move(communicator)),
      meter_(std::make_shared<WireMeter>(communicator_)),
      in_streams_(std::make_shared<InStreams>()),
      accounting_(&accounting),
      rank_(communicator_->rank()),
      ranks_(communicator_->ranks()) {}

Group::Group(std::string name, const Group& of) : Group(of) { name_ = std::move(name); }

Pending::Origin Group::begin(std::string operation, Collective collective) {
  return {accounting_, meter_, name_, std::move(operation), collective, meter_->begin(collective)};
}

void Group::settle(bool wait) {
  if (!in_streams_) return;
  auto& running = in_streams_->running;
  while (!running.empty() && (wait || running.front().first.done())) {
    auto [work, origin] = std::move(running.front());
    running.pop_front();
    const Status status = work.wait();
    const bool message = origin.collective == Collective::Exchange;
    accounting_->add_wire(origin.group, message ? "send" : origin.operation, meter_->take(origin.collective));
    status.value();
  }
}

void Group::keep(Result<Work> work, Pending::Origin origin) {
  in_streams_->running.emplace_back(std::move(work).value(), std::move(origin));
}

Stream& Group::side(Compute& compute) {
  if (!in_streams_->side) in_streams_->side = compute.device().make_stream().value();
  return *in_streams_->side;
}

template <typename Make>
Pending Group::start_beside(Compute& compute, Pending::Origin origin, const Make& make) {
  settle(false);
  Stream& stream = side(compute);
  std::unique_ptr<Event> ready = compute.record();
  stream.wait(*ready).value();
  keep(make(stream), std::move(origin));
  return {compute, stream, std::move(ready)};
}

void Group::run(const Call& call) {
  if (alone()) return copy(call);
  const std::string operation(wreath::name(call.collective, call.varying()));
  accounting_->add(name_, operation, payload_bytes(call));
  if (Compute* const on = compute_of_call(call)) {
    settle(false);
    Pending::Origin origin = begin(operation, call.collective);
    Call in_stream = call;
    in_stream.stream = &on->stream();
    return keep(communicator_->start(in_stream), std::move(origin));
  }
  const WireMeter::Flight flight = meter_->begin(call.collective);
  const auto start = std::chrono::steady_clock::now();
  const Status status = communicator_->run(call);
  accounting_->add_seconds(name_, operation, seconds_since(start));
  accounting_->add_wire(name_, operation, meter_->take(call.collective));
  status.value();
}

Pending Group::start(const Call& call) {
  if (alone()) {
    copy(call);
    return {};
  }
  const std::string operation(wreath::name(call.collective, call.varying()));
  accounting_->add(name_, operation, payload_bytes(call));
  Pending::Origin origin = begin(operation, call.collective);
  if (Compute* const on = compute_of_call(call)) {
    return start_beside(*on, std::move(origin), [&](Stream& stream) {
      Call in_stream = call;
      in_stream.stream = &stream;
      return communicator_->start(in_stream);
    });
  }
  return {communicator_->start(call).value(), std::move(origin)};
}

Pending Group::start_send(std::span<const float> message, Rank to) {
  accounting_->add(name_, "send", message.size_bytes());
  Pending::Origin origin = begin("send", Collective::Exchange);
  if (Compute* const on = compute_of(message)) {
    return start_beside(*on, std::move(origin), [&](Stream& stream) {
      return communicator_->send_async(message.data(), message.size(), DataType::Float32, to, &stream);
    });
  }
  return {communicator_->send_async(message.data(), message.size(), DataType::Float32, to).value(), std::move(origin)};
}

Pending Group::start_recv(std::span<float> message, Rank from) {
  accounting_->add(name_, "recv", message.size_bytes());
  Pending::Origin origin = begin("recv", Collective::Exchange);
  if (Compute* const on = compute_of(message)) {
    return start_beside(*on, std::move(origin), [&](Stream& stream) {
      return communicator_->recv_async(message.data(), message.size(), DataType::Float32, from, &stream);
    });
  }
  return {communicator_->recv_async(message.data(), message.size(), DataType::Float32, from).value(),
          std::move(origin)};
}

void Group::copy(const Call& call) const {
  const std::size_t bytes = payload_bytes(call);
  training::copy(std::span(call.input, bytes), std::span(call.output, bytes));
}

std::size_t Group::payload_bytes(const Call& call) const {
  std::size_t count = call.count * static_cast<std::size_t>(moves_blocks(call.collective) ? ranks_ : 1);
  if (call.varying()) count = call.input_blocks.counts.empty() ? sum(call.output_blocks) : sum(call.input_blocks);
  return count * size_of(call.dtype);
}

}  // namespace wreath::training
