// The project's own declarations of PMIx's client library agree with pmix.h, where that is installed.
#include "src/bootstrap/pmix_abi.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#if __has_include(<pmix.h>)
#include <pmix.h>

namespace wreath {
namespace {

static_assert(kPmixNamespaceBytes == sizeof(pmix_nspace_t));
static_assert(kPmixKeyBytes == sizeof(pmix_key_t));
static_assert(kPmixSuccess == PMIX_SUCCESS);
static_assert(kPmixBool == PMIX_BOOL);
static_assert(kPmixString == PMIX_STRING);
static_assert(kPmixGlobal == PMIX_GLOBAL);
static_assert(sizeof(PmixProcess) == sizeof(pmix_proc_t));
static_assert(offsetof(PmixProcess, rank) == offsetof(pmix_proc_t, rank));
static_assert(sizeof(PmixValue) == sizeof(pmix_value_t));
static_assert(offsetof(PmixValue, data) == offsetof(pmix_value_t, data));
static_assert(sizeof(PmixInfo) == sizeof(pmix_info_t));
static_assert(offsetof(PmixInfo, flags) == offsetof(pmix_info_t, flags));
static_assert(offsetof(PmixInfo, value) == offsetof(pmix_info_t, value));
static_assert(std::is_same_v<pmix_status_t, int> && std::is_same_v<pmix_rank_t, std::uint32_t>);
static_assert(std::is_same_v<pmix_scope_t, std::uint8_t> && std::is_same_v<pmix_data_type_t, std::uint16_t>);
static_assert(std::is_same_v<decltype(&PMIx_Init), pmix_status_t (*)(pmix_proc_t*, pmix_info_t*, std::size_t)>);
static_assert(std::is_same_v<decltype(&PMIx_Put), pmix_status_t (*)(pmix_scope_t, const char*, pmix_value_t*)>);
static_assert(std::is_same_v<decltype(&PMIx_Fence),
                             pmix_status_t (*)(const pmix_proc_t*, std::size_t, const pmix_info_t*, std::size_t)>);
static_assert(std::is_same_v<decltype(&PMIx_Get), pmix_status_t (*)(const pmix_proc_t*, const char*, const pmix_info_t*,
                                                                    std::size_t, pmix_value_t**)>);

TEST(PmixAbi, IsItsHeadersOwn) { EXPECT_STREQ(kPmixCollectData, PMIX_COLLECT_DATA); }

}  // namespace
}  // namespace wreath

#else

TEST(PmixAbi, IsItsHeadersOwn) { GTEST_SKIP() << "no pmix.h here: install libpmix-dev"; }

#endif
