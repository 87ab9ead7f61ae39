// Makes communicators out of communicators: split and shrink.
#include <string>
#include <utility>
#include <vector>

#include "bindings/nccl/config.hpp"
#include "bindings/nccl/errors.hpp"
#include "bindings/nccl/group.hpp"

namespace wreath::nccl {
namespace {

// Limits the wait for ranks that live and do not call what all ranks must call.
constexpr std::int64_t kShrinkMs = 60'000;

// Makes the place where a child will be; without a config it is as its parent.
Result<std::shared_ptr<Member>> make_child(const Member& parent, const ncclConfig_t* config) {
  Member::Identity identity{-1, 0, parent.device(), parent.blocking(), parent.name(), parent.cuda()};
  if (config != nullptr) {
    const auto wanted = read_config(config);
    if (!wanted) return wanted.error();
    identity.blocking = wanted->blocking;
    identity.name = wanted->name;
  }
  return std::make_shared<Member>(std::move(identity));
}

// Makes a child, which `derive` makes of the parent's communicator. `wanted` says that this rank gets a handle.
template <typename Derive>
ncclResult_t make(const std::shared_ptr<Member>& parent, ncclComm_t* target, const ncclConfig_t* config, bool wanted,
                  Derive derive) {
  {
    const Use use(parent, true);
    if (use.entered() != ncclSuccess) return use.entered();
  }
  const auto child = make_child(*parent, config);
  if (!child) return refuse(code_of(child.error(), -1), child.error().message);
  if (wanted) *target = members().add(*child);
  const auto body = [parent, made = *child, derive = std::move(derive)] { return made->joined(derive(*parent)); };
  return submit(Job{*child, target, parent, parent->blocking(), body});
}

Result<Communicator> split(Member& parent, int color, int key) {
  if (!parent.revoked()) return parent.communicator().split(color, key);
  auto whole = parent.communicator().shrink(kShrinkMs);
  return whole ? whole->split(color, key) : std::move(whole);
}

Status check_excluded(const Member& parent, const int* ranks, int count) {
  const auto invalid = [](std::string text) { return Error{ErrorCode::InvalidArgument, std::move(text), -1}; };
  if (ranks == nullptr) return invalid("excludeRanksList = null");
  if (count < 1) return invalid("excludeRanksCount = " + std::to_string(count));
  for (int i = 0; i < count; ++i) {
    const std::string text = "excludeRanksList[" + std::to_string(i) + "] = " + std::to_string(ranks[i]);
    if (ranks[i] < 0 || ranks[i] >= parent.ranks()) return invalid(text);
    if (ranks[i] == parent.rank()) return invalid(text + " is the caller");
  }
  return {};
}

}  // namespace
}  // namespace wreath::nccl

using namespace wreath;        // NOLINT(google-build-using-namespace)
using namespace wreath::nccl;  // NOLINT(google-build-using-namespace)

extern "C" {

ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config) {
  constexpr const char* kName = "ncclCommSplit";
  const auto body = [&](const std::shared_ptr<Member>& parent) {
    if (newcomm == nullptr) return bad_argument(kName, "newcomm = null");
    *newcomm = nullptr;
    if (color < 0 && color != NCCL_SPLIT_NOCOLOR) return bad_argument(kName, "color = " + std::to_string(color));
    return make(parent, newcomm, config, color != NCCL_SPLIT_NOCOLOR,
                [color, key](Member& member) { return split(member, color, key); });
  };
  return refused(with_member(kName, comm, body));
}

ncclResult_t pncclCommShrink(ncclComm_t comm, int* excluded_ranks, int excluded_count, ncclComm_t* newcomm,
                             ncclConfig_t* config, int shrink_flags) {
  constexpr const char* kName = "ncclCommShrink";
  const auto body = [&](const std::shared_ptr<Member>& parent) {
    if (newcomm == nullptr) return bad_argument(kName, "newcomm = null");
    *newcomm = nullptr;
    if (shrink_flags != NCCL_SHRINK_DEFAULT && shrink_flags != NCCL_SHRINK_ABORT)
      return bad_argument(kName, "shrinkFlags = " + std::to_string(shrink_flags));
    const Status checked = check_excluded(*parent, excluded_ranks, excluded_count);
    if (!checked) return bad_argument(kName, checked.error().message);
    std::vector<Rank> without(excluded_ranks, excluded_ranks + excluded_count);
    return make(parent, newcomm, config, true,
                [without = std::move(without), ends_work = shrink_flags == NCCL_SHRINK_ABORT](Member& member) {
                  if (ends_work && !member.revoked()) static_cast<void>(member.revoke());
                  return member.communicator().shrink(kShrinkMs, without);
                });
  };
  return refused(with_member(kName, comm, body));
}
}

WREATH_NCCL_EXPORT(CommSplit);
WREATH_NCCL_EXPORT(CommShrink);
