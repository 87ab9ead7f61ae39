// Measures the mathematics of the training layer on one thread. Matrix products have the shapes of the demo's models,
// by our own kernel and, where it is built, by OpenBLAS, in GFLOP/s. Layers are in GB/s read and written, and there is
// attention.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "perf/micro/memory_share.hpp"
#include "training/compute/attention.hpp"
#include "training/compute/layers.hpp"
#include "training/compute/matrix_product.hpp"
#include "wreath/result.hpp"

namespace wreath::perf {
namespace {

using training::Gelu;
using training::MatrixProduct;

std::vector<float> waves(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  return values;
}

// Runs body() in every iteration. Counts `amount` for each one, in billions for a second of this thread's time.
template <typename Body>
void run_counted(benchmark::State& state, const char* unit, double amount, Body body) {
  const double start = thread_ns();
  for (auto _ : state) {
    body();
    benchmark::ClobberMemory();
  }
  state.counters[unit] = static_cast<double>(state.iterations()) * amount / (thread_ns() - start);
}

struct Shape {
  std::int64_t rows, inner, columns;
  bool left_transposed, right_transposed;
};

// The shapes of 4 layers of 128 at 12 x 64 tokens, and of 6 layers of 384 at 256 tokens. There are the products
// forward, to the input and to the weights, the head, one token alone, and the blocks of attention.
constexpr std::array kShapes = {
    Shape{768, 128, 384, false, true},  Shape{768, 128, 384, false, false}, Shape{768, 128, 512, false, true},
    Shape{768, 512, 128, false, true},  Shape{128, 768, 384, true, false},  Shape{768, 128, 65, false, true},
    Shape{256, 384, 1152, false, true}, Shape{256, 384, 1536, false, true}, Shape{256, 1536, 384, false, true},
    Shape{1, 384, 1536, false, true},   Shape{48, 32, 64, false, true},     Shape{48, 64, 32, false, false},
};

void run_product(benchmark::State& state, MatrixProduct by, const Shape& shape) {
  const std::vector<float> left = waves(shape.rows * shape.inner);
  const std::vector<float> right = waves(shape.inner * shape.columns);
  std::vector<float> result(static_cast<std::size_t>(shape.rows * shape.columns));
  const auto view = [](const std::vector<float>& of, std::int64_t rows, std::int64_t columns, bool transposed) {
    return transposed ? training::matrix(of.data(), columns, rows).transposed()
                      : training::matrix(of.data(), rows, columns);
  };
  training::set_matrix_product(by);
  const auto a = view(left, shape.rows, shape.inner, shape.left_transposed);
  const auto b = view(right, shape.inner, shape.columns, shape.right_transposed);
  run_counted(state, "GFLOPs", 2.0 * static_cast<double>(shape.rows * shape.inner * shape.columns),
              [&] { training::matrix_product(a, b, result.data(), shape.columns); });
  training::set_matrix_product(MatrixProduct::Own);
}

bool has_openblas() {
  try {
    training::set_matrix_product(MatrixProduct::OpenBlas);
    training::set_matrix_product(MatrixProduct::Own);
    return true;
  } catch (const Exception&) {
    return false;
  }
}

void run_layer_norm(benchmark::State& state) {
  const std::int64_t rows = 768, width = state.range(0);
  const std::vector<float> x = waves(rows * width), weight = waves(width);
  std::vector<float> y(x.size()), mean(768), deviation(768);
  run_counted(state, "GBs", 8.0 * static_cast<double>(x.size()), [&] {
    training::layer_norm_forward(x, weight, {}, y, {mean, deviation});
  });
}

void run_layer_norm_backward(benchmark::State& state) {
  const std::int64_t rows = 768, width = state.range(0);
  const std::vector<float> x = waves(rows * width), weight = waves(width);
  std::vector<float> dx(x.size()), dw(weight.size()), mean(768, 0.1f), deviation(768, 1.4f);
  run_counted(state, "GBs", 16.0 * static_cast<double>(x.size()), [&] {
    training::layer_norm_backward(x, weight, {mean, deviation}, x, dx);
    training::layer_norm_backward_weights(x, {mean, deviation}, x, dw, {});
  });
}

void run_gelu(benchmark::State& state, Gelu kind, bool backward) {
  const std::vector<float> x = waves(768 * 512);
  std::vector<float> y(x.size());
  run_counted(state, "GBs", (backward ? 12.0 : 8.0) * static_cast<double>(x.size()), [&] {
    if (backward) {
      training::gelu_backward(kind, x, x, y);
    } else {
      training::gelu_forward(kind, x, y);
    }
  });
}

// Measures attention by heads, head size and length. It counts the FLOPs of the keys that are seen.
void run_attention(benchmark::State& state, bool backward) {
  const training::AttentionShape shape{state.range(0), state.range(1)};
  const std::int64_t length = state.range(2), width = shape.heads * shape.head_size;
  const std::vector<float> qkv = waves(length * 3 * width), delta = waves(length * shape.heads);
  std::vector<float> out(static_cast<std::size_t>(length * width)), gradient(qkv.size()),
      log_sum_exp(delta.size(), 5.0f);
  std::vector<float> highest(delta.size()), sum(delta.size());
  const auto part = [&](auto* data, int which) {
    return training::Rows<std::remove_pointer_t<decltype(data)>>{data + which * width, 3 * width, 0, length};
  };
  const float* in = qkv.data();
  const double pairs = static_cast<double>(length * (length + 1) / 2 * width);
  run_counted(state, "GFLOPs", (backward ? 10.0 : 4.0) * pairs, [&] {
    if (backward) {
      attention_backward_block(shape, {part(in, 0), {out.data(), width, 0, length}, log_sum_exp, delta}, part(in, 1),
                               part(in, 2), part(gradient.data(), 0), part(gradient.data(), 1),
                               part(gradient.data(), 2));
    } else {
      std::fill(highest.begin(), highest.end(), -std::numeric_limits<float>::infinity());
      attention_add_block(shape, part(in, 0), part(in, 1), part(in, 2), {highest, sum, {out.data(), width, 0, length}});
    }
  });
}

}  // namespace

void register_training() {
  for (const Shape& shape : kShapes) {
    const std::string name = fmt::format("{}x{}x{}{}{}", shape.rows, shape.inner, shape.columns,
                                         shape.left_transposed ? "/T" : "/N", shape.right_transposed ? "T" : "N");
    benchmark::RegisterBenchmark(("matrix_product/own/" + name).c_str(), run_product, MatrixProduct::Own, shape);
    if (has_openblas()) {
      benchmark::RegisterBenchmark(("matrix_product/openblas/" + name).c_str(), run_product, MatrixProduct::OpenBlas,
                                   shape);
    }
  }
  benchmark::RegisterBenchmark("layer_norm", run_layer_norm)->Arg(128)->Arg(384);
  benchmark::RegisterBenchmark("layer_norm/backward", run_layer_norm_backward)->Arg(128)->Arg(384);
  for (const bool backward : {false, true}) {
    const std::string end = backward ? "/backward" : "";
    benchmark::RegisterBenchmark(("gelu/exact" + end).c_str(), run_gelu, Gelu::Exact, backward);
    benchmark::RegisterBenchmark(("gelu/tanh" + end).c_str(), run_gelu, Gelu::Tanh, backward);
    benchmark::RegisterBenchmark(("attention" + end).c_str(), run_attention, backward)
        ->Args({4, 32, 64})
        ->Args({6, 64, 256});
  }
}

}  // namespace wreath::perf
