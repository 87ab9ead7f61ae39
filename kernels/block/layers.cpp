// The layers' kernels, with a block of host threads.
#include "kernels/block/layers.hpp"

#include "kernels/block/kernels.hpp"
#include "kernels/cuda/image.hpp"
#include "wreath/kernel.hpp"

namespace wreath {
namespace {

static_assert(sizeof(LayerShared) <= sizeof(HostBlockShared::memory));

template <typename Run, void (*kRun)(HostBlock&, const Run&)>
void on_host(HostBlock& block, const void* arguments) {
  kRun(block, *static_cast<const Run*>(arguments));
}

}  // namespace

const Kernel& layer_norm_kernel() noexcept {
  static const Kernel kernel{"wreath_layer_norm", cuda_image(), &on_host<LayerNormRun, &run_layer_norm<HostBlock>>};
  return kernel;
}

const Kernel& layer_norm_backward_kernel() noexcept {
  static const Kernel kernel{"wreath_layer_norm_backward", cuda_image(),
                             &on_host<LayerNormRun, &run_layer_norm_backward<HostBlock>>};
  return kernel;
}

const Kernel& layer_norm_backward_weights_kernel() noexcept {
  static const Kernel kernel{"wreath_layer_norm_backward_weights", cuda_image(),
                             &on_host<LayerNormRun, &run_layer_norm_backward_weights<HostBlock>>};
  return kernel;
}

const Kernel& gelu_kernel() noexcept {
  static const Kernel kernel{"wreath_gelu", cuda_image(), &on_host<GeluRun, &run_gelu<HostBlock>>};
  return kernel;
}

const Kernel& cross_entropy_kernel() noexcept {
  static const Kernel kernel{"wreath_cross_entropy", cuda_image(),
                             &on_host<CrossEntropyRun, &run_cross_entropy<HostBlock>>};
  return kernel;
}

const Kernel& adamw_kernel() noexcept {
  static const Kernel kernel{"wreath_adamw", cuda_image(), &on_host<AdamWRun, &run_adamw<HostBlock>>};
  return kernel;
}

}  // namespace wreath
