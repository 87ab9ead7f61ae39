// Groups: calls with their traffic counted.
#include "training/mesh/group.hpp"

#include <chrono>
#include <cstring>
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

}  // namespace

void Pending::wait() {
  if (origin_.accounting == nullptr) return;
  const auto start = std::chrono::steady_clock::now();
  const Status status = work_.wait();
  const Origin origin = std::exchange(origin_, {});
  origin.accounting->add_seconds(origin.group, origin.operation, seconds_since(start));
  // What a message between two ranks moved is its sender's, who may wait for what it receives first.
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
      accounting_(&accounting),
      rank_(communicator_->rank()),
      ranks_(communicator_->ranks()) {}

Group::Group(std::string name, const Group& of) : Group(of) { name_ = std::move(name); }

Pending::Origin Group::begin(std::string operation, Collective collective) {
  return {accounting_, meter_, name_, std::move(operation), collective, meter_->begin(collective)};
}

void Group::run(const Call& call) {
  if (alone()) return copy(call);
  const std::string operation(wreath::name(call.collective, call.varying()));
  accounting_->add(name_, operation, payload_bytes(call));
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
  return {communicator_->start(call).value(), std::move(origin)};
}

Pending Group::start_send(std::span<const float> message, Rank to) {
  accounting_->add(name_, "send", message.size_bytes());
  Pending::Origin origin = begin("send", Collective::Exchange);
  return {communicator_->send_async(message.data(), message.size(), DataType::Float32, to).value(), std::move(origin)};
}

Pending Group::start_recv(std::span<float> message, Rank from) {
  accounting_->add(name_, "recv", message.size_bytes());
  Pending::Origin origin = begin("recv", Collective::Exchange);
  return {communicator_->recv_async(message.data(), message.size(), DataType::Float32, from).value(),
          std::move(origin)};
}

void Group::copy(const Call& call) const {
  const std::size_t bytes = payload_bytes(call);
  if (call.input != call.output && bytes > 0) std::memmove(call.output, call.input, bytes);
}

std::size_t Group::payload_bytes(const Call& call) const {
  std::size_t count = call.count * static_cast<std::size_t>(moves_blocks(call.collective) ? ranks_ : 1);
  if (call.varying()) count = call.input_blocks.counts.empty() ? sum(call.output_blocks) : sum(call.input_blocks);
  return count * size_of(call.dtype);
}

}  // namespace wreath::training
