// Finds a libnccl.so.2, and calls it.
#include "perf/common/nccl.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <glob.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <type_traits>
#include <vector>

namespace wreath::perf {
namespace {

// The first version that allows ranks to share a GPU.
constexpr int kLeastVersion = 23'000;
constexpr int kFloat32 = 7;
constexpr int kBFloat16 = 9;
constexpr int kSum = 0;
// The places in which packages of distributions, of CUDA and of Python put the library.
constexpr std::array kPlaces{"/usr/lib/*/libnccl.so.2", "/usr/local/cuda*/lib64/libnccl.so.2",
                             "/usr/local/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2",
                             "/usr/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2",
                             "/opt/*/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2"};

std::vector<std::string> places() {
  std::vector<std::string> found{"libnccl.so.2"};
  for (const char* const pattern : kPlaces) {
    glob_t matches{};
    if (::glob(pattern, 0, nullptr, &matches) == 0) {
      found.insert(found.end(), matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
    }
    ::globfree(&matches);
  }
  return found;
}

// Returns whether the file is this project's library of that name, which holds the names of its settings.
bool is_wreath(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return text.find("WREATH_TRANSPORT") != std::string::npos;
}

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10'000, version / 100 % 100, version % 100);
}

}  // namespace

Result<std::unique_ptr<Nccl>> Nccl::open(const std::string& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Error{ErrorCode::Unavailable, ::dlerror()};
  std::unique_ptr<Nccl> nccl(new Nccl);
  bool complete = true;
  const auto set = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    complete = complete && function != nullptr;
  };
  set("ncclGetVersion", nccl->get_version_);
  set("ncclGetUniqueId", nccl->get_unique_id_);
  set("ncclCommInitRank", nccl->comm_init_rank_);
  set("ncclCommDestroy", nccl->comm_destroy_);
  set("ncclAllReduce", nccl->all_reduce_);
  set("ncclGetErrorString", nccl->get_error_string_);
  Dl_info where{};
  if (!complete || ::dladdr(reinterpret_cast<void*>(nccl->get_version_), &where) == 0) {
    return Error{ErrorCode::Unavailable, fmt::format("{}: it lacks functions of NCCL", path)};
  }
  nccl->path_ = where.dli_fname;
  if (is_wreath(nccl->path_)) {
    ::dlclose(library);
    return Error{ErrorCode::Unavailable, fmt::format("{}: it is Wreath's own", nccl->path_)};
  }
  WREATH_TRY(nccl->check("ncclGetVersion", nccl->get_version_(&nccl->version_)));
  if (nccl->version_ < kLeastVersion) {
    return Error{ErrorCode::Unavailable, fmt::format("{}: it is NCCL {}, which has one rank a GPU; from {} on several",
                                                     nccl->path_, nccl->version(), version_text(kLeastVersion))};
  }
  return nccl;
}

Result<std::unique_ptr<Nccl>> Nccl::find(const std::string& named) {
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  std::vector<std::string> refused;
  for (const std::string& path : named.empty() ? places() : std::vector<std::string>{named}) {
    auto nccl = open(path);
    if (nccl) return nccl;
    refused.push_back(nccl.error().message);
  }
  return Error{ErrorCode::Unavailable,
               fmt::format("no NCCL of {} or later: {}", version_text(kLeastVersion), fmt::join(refused, "; "))};
}

std::string Nccl::version() const { return version_text(version_); }

Status Nccl::check(const char* call, int code) const {
  if (code == 0) return {};
  return Error{ErrorCode::Unavailable, fmt::format("{} of NCCL {}: {}", call, version(), get_error_string_(code))};
}

Result<NcclId> Nccl::make_id() const {
  NcclId id{};
  WREATH_TRY(check("ncclGetUniqueId", get_unique_id_(&id)));
  return id;
}

Result<void*> Nccl::join(int ranks, const NcclId& id, int rank) const {
  void* communicator = nullptr;
  WREATH_TRY(check("ncclCommInitRank", comm_init_rank_(&communicator, ranks, id, rank)));
  return communicator;
}

Status Nccl::all_reduce(const void* input, void* output, std::size_t count, DataType dtype, void* communicator,
                        void* stream) const {
  const int type = dtype == DataType::BFloat16 ? kBFloat16 : kFloat32;
  return check("ncclAllReduce", all_reduce_(input, output, count, type, kSum, communicator, stream));
}

void Nccl::destroy(void* communicator) const { comm_destroy_(communicator); }

}  // namespace wreath::perf
