// This file declares the part of cuBLASLt's interface that is used, for its versions 12 and 13. A test compares it with
// cublasLt.h where that is found.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wreath::training {

using CublasStatus = int;
using CublasHandle = void*;
inline constexpr CublasStatus kCublasSuccess = 0;

inline constexpr int kCublasFloat32 = 0;     // CUDA_R_32F
inline constexpr int kCublasFloat16 = 2;     // CUDA_R_16F
inline constexpr int kCublasBFloat16 = 14;   // CUDA_R_16BF
inline constexpr int kCublasCompute32 = 68;  // CUBLAS_COMPUTE_32F: no TF32
inline constexpr int kCublasTransposed = 1;  // CUBLAS_OP_T
inline constexpr int kCublasTransposeA = 3;  // attributes of a product
inline constexpr int kCublasTransposeB = 4;
inline constexpr int kCublasMostWorkspace = 1;  // attributes of a preference
inline constexpr int kCublasAlignmentA = 5;     // B, C and D follow

struct CublasAlgorithm {
  std::uint64_t data[8];
};
struct CublasHeuristic {
  CublasAlgorithm algorithm;
  std::size_t workspace_bytes;
  CublasStatus state;
  float waves;
  int reserved[4];
};

struct CublasFunctions {
  std::size_t (*get_version)();
  const char* (*get_status_string)(CublasStatus);
  CublasStatus (*create)(CublasHandle*);
  CublasStatus (*destroy)(CublasHandle);
  CublasStatus (*layout_create)(CublasHandle*, int type, std::uint64_t rows, std::uint64_t columns,
                                std::int64_t stride);
  CublasStatus (*layout_destroy)(CublasHandle);
  CublasStatus (*desc_create)(CublasHandle*, int compute, int scale_type);
  CublasStatus (*desc_destroy)(CublasHandle);
  CublasStatus (*desc_set)(CublasHandle, int attribute, const void* value, std::size_t bytes);
  CublasStatus (*preference_create)(CublasHandle*);
  CublasStatus (*preference_destroy)(CublasHandle);
  CublasStatus (*preference_set)(CublasHandle, int attribute, const void* value, std::size_t bytes);
  CublasStatus (*get_heuristic)(CublasHandle, CublasHandle desc, CublasHandle a, CublasHandle b, CublasHandle c,
                                CublasHandle d, CublasHandle preference, int wanted, CublasHeuristic*, int* found);
  CublasStatus (*matmul)(CublasHandle, CublasHandle desc, const void* alpha, const void* a, CublasHandle a_layout,
                         const void* b, CublasHandle b_layout, const void* beta, const void* c, CublasHandle c_layout,
                         void* d, CublasHandle d_layout, const CublasAlgorithm*, void* workspace,
                         std::size_t workspace_bytes, void* stream);
};

}  // namespace wreath::training
