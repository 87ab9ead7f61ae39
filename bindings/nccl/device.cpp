// Implements the host side of NCCL's device interface. It answers about teams, and refuses what kernels would need.
#include <string>

#include "bindings/nccl/errors.hpp"
#include "bindings/nccl/member.hpp"

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.
extern "C" {

// Holds the ranks world.rank + (i - rank) * stride, for i of 0 .. nRanks - 1.
struct ncclTeam {
  int nRanks, rank, stride;
};
using ncclTeam_t = ncclTeam;

struct ncclDevComm;
struct ncclDevCommRequirements;
struct ncclDevResourceRequirements;
struct ncclLsaBarrierHandle;
struct ncclGinBarrierHandle;
struct ncclLLA2AHandle;
}
// NOLINTEND(readability-identifier-naming)

namespace wreath::nccl {
namespace {

ncclResult_t no_device(const char* function) noexcept {
  return guarded([&] {
    return refuse(ncclInvalidUsage,
                  std::string(function) + ": this library has no interface for kernels that communicate by themselves");
  });
}

// Returns the handle's member; null, so that the team is empty, where there is no such communicator.
std::shared_ptr<Member> member_of(ncclComm_t comm) noexcept {
  std::shared_ptr<Member> member;
  static_cast<void>(guarded([&] {
    member = members().find(comm);
    return member != nullptr ? ncclSuccess : bad_argument("ncclTeam", "comm is no communicator");
  }));
  return member;
}

// Every rank is the only one whose memory its kernels could load and store.
constexpr ncclTeam kAlone{1, 0, 1};

ncclTeam world(ncclComm_t comm) noexcept {
  const auto member = member_of(comm);
  return member == nullptr ? ncclTeam{0, 0, 0} : ncclTeam{member->ranks(), member->rank(), 1};
}

}  // namespace
}  // namespace wreath::nccl

using namespace wreath::nccl;  // NOLINT(google-build-using-namespace)

extern "C" {

ncclTeam_t pncclTeamWorld(ncclComm_t comm) { return world(comm); }
ncclTeam_t pncclTeamLsa(ncclComm_t comm) { return member_of(comm) == nullptr ? ncclTeam{0, 0, 0} : kAlone; }
ncclTeam_t pncclTeamRail(ncclComm_t comm) { return world(comm); }
int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank) {
  return world(comm).rank + (rank - team.rank) * team.stride;
}
int pncclTeamRankToLsa(ncclComm_t, ncclTeam_t team, int rank) { return kAlone.rank + (rank - team.rank) * team.stride; }

// Returns the slots that elements take: a slot holds 8 bytes of data.
int pncclLLA2ACalcSlots(int most_elements, int most_element_bytes) {
  return most_elements * ((most_element_bytes + 7) / 8);
}

ncclResult_t pncclDevCommCreate(ncclComm_t, const ncclDevCommRequirements*, ncclDevComm*) {
  return no_device("ncclDevCommCreate");
}
ncclResult_t pncclDevCommDestroy(ncclComm_t, const ncclDevComm*) { return no_device("ncclDevCommDestroy"); }
ncclResult_t pncclLsaBarrierCreateRequirement(ncclTeam_t, int, ncclLsaBarrierHandle*, ncclDevResourceRequirements*) {
  return no_device("ncclLsaBarrierCreateRequirement");
}
ncclResult_t pncclGinBarrierCreateRequirement(ncclComm_t, ncclTeam_t, int, ncclGinBarrierHandle*,
                                              ncclDevResourceRequirements*) {
  return no_device("ncclGinBarrierCreateRequirement");
}
ncclResult_t pncclLLA2ACreateRequirement(int, int, ncclLLA2AHandle*, ncclDevResourceRequirements*) {
  return no_device("ncclLLA2ACreateRequirement");
}
}

WREATH_NCCL_EXPORT(TeamWorld);
WREATH_NCCL_EXPORT(TeamLsa);
WREATH_NCCL_EXPORT(TeamRail);
WREATH_NCCL_EXPORT(TeamRankToWorld);
WREATH_NCCL_EXPORT(TeamRankToLsa);
WREATH_NCCL_EXPORT(LLA2ACalcSlots);
WREATH_NCCL_EXPORT(DevCommCreate);
WREATH_NCCL_EXPORT(DevCommDestroy);
WREATH_NCCL_EXPORT(LsaBarrierCreateRequirement);
WREATH_NCCL_EXPORT(GinBarrierCreateRequirement);
WREATH_NCCL_EXPORT(LLA2ACreateRequirement);
