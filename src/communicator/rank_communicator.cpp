// Communicators are put together here, and so are their children.
#include "src/communicator/rank_communicator.hpp"

#include <algorithm>

#include "src/base/log.hpp"
#include "src/device/runs/device_parts.hpp"
#include "src/membership/join.hpp"
#include "src/membership/links.hpp"
#include "src/membership/pairwise_members.hpp"
#include "wreath/transport.hpp"

namespace wreath {
namespace {

std::shared_ptr<RankCommunicator> made_by_join(std::shared_ptr<ChildCommunicator> child) {
  return std::static_pointer_cast<RankCommunicator>(std::move(child));
}

}  // namespace

BootstrapRequest request_of(int rank, int ranks, const AgreedOptions& options, const Device* device) {
  BootstrapRequest request{};
  request.rank = rank;
  request.ranks = ranks;
  request.settings = encode_options(options);
  request.timeout_ms = options.timeouts.bootstrap_ms;
  request.device = identity_of(device);
  request.need_streams = std::ranges::any_of(
      transports(), [&](const TransportRow& row) { return row.needs_stream && allows(options, row.name); });
  return request;
}

Result<std::shared_ptr<RankCommunicator>> RankCommunicator::create(Membership membership, std::uint16_t epoch) {
  auto members = std::make_unique<PairwiseMembers>(membership.rank, membership.members, std::move(membership.control));
  return create(std::move(members), std::move(membership), epoch);
}

Result<std::shared_ptr<RankCommunicator>> RankCommunicator::create(std::unique_ptr<Members> members,
                                                                   Membership membership, std::uint16_t epoch) {
  const auto options = decode_options(membership.settings);
  if (!options) return options.error();
  const LogRank log_rank(membership.rank);
  auto made =
      std::shared_ptr<RankCommunicator>(new RankCommunicator(std::move(members), std::move(membership), *options));
  WREATH_TRY(
      made->engine_->link(epoch, device_runs(made->device_), device_segments(made->device_, options->transports)));
  return made;
}

// Makes the parts. The engine gets messages first, since it compares calls, and split asks whether they differ.
RankCommunicator::RankCommunicator(std::unique_ptr<Members> members, Membership membership,
                                   const AgreedOptions& options)
    : device_(membership.device),
      engine_(std::make_shared<Engine>(std::move(members), std::move(membership), options)),
      split_(std::make_shared<Split>(static_cast<ParentCommunicator&>(*this), engine_->members(), options.timeouts)),
      shrink_(*this, engine_->members(), options.timeouts) {
  split_->handle(engine_->members().handlers());
  shrink_.handle(engine_->members().handlers());
  engine_->when_failed([split = split_] { split->on_failure(); });
}

// Stops the members, since the handlers of this object go with it.
RankCommunicator::~RankCommunicator() { engine_->members().stop(); }

Result<std::shared_ptr<RankCommunicator>> RankCommunicator::split(int color, int key) {
  auto child = split_->run(color, key);
  if (!child) return child.error();
  return made_by_join(*std::move(child));
}

Result<std::shared_ptr<RankCommunicator>> RankCommunicator::shrink(std::int64_t timeout_ms,
                                                                   std::span<const Rank> without) {
  auto child = shrink_.run(timeout_ms, without);
  if (!child) return child.error();
  return made_by_join(*std::move(child));
}

Status RankCommunicator::abort() {
  shrink_.stop();
  return engine_->abort();
}

Result<std::shared_ptr<ChildCommunicator>> RankCommunicator::join(const std::vector<Rank>& members, const UniqueId& id,
                                                                  const Interrupt& interrupt) {
  const auto self = std::find(members.begin(), members.end(), engine_->rank());
  BootstrapRequest request = request_of(static_cast<int>(self - members.begin()), static_cast<int>(members.size()),
                                        engine_->options(), device_);
  request.interrupt = interrupt.descriptor();
  auto membership = wreath::join(id, request);
  if (!membership) return error_of_child(membership.error(), members);
  membership->device = device_;
  auto child = create(std::move(*membership), static_cast<std::uint16_t>(engine_->shape().epoch + 1));
  if (!child) return error_of_child(child.error(), members);
  return std::shared_ptr<ChildCommunicator>(*std::move(child));
}

}  // namespace wreath
