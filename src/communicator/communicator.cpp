// A communicator is made, asked, aborted and left here.
#include "wreath/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <thread>

#include "src/base/log.hpp"
#include "src/base/signals.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/communicator/impl.hpp"
#include "src/communicator/options.hpp"
#include "src/communicator/own_device.hpp"
#include "src/communicator/rank_communicator.hpp"
#include "src/device/runs/device_parts.hpp"
#include "wreath/environment.hpp"

namespace wreath {

Error inherited() {
  return {ErrorCode::InvalidUsage, "this communicator belongs to the parent of a fork: the child makes its own", -1};
}

Error not_made() { return {ErrorCode::InvalidUsage, "this communicator was not created, or was moved from", -1}; }

Error complaint(const Engine& engine, std::string_view call, ErrorCode code, std::string_view text) {
  return {code, fmt::format("{}: {}: {}: {}", engine.identity(), call, name(code), text), engine.rank()};
}

Error refuse(Engine& engine, std::string_view call, const Error& error) {
  engine.fail(error.code, engine.rank(), fmt::format("{}: {}", call, error.message));
  return complaint(engine, call, error.code, error.message);
}

Communicator::Impl::Impl(std::shared_ptr<RankCommunicator> made)
    : rank(std::move(made)), engine(rank->engine()), generation(fork_generation()) {}

Communicator::Impl::~Impl() {
  if (inherited()) {
    static_cast<void>(new std::shared_ptr<RankCommunicator>(rank));  // NOLINT(bugprone-unhandled-exception-at-new)
  } else {
    rank->leave();
    if (GroupCalls* const group = GroupCalls::open()) group->hold(engine);
  }
}

Communicator::Communicator() = default;
Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

namespace {

// Makes each rank on a thread of its own, since ranks answer each other while they link.
Result<std::vector<std::shared_ptr<RankCommunicator>>> make_ranks(std::vector<Membership> members) {
  std::vector<Result<std::shared_ptr<RankCommunicator>>> made(members.size(), Error{ErrorCode::StartupFailed, "", -1});
  std::vector<std::jthread> linking;
  linking.reserve(members.size());
  std::optional<Error> refused;
  try {
    const BlockedSignals blocked;
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
      linking.emplace_back([&, rank] { made[rank] = RankCommunicator::create(std::move(members[rank])); });
    }
  } catch (const std::system_error& thrown) {
    const auto rank = static_cast<Rank>(linking.size());
    refused = Error{ErrorCode::System,
                    fmt::format("create_local: cannot start a thread for rank {}: {}", rank, thrown.what()), rank};
    // A rank without a Membership ends the others' wait.
    for (std::size_t i = linking.size(); i < members.size(); ++i) members[i] = Membership();
  }
  linking.clear();
  if (refused) return *refused;
  const auto system = std::find_if(made.begin(), made.end(),
                                   [](const auto& one) { return !one && one.error().code == ErrorCode::System; });
  // The errors of the other ranks follow from this one.
  if (system != made.end()) return system->error();
  std::vector<std::shared_ptr<RankCommunicator>> all;
  for (const auto& one : made) {
    if (!one) return one.error();
    all.push_back(*one);
  }
  return all;
}

// Makes the one rank of this process whose Membership join(request) returns.
template <typename Join>
Result<std::shared_ptr<RankCommunicator>> make_rank(int rank, int ranks, const CommunicatorOptions& options,
                                                    Join join) {
  auto complete = complete_options(options);
  if (!complete) return complete.error();
  if (rank == 0) WREATH_TRY(read_rules(*complete));
  const auto device = devices_of_ranks(complete->device, 1);
  if (!device) return device.error();
  BootstrapRequest request = request_of(rank, ranks, *complete, device->front());
  auto membership = join(request);
  if (!membership) return membership.error();
  membership->device = device->front();
  return RankCommunicator::create(std::move(*membership));
}

}  // namespace

Result<std::vector<Communicator>> Communicator::create_local(int ranks, const CommunicatorOptions& options) {
  if (ranks < 1) return Error{ErrorCode::InvalidArgument, fmt::format("create_local: ranks = {}", ranks), -1};
  auto complete = complete_options(options);
  if (!complete) return complete.error();
  WREATH_TRY(read_rules(*complete));
  const auto devices = devices_of_ranks(complete->device, ranks);
  if (!devices) return devices.error();
  std::vector<EndpointDevice> identities;
  for (const Device* device : *devices) identities.push_back(identity_of(device));
  auto members = join_local(ranks, encode_options(*complete), identities);
  if (!members) return members.error();
  for (std::size_t rank = 0; rank < members->size(); ++rank) (*members)[rank].device = (*devices)[rank];
  auto made = make_ranks(*std::move(members));
  if (!made) return made.error();
  std::vector<Communicator> communicators;
  for (auto& one : *made) communicators.push_back(Communicator(std::make_unique<Impl>(std::move(one))));
  return communicators;
}

Result<Communicator> Communicator::create(const UniqueId& id, int rank, int ranks, const CommunicatorOptions& options) {
  return create(id, rank, ranks, options, -1);
}

Result<Communicator> Communicator::create(const UniqueId& id, int rank, int ranks, const CommunicatorOptions& options,
                                          int interrupt) {
  auto made = make_rank(rank, ranks, options, [&](BootstrapRequest& request) {
    request.interrupt = interrupt;
    return join(id, request);
  });
  if (!made) return made.error();
  return Communicator(std::make_unique<Impl>(*std::move(made)));
}

Result<Communicator> Communicator::create_from_environment(const CommunicatorOptions& options) {
  const auto job = environment_job();
  if (!job) return job.error();
  auto made = make_rank(job->rank, job->ranks, options, [&](const BootstrapRequest& request) {
    log_info("rank {} of {}, said by {}", job->rank, job->ranks, job->source);
    return join_environment(*job, request);
  });
  if (!made) return made.error();
  return Communicator(std::make_unique<Impl>(*std::move(made)));
}

int Communicator::rank() const noexcept { return impl_ ? impl_->engine->rank() : -1; }
int Communicator::ranks() const noexcept { return impl_ ? impl_->engine->ranks() : 0; }

namespace {

Status nothing_to_check() { return {}; }

}  // namespace

Result<Communicator> Communicator::split(int color, int key) {
  if (!impl_) return not_made();
  const auto body = [&](Engine&) -> Result<Communicator> {
    auto child = impl_->rank->split(color, key);
    if (!child) return child.error();
    return *child == nullptr ? Communicator() : Communicator(std::make_unique<Impl>(std::move(*child)));
  };
  return impl_->make([] { return "split"; }, nothing_to_check, body);
}

Result<Communicator> Communicator::duplicate() { return split(0, rank()); }

Result<Communicator> Communicator::shrink(std::int64_t timeout_ms) { return shrink(timeout_ms, {}); }

Result<Communicator> Communicator::shrink(std::int64_t timeout_ms, std::span<const Rank> without) {
  if (!impl_) return not_made();
  const auto body = [&](Engine&) -> Result<Communicator> {
    auto child = impl_->rank->shrink(timeout_ms, without);
    if (!child) return child.error();
    return Communicator(std::make_unique<Impl>(std::move(*child)));
  };
  return impl_->make([] { return "shrink"; }, nothing_to_check, body);
}

Status Communicator::abort() {
  if (!impl_) return not_made();
  return impl_->inherited() ? inherited() : impl_->rank->abort();
}

Status Communicator::revoke() {
  if (!impl_) return not_made();
  return impl_->inherited() ? inherited() : impl_->engine->revoke();
}

Status Communicator::error() const {
  if (!impl_) return not_made();
  return impl_->inherited() ? inherited() : impl_->engine->error();
}

std::string Communicator::transport_to(int peer) const {
  if (!impl_ || peer < 0 || peer >= ranks()) return "none";
  return impl_->engine->transport_to(peer);
}

std::string Communicator::plan_for(Collective collective, std::size_t bytes) const {
  if (!impl_ || collective >= Collective::Exchange) return {};
  Query query;
  query.collective = collective;
  query.bytes = bytes;
  return impl_->engine->plan_text(query);
}

WireBytes Communicator::wire_bytes(Collective collective) const noexcept {
  if (!impl_ || collective > Collective::Exchange) return {};
  return impl_->engine->wire_bytes(collective);
}

std::vector<WireCounts> Communicator::wire_counts() const {
  if (!impl_ || impl_->inherited()) return {};
  return impl_->engine->wire_counts();
}

bool Work::done() const noexcept { return operation_ == nullptr || operation_->over(); }

Status Work::wait(std::int64_t timeout_ms) {
  if (operation_ == nullptr) return not_made();
  if (operation_->generation != fork_generation()) return inherited();
  if (operation_->completion != nullptr) return operation_->completion->wait(timeout_ms);
  if (operation_->over()) return operation_->status();
  return operation_->engine->wait(*operation_, timeout_ms);
}

}  // namespace wreath
