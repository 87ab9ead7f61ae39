// Declares the part of PMIx's client library that Wreath calls: versions 3 to 5 have it alike, in libpmix.so.2.
// `tests/unit/bootstrap/pmix_abi_test.cpp` compares it with pmix.h where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wreath {

inline constexpr std::size_t kPmixNamespaceBytes = 256;
inline constexpr std::size_t kPmixKeyBytes = 512;
inline constexpr int kPmixSuccess = 0;
inline constexpr std::uint16_t kPmixBool = 1;
inline constexpr std::uint16_t kPmixString = 3;
inline constexpr std::uint8_t kPmixGlobal = 3;
inline constexpr const char* kPmixCollectData = "pmix.collect";

struct PmixProcess {
  char name_space[kPmixNamespaceBytes];
  std::uint32_t rank;
};

struct PmixValue {
  std::uint16_t type;
  union {
    bool flag;
    char* string;
    // The largest member has three pointers.
    void* others[3];
  } data;
};

struct PmixInfo {
  char key[kPmixKeyBytes];
  std::uint32_t flags;
  PmixValue value;
};

struct PmixFunctions {
  int (*initialise)(PmixProcess* self, PmixInfo* infos, std::size_t count) = nullptr;
  int (*finalise)(const PmixInfo* infos, std::size_t count) = nullptr;
  int (*put)(std::uint8_t scope, const char* key, PmixValue* value) = nullptr;
  int (*commit)() = nullptr;
  int (*fence)(const PmixProcess* processes, std::size_t count, const PmixInfo* infos,
               std::size_t info_count) = nullptr;
  int (*get)(const PmixProcess* process, const char* key, const PmixInfo* infos, std::size_t count,
             PmixValue** value) = nullptr;
  const char* (*explain)(int status) = nullptr;
};

}  // namespace wreath
