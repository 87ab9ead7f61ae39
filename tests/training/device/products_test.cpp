// Products are asked of cuBLASLt in its own form; a reference reads matrices column by column as cuBLASLt does. The
// project's declarations are compared with cublasLt.h, where it is found.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/training/device/on_device.hpp"
#include "training/compute/cublaslt.hpp"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif

namespace wreath::training::test {
namespace {

#if __has_include(<cublasLt.h>)
static_assert(kCublasSuccess == CUBLAS_STATUS_SUCCESS);
static_assert(kCublasFloat32 == CUDA_R_32F && kCublasFloat16 == CUDA_R_16F && kCublasBFloat16 == CUDA_R_16BF);
static_assert(kCublasCompute32 == CUBLAS_COMPUTE_32F && kCublasTransposed == CUBLAS_OP_T);
static_assert(kCublasTransposeA == CUBLASLT_MATMUL_DESC_TRANSA && kCublasTransposeB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(kCublasMostWorkspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(kCublasAlignmentA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(kCublasAlignmentA + 3 == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(sizeof(CublasHeuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(CublasHeuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));

// True if both calls have as many arguments, each pair of which is two pointers or has the same size.
template <typename Ours, typename Theirs>
constexpr bool kSameCall = false;
template <typename R, typename... Ours, typename S, typename... Theirs>
constexpr bool kSameCall<R (*)(Ours...), S (*)(Theirs...)> = [] {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
    return ((std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> && sizeof(Ours) == sizeof(Theirs)) && ...);
  }
  return false;
}();
#define SAME(ours, theirs) static_assert(kSameCall<decltype(CublasFunctions::ours), decltype(&theirs)>)
SAME(create, cublasLtCreate);
SAME(destroy, cublasLtDestroy);
SAME(get_status_string, cublasLtGetStatusString);
SAME(layout_create, cublasLtMatrixLayoutCreate);
SAME(layout_destroy, cublasLtMatrixLayoutDestroy);
SAME(desc_create, cublasLtMatmulDescCreate);
SAME(desc_destroy, cublasLtMatmulDescDestroy);
SAME(desc_set, cublasLtMatmulDescSetAttribute);
SAME(preference_create, cublasLtMatmulPreferenceCreate);
SAME(preference_destroy, cublasLtMatmulPreferenceDestroy);
SAME(preference_set, cublasLtMatmulPreferenceSetAttribute);
SAME(get_heuristic, cublasLtMatmulAlgoGetHeuristic);
SAME(matmul, cublasLtMatmul);
#undef SAME
// The test passes while this file compiles.
TEST(CublasltHeader, IsHeldTo) {}
#else
TEST(CublasltHeader, IsHeldTo) {
  GTEST_SKIP() << "no cublasLt.h: install cuBLAS beside the CUDA toolkit and build again";
}
#endif

// Returns element [row][column] of op(factor).
float element(const ColumnMajorProduct::Factor& of, std::int64_t row, std::int64_t column) {
  return of.transposed ? of.data[row * of.stride + column] : of.data[column * of.stride + row];
}

struct Case {
  std::int64_t rows, depth, columns;
  bool left_transposed, right_transposed;
};

class ColumnMajor : public testing::TestWithParam<Case> {};

TEST_P(ColumnMajor, TheTransposedProductIsTheProduct) {
  const Case of = GetParam();
  // The number of elements between the lines of the left factor.
  constexpr std::int64_t kMore = 3;
  const auto view = [](const float* data, std::int64_t rows, std::int64_t columns, std::int64_t more, bool transposed) {
    const MatrixView lines{data, transposed ? columns : rows, transposed ? rows : columns,
                           (transposed ? rows : columns) + more, 1};
    return transposed ? lines.transposed() : lines;
  };
  const Values left = random_values(static_cast<std::size_t>((of.rows + kMore) * (of.depth + kMore)), 1);
  const Values right = random_values(static_cast<std::size_t>(of.depth * of.columns), 2);
  Values expected(static_cast<std::size_t>(of.rows * (of.columns + 1))), result = expected;
  const Product product{view(left.data(), of.rows, of.depth, kMore, of.left_transposed),
                        view(right.data(), of.depth, of.columns, 0, of.right_transposed), result.data(), of.columns + 1,
                        Accumulate::No};
  matrix_product(product.left, product.right, expected.data(), of.columns + 1);
  const auto asked = column_major(product);
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->a.transposed ? asked->a.columns : asked->a.rows, asked->m);
  EXPECT_EQ(asked->a.transposed ? asked->a.rows : asked->a.columns, asked->k);
  EXPECT_EQ(asked->b.transposed ? asked->b.columns : asked->b.rows, asked->k);
  EXPECT_EQ(asked->b.transposed ? asked->b.rows : asked->b.columns, asked->n);
  EXPECT_GE(asked->a.stride, asked->a.rows);
  EXPECT_GE(asked->b.stride, asked->b.rows);
  for (std::int64_t column = 0; column < asked->n; ++column) {
    for (std::int64_t row = 0; row < asked->m; ++row) {
      float sum = 0;
      for (std::int64_t k = 0; k < asked->k; ++k)
        sum = std::fma(element(asked->b, k, column), element(asked->a, row, k), sum);
      result[static_cast<std::size_t>(column * asked->result_stride + row)] = sum;
    }
  }
  expect_near(result, expected, 1e-6f);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ColumnMajor,
                         testing::Values(Case{5, 7, 3, false, false}, Case{5, 7, 3, true, false},
                                         Case{5, 7, 3, false, true}, Case{5, 7, 3, true, true},
                                         Case{1, 1, 1, true, false}, Case{1, 6, 4, true, true},
                                         Case{6, 1, 1, false, true}));

TEST(ColumnMajor, OtherViewsAreLeftToTheOwnKernel) {
  const Values values(100);
  const MatrixView every_second{values.data(), 4, 4, 16, 2};
  EXPECT_FALSE(column_major({every_second, matrix(values.data(), 4, 4), nullptr, 4, Accumulate::No}));
}

}  // namespace
}  // namespace wreath::training::test
