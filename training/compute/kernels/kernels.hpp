// This file holds the table of the training layer's kernels.
#pragma once

#include "training/compute/kernels/attention.hpp"
#include "training/compute/kernels/elements.hpp"
#include "training/compute/kernels/matrix_product.hpp"
#include "training/compute/kernels/rows.hpp"
#include "wreath/kernel.hpp"

// Calls KERNEL(name, type of its arguments, type of its block's shared memory) for each kernel.
#define WREATH_TRAINING_KERNELS(KERNEL)                           \
  KERNEL(fill, FillRun, BlockSums)                                \
  KERNEL(add, AddRun, BlockSums)                                  \
  KERNEL(bias, BiasRun, BlockSums)                                \
  KERNEL(copy_rows, CopyRowsRun, BlockSums)                       \
  KERNEL(gelu, GeluRun, BlockSums)                                \
  KERNEL(round, RoundRun, BlockSums)                              \
  KERNEL(convert, ConvertRun, BlockSums)                          \
  KERNEL(adamw, AdamWRun, BlockSums)                              \
  KERNEL(sgd, SgdRun, BlockSums)                                  \
  KERNEL(dropout, DropoutRun, BlockSums)                          \
  KERNEL(layer_norm, LayerNormRun, BlockSums)                     \
  KERNEL(layer_norm_backward, LayerNormBackwardRun, BlockSums)    \
  KERNEL(column_sums, ColumnSumsRun, BlockSums)                   \
  KERNEL(cross_entropy_parts, CrossEntropyPartsRun, BlockSums)    \
  KERNEL(cross_entropy, CrossEntropyRun, BlockSums)               \
  KERNEL(embedding, EmbeddingRun, BlockSums)                      \
  KERNEL(embedding_backward, EmbeddingBackwardRun, BlockSums)     \
  KERNEL(dot_rows, DotRowsRun, BlockSums)                         \
  KERNEL(gradient_sum, GradientSumRun, BlockSums)                 \
  KERNEL(matrix_product, MatrixProductRun, ProductShared)         \
  KERNEL(attention_forward, AttentionForwardRun, AttentionShared) \
  KERNEL(attention_finish, AttentionFinishRun, BlockSums)         \
  KERNEL(attention_backward, AttentionBackwardRun, AttentionShared)

namespace wreath::training {

// Returns the kernel that runs run_kernel() of a Run.
template <typename Run>
const Kernel& kernel_of() noexcept;

#define WREATH_DECLARE_KERNEL(name, Run, Shared) \
  template <>                                    \
  const Kernel& kernel_of<Run>() noexcept;
WREATH_TRAINING_KERNELS(WREATH_DECLARE_KERNEL)
#undef WREATH_DECLARE_KERNEL

}  // namespace wreath::training
