// Stands for libcublasLt.so.13: it computes products on the host, in the order of the stream of the fake CUDA driver.
// It refuses the same as cuBLASLt: shapes that do not match, and strides that are too short.
#include <dlfcn.h>

#include <bit>
#include <cstdint>
#include <map>

#include "training/compute/cublaslt_abi.hpp"

namespace {

using wreath::training::CublasAlgorithm;
using wreath::training::CublasHandle;
using wreath::training::CublasHeuristic;
using wreath::training::CublasStatus;

constexpr CublasStatus kNotSupported = 15;

struct Layout {
  int type;
  std::int64_t rows, columns, stride;
};
struct Desc {
  std::map<int, std::int32_t> attributes;
  bool transposes(int attribute) const {
    const auto found = attributes.find(attribute);
    return found != attributes.end() && found->second == wreath::training::kCublasTransposed;
  }
};

struct Operand {
  const Layout& layout;
  bool transposed;
  const void* data = nullptr;
  std::int64_t rows() const { return transposed ? layout.columns : layout.rows; }
  std::int64_t columns() const { return transposed ? layout.rows : layout.columns; }
  float at(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = transposed ? row * layout.stride + column : column * layout.stride + row;
    if (layout.type == wreath::training::kCublasFloat32) return static_cast<const float*>(data)[i];
    return std::bit_cast<float>(std::uint32_t{static_cast<const std::uint16_t*>(data)[i]} << 16);
  }
};

bool fits(const Operand& a, const Operand& b, const Layout& d) {
  for (const Layout* layout : {&a.layout, &b.layout, &d}) {
    if (layout->stride < layout->rows || layout->rows < 1 || layout->columns < 1) return false;
  }
  return a.columns() == b.rows() && a.rows() == d.rows && b.columns() == d.columns;
}

// Waits for the work that the stream holds, so that the product comes after it.
void synchronize(void* stream) {
  using GetProcAddress = int(const char*, void**, int, std::uint64_t, int*);
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto* const get = reinterpret_cast<GetProcAddress*>(dlsym(driver, "cuGetProcAddress_v2"));
  void* found = nullptr;
  int status = 0;
  get("cuStreamSynchronize", &found, 12000, 0, &status);
  reinterpret_cast<int (*)(void*)>(found)(stream);
  dlclose(driver);
}

}  // namespace

extern "C" {

std::size_t cublasLtGetVersion() { return 130'002; }
const char* cublasLtGetStatusString(CublasStatus) { return "not supported"; }
CublasStatus cublasLtCreate(CublasHandle* handle) { return *handle = new int(0), 0; }
CublasStatus cublasLtDestroy(CublasHandle handle) { return delete static_cast<int*>(handle), 0; }
CublasStatus cublasLtMatrixLayoutCreate(CublasHandle* layout, int type, std::uint64_t rows, std::uint64_t columns,
                                        std::int64_t stride) {
  *layout = new Layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), stride};
  return 0;
}
CublasStatus cublasLtMatrixLayoutDestroy(CublasHandle layout) { return delete static_cast<Layout*>(layout), 0; }
CublasStatus cublasLtMatmulDescCreate(CublasHandle* desc, int compute, int scale) {
  if (compute != wreath::training::kCublasCompute32 || scale != wreath::training::kCublasFloat32) return kNotSupported;
  return *desc = new Desc, 0;
}
CublasStatus cublasLtMatmulDescDestroy(CublasHandle desc) { return delete static_cast<Desc*>(desc), 0; }
CublasStatus cublasLtMatmulDescSetAttribute(CublasHandle desc, int attribute, const void* value, std::size_t) {
  static_cast<Desc*>(desc)->attributes[attribute] = *static_cast<const std::int32_t*>(value);
  return 0;
}
CublasStatus cublasLtMatmulPreferenceCreate(CublasHandle* preference) { return *preference = new int(0), 0; }
CublasStatus cublasLtMatmulPreferenceDestroy(CublasHandle preference) {
  return delete static_cast<int*>(preference), 0;
}
CublasStatus cublasLtMatmulPreferenceSetAttribute(CublasHandle, int, const void*, std::size_t) { return 0; }

CublasStatus cublasLtMatmulAlgoGetHeuristic(CublasHandle, CublasHandle desc, CublasHandle a, CublasHandle b,
                                            CublasHandle, CublasHandle d, CublasHandle, int, CublasHeuristic* heuristic,
                                            int* found) {
  const Desc& of = *static_cast<Desc*>(desc);
  const bool good =
      fits({*static_cast<Layout*>(a), of.transposes(wreath::training::kCublasTransposeA)},
           {*static_cast<Layout*>(b), of.transposes(wreath::training::kCublasTransposeB)}, *static_cast<Layout*>(d));
  *heuristic = {};
  *found = good ? 1 : 0;
  return good ? 0 : kNotSupported;
}

CublasStatus cublasLtMatmul(CublasHandle, CublasHandle desc, const void* alpha, const void* a, CublasHandle a_layout,
                            const void* b, CublasHandle b_layout, const void* beta, const void* c, CublasHandle,
                            void* d, CublasHandle d_layout, const CublasAlgorithm*, void*, std::size_t, void* stream) {
  const Desc& of = *static_cast<Desc*>(desc);
  const Operand left{*static_cast<Layout*>(a_layout), of.transposes(wreath::training::kCublasTransposeA), a};
  const Operand right{*static_cast<Layout*>(b_layout), of.transposes(wreath::training::kCublasTransposeB), b};
  const Layout& result = *static_cast<Layout*>(d_layout);
  if (!fits(left, right, result) || c != d) return kNotSupported;
  synchronize(stream);
  for (std::int64_t column = 0; column < result.columns; ++column) {
    for (std::int64_t row = 0; row < result.rows; ++row) {
      float sum = 0;
      for (std::int64_t k = 0; k < left.columns(); ++k) sum += left.at(row, k) * right.at(k, column);
      float& into = static_cast<float*>(d)[column * result.stride + row];
      const float before = *static_cast<const float*>(beta) != 0 ? into : 0.0f;
      into = *static_cast<const float*>(alpha) * sum + before;
    }
  }
  return 0;
}

}  // extern "C"
