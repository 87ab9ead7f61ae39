// Matrix products by cuBLASLt, which is loaded while the program runs: libcublasLt.so.13 or .12, where there is one.
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

// cuBLASLt's matrices lie column by column, so it is asked for the transposed product of the transposed factors:
// D [m][n] = A [m][k] B [k][n], where D, A and B are result, right and left, each transposed as it lies in memory. A
// factor that lies column by column itself is transposed once more by the library.
struct ColumnMajorProduct {
  struct Factor {
    const float* data;
    std::int64_t rows, columns;  // as they lie
    std::int64_t stride;         // from column to column
    bool transposed;
  };
  Factor a, b;
  std::int64_t m, n, k;
  std::int64_t result_stride;
};
// nullopt: views that lie neither row by row nor column by column.
std::optional<ColumnMajorProduct> column_major(const Product& product);

// Cublaslt serves one Compute on a CUDA device, in float32 without TF32; with a 16-bit format both factors are rounded
// to it first and products add up in float32.
class Cublaslt {
 public:
  // Unavailable, and why, where there is no library or it does not start.
  static Result<std::unique_ptr<Cublaslt>> create(Compute& on);
  ~Cublaslt();
  Cublaslt(const Cublaslt&) = delete;
  Cublaslt& operator=(const Cublaslt&) = delete;
  const std::string& name() const noexcept { return name_; }  // "cuBLASLt 13.0.2"

  // False, and nothing done, of products that it does not take. Throws Exception where it fails.
  bool multiply(const Product& product, const std::optional<DataType>& half);

 private:
  // All that decides on an algorithm.
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
