// Every element of a matrix product is one chain of multiply-adds, for any shape, strides and number of threads.
#include "training/compute/matrix_product.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/processes.hpp"
#include "tests/training/math/instruction_sets.hpp"
#include "wreath/result.hpp"

namespace wreath::training::products {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A matrix with memory of its own, whose neighbours in memory are NaN.
struct Matrix {
  std::vector<float> values;
  MatrixView view;
};

// Returns a matrix of values between -1 and 1. In a transposed one columns follow each other. `gap` elements lie
// between lines.
Matrix random_matrix(std::int64_t rows, std::int64_t columns, bool transposed, std::int64_t gap, std::uint64_t seed) {
  const std::int64_t lines = transposed ? columns : rows;
  const std::int64_t width = transposed ? rows : columns;
  const std::int64_t stride = width + gap;
  Matrix made{std::vector<float>(static_cast<std::size_t>(lines * stride + gap), kNan), {}};
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (std::int64_t line = 0; line < lines; ++line) {
    for (std::int64_t i = 0; i < width; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      made.values[static_cast<std::size_t>(gap + line * stride + i)] =
          static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31f;
    }
  }
  const MatrixView plain{made.values.data() + gap, lines, width, stride, 1};
  made.view = transposed ? plain.transposed() : plain;
  return made;
}

float at(const MatrixView& view, std::int64_t row, std::int64_t column) {
  return view.data[row * view.row_stride + column * view.column_stride];
}

// Computes the product exactly as the contract defines it.
std::vector<float> chain(const MatrixView& left, const MatrixView& right, float first) {
  const bool fused = fuses();
  std::vector<float> result;
  for (std::int64_t i = 0; i < left.rows; ++i) {
    for (std::int64_t j = 0; j < right.columns; ++j) {
      float sum = first;
      for (std::int64_t k = 0; k < left.columns; ++k) {
        const float product = at(left, i, k) * at(right, k, j);
        sum = fused ? std::fma(at(left, i, k), at(right, k, j), sum) : sum + product;
      }
      result.push_back(sum);
    }
  }
  return result;
}

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> words;
  for (const float value : values) words.push_back(std::bit_cast<std::uint32_t>(value));
  return words;
}

// Computes the product by the library. Expects that values beside the result keep what they are.
std::vector<float> product(const MatrixView& left, const MatrixView& right, Accumulate accumulate, float first) {
  const std::int64_t stride = right.columns + 3;
  std::vector<float> wide(static_cast<std::size_t>(left.rows * stride), -7.0f);
  for (std::int64_t i = 0; i < left.rows; ++i) {
    std::fill_n(wide.begin() + i * stride, right.columns, first);
  }
  matrix_product(left, right, wide.data(), stride, accumulate);
  std::vector<float> result;
  for (std::int64_t i = 0; i < left.rows * stride; ++i) {
    const float value = wide[static_cast<std::size_t>(i)];
    if (i % stride < right.columns) {
      result.push_back(value);
    } else {
      EXPECT_EQ(value, -7.0f) << "beside row " << i / stride;
    }
  }
  return result;
}

struct Shape {
  std::int64_t rows;
  std::int64_t inner;
  std::int64_t columns;
};

// These shapes lie around the edges of tiles (6, 12; 2, 16, 32) and of blocks (144; 256; 1024).
const Shape kShapes[] = {{1, 1, 1},    {1, 7, 33},    {5, 3, 15},      {6, 16, 16},    {7, 17, 17},   {12, 32, 32},
                         {13, 33, 31}, {23, 255, 47}, {24, 256, 48},   {25, 257, 49},  {143, 5, 65},  {145, 64, 3},
                         {2, 513, 9},  {3, 2, 1025},  {150, 260, 100}, {289, 9, 1031}, {64, 600, 64}, {11, 100, 10}};

// Bit 0 of the parameter says that the left factor is transposed, bit 1 the right one.
class MatrixProductBits : public testing::TestWithParam<int> {};

TEST_P(MatrixProductBits, AreThoseOfTheChain) {
  const bool left_transposed = (GetParam() & 1) != 0;
  const bool right_transposed = (GetParam() & 2) != 0;
  with_every_instruction_set([&] {
    for (const Shape& shape : kShapes) {
      // Under sanitizers each large shape is taken once.
      const bool large = shape.rows * shape.inner * shape.columns > 1'000'000;
      if (testing_support::kSanitized && large && GetParam() != 3) continue;
      const Matrix left = random_matrix(shape.rows, shape.inner, left_transposed, 5, 1);
      const Matrix right = random_matrix(shape.inner, shape.columns, right_transposed, 2, 2);
      SCOPED_TRACE(testing::Message() << shape.rows << "x" << shape.inner << "x" << shape.columns);
      EXPECT_EQ(bits(product(left.view, right.view, Accumulate::No, kNan)), bits(chain(left.view, right.view, 0.0f)));
      EXPECT_EQ(bits(product(left.view, right.view, Accumulate::Yes, 0.3f)), bits(chain(left.view, right.view, 0.3f)));
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Transposes, MatrixProductBits, testing::Range(0, 4));

TEST(MatrixProduct, TakesStridesThatAreNotOneInEitherDirection) {
  const Matrix left = random_matrix(20, 3 * 40, false, 1, 3);
  const Matrix right = random_matrix(40, 5 * 18, false, 1, 4);
  const MatrixView every_third{left.view.data, 20, 40, left.view.row_stride, 3};
  const MatrixView every_fifth{right.view.data, 40, 18, right.view.row_stride, 5};
  EXPECT_EQ(bits(product(every_third, every_fifth, Accumulate::No, kNan)), bits(chain(every_third, every_fifth, 0.0f)));
}

// Ranks hold parts of the rows, the columns or the inner dimension. The parts have the bits of the whole product.
TEST(MatrixProduct, PartsHaveTheBitsOfTheWhole) {
  constexpr std::int64_t kRows = 61, kInner = 300, kColumns = 83;
  const Matrix left = random_matrix(kRows, kInner, false, 0, 5);
  const Matrix right = random_matrix(kInner, kColumns, true, 0, 6);
  std::vector<float> whole(kRows * kColumns);
  matrix_product(left.view, right.view, whole.data(), kColumns);
  for (const std::int64_t row : {1, 6, 13, 32, 60}) {
    for (const std::int64_t column : {1, 16, 31, 50, 82}) {
      for (const std::int64_t k : {1, 255, 256, 299}) {
        std::vector<float> parts(kRows * kColumns, kNan);
        for (const auto& [i, rows] : {std::pair(std::int64_t{0}, row), std::pair(row, kRows - row)}) {
          for (const auto& [j, columns] : {std::pair(std::int64_t{0}, column), std::pair(column, kColumns - column)}) {
            const MatrixView a{left.view.data + i * left.view.row_stride, rows, k, left.view.row_stride, 1};
            const MatrixView b{right.view.data + j * right.view.column_stride, k, columns, 1, right.view.column_stride};
            float* result = parts.data() + i * kColumns + j;
            matrix_product(a, b, result, kColumns);
            matrix_product({a.data + k, rows, kInner - k, a.row_stride, 1},
                           {b.data + k, kInner - k, columns, 1, b.column_stride}, result, kColumns, Accumulate::Yes);
          }
        }
        ASSERT_EQ(bits(parts), bits(whole)) << row << " rows, " << column << " columns, " << k << " inner first";
      }
    }
  }
}

// The rounding error of a sum of n products is at most n / 2^24 of the sum of their magnitudes (Higham 2002, 3.1).
TEST(MatrixProduct, IsCloseToTheProductInFloat64) {
  with_every_instruction_set([] {
    const Matrix left = random_matrix(48, 700, false, 0, 7);
    const Matrix right = random_matrix(700, 40, true, 0, 8);
    const std::vector<float> result = product(left.view, right.view, Accumulate::No, kNan);
    for (std::int64_t i = 0; i < 48; ++i) {
      for (std::int64_t j = 0; j < 40; ++j) {
        double sum = 0;
        double magnitude = 0;
        for (std::int64_t k = 0; k < 700; ++k) {
          const double term = double{at(left.view, i, k)} * double{at(right.view, k, j)};
          sum += term;
          magnitude += std::abs(term);
        }
        EXPECT_NEAR(result[static_cast<std::size_t>(i * 40 + j)], sum, 700 * 0x1p-24 * magnitude);
      }
    }
  });
}

TEST(MatrixProduct, OfNothing) {
  const float none = kNan;
  float result[] = {3.0f, 4.0f};
  matrix_product({&none, 2, 0, 0, 1}, {&none, 0, 1, 1, 1}, result, 1, Accumulate::Yes);
  EXPECT_EQ(result[0], 3.0f);
  matrix_product({&none, 0, 5, 5, 1}, {&none, 5, 1, 1, 1}, result, 1);
  matrix_product({&none, 2, 1, 1, 1}, {&none, 1, 0, 0, 1}, result, 1);
  EXPECT_EQ(result[1], 4.0f);
  matrix_product({&none, 2, 0, 0, 1}, {&none, 0, 1, 1, 1}, result, 1);
  EXPECT_EQ(result[0], 0.0f);
  EXPECT_EQ(result[1], 0.0f);
}

TEST(MatrixProduct, OfShapesThatDoNotMeetIsAnError) {
  const float values[6] = {};
  float result[4];
  try {
    matrix_product(matrix(values, 2, 3), matrix(values, 2, 2), result, 2);
    FAIL();
  } catch (const Exception& error) {
    EXPECT_EQ(error.error().code, ErrorCode::InvalidArgument);
    EXPECT_NE(std::string(error.what()).find("2 x 3 by 2 x 2"), std::string::npos) << error.what();
  }
}

// The tests use OpenBLAS where the build has it. Otherwise choosing it is an error that says so.
class OpenBlas : public testing::Test {
 protected:
  ~OpenBlas() override { set_matrix_product(MatrixProduct::Own); }
  static bool chosen() {
    try {
      set_matrix_product(MatrixProduct::OpenBlas);
      return true;
    } catch (const Exception& error) {
      EXPECT_EQ(error.error().code, ErrorCode::Unavailable);
      return false;
    }
  }
};

TEST_F(OpenBlas, IsCloseToTheOwnKernelForEveryTranspose) {
  if (!chosen()) GTEST_SKIP() << "built without OpenBLAS: install libopenblas-dev and build anew";
  for (const int transposes : {0, 1, 2, 3}) {
    for (const Shape& shape : kShapes) {
      const Matrix left = random_matrix(shape.rows, shape.inner, (transposes & 1) != 0, 5, 1);
      const Matrix right = random_matrix(shape.inner, shape.columns, (transposes & 2) != 0, 2, 2);
      for (const Accumulate accumulate : {Accumulate::No, Accumulate::Yes}) {
        const std::vector<float> result = product(left.view, right.view, accumulate, 0.3f);
        const std::vector<float> expected = chain(left.view, right.view, accumulate == Accumulate::Yes ? 0.3f : 0.0f);
        for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(result[i], expected[i], 1e-4) << i;
      }
    }
  }
}

TEST_F(OpenBlas, LeavesOtherStridesAndNothingToTheOwnKernel) {
  const Matrix left = random_matrix(20, 3 * 40, false, 1, 3);
  const Matrix right = random_matrix(40, 18, false, 1, 4);
  const MatrixView every_third{left.view.data, 20, 40, left.view.row_stride, 3};
  const auto expected = bits(chain(every_third, right.view, 0.0f));
  if (!chosen()) GTEST_SKIP() << "built without OpenBLAS: install libopenblas-dev and build anew";
  EXPECT_EQ(bits(product(every_third, right.view, Accumulate::No, kNan)), expected);
  const MatrixView no_columns{left.view.data, 20, 0, left.view.row_stride, 1};
  const MatrixView no_rows{right.view.data, 0, 18, right.view.row_stride, 1};
  EXPECT_EQ(product(no_columns, no_rows, Accumulate::No, kNan), std::vector<float>(20 * 18));
}

}  // namespace
}  // namespace wreath::training::products
