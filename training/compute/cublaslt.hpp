// This file declares matrix products by cuBLASLt. The program loads libcublasLt.so.13 or .12 while it runs, where there
// is one.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "training/compute/cublaslt_abi.hpp"
#include "training/compute/products.hpp"

namespace wreath::training {

// A product as cuBLASLt is asked for it. cuBLASLt's matrices lie column by column, so it computes the transposed
// product of the transposed factors. In D [m][n] = A [m][k] B [k][n], D, A and B are result, right and left, each
// transposed as it lies in memory. The library transposes a factor once more where that factor itself lies column by
// column.
struct ColumnMajorProduct {
  struct Factor {
    const float* data;
    std::int64_t rows, columns;  // as they lie in memory
    std::int64_t stride;         // from column to column
    bool transposed;
  };
  Factor a, b;
  std::int64_t m, n, k;
  std::int64_t result_stride;
};
// Returns nullopt where a view lies neither row by row nor column by column.
std::optional<ColumnMajorProduct> column_major(const Product& product);

// Multiplies for one Compute on a CUDA device, in float32 without TF32. With a 16-bit format it first rounds both
// factors to that format, and products still add up in float32.
class Cublaslt {
 public:
  // Loads and starts the library. The error is Unavailable, with the reason, where there is no library or it does not
  // start.
  static Result<std::unique_ptr<Cublaslt>> create(Compute& on);
  ~Cublaslt();
  Cublaslt(const Cublaslt&) = delete;
  Cublaslt& operator=(const Cublaslt&) = delete;
  const std::string& name() const noexcept { return name_; }  // "cuBLASLt 13.0.2"

  // Computes the product. Returns false, with nothing done, where it does not take this product. Throws Exception where
  // it fails.
  bool multiply(const Product& product, const std::optional<DataType>& half);

 private:
  // All numbers that decide on an algorithm.
  using Key = std::array<std::int64_t, 12>;
  struct Plan;
  Cublaslt(Compute& on, const CublasFunctions& library);
  Status start();
  Plan& plan_of(const ColumnMajorProduct& of, int type, bool accumulate, const std::array<std::int64_t, 3>& alignments);
  Status check(CublasStatus status, const char* call) const;

  Compute& on_;
  const CublasFunctions& library_;
  CublasHandle handle_ = nullptr;
  std::string name_;
  void* workspace_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace wreath::training
