// SPDX-License-Identifier: Apache-2.0
// What the operations of a graph cost, as one kernel.
//
// A convolution is the matrix product that implicit GEMM computes: with N images of C channels, K filters of
// C/groups x R x S, and outputs of P x Q,
//   forward   M = N*P*Q   N = K/groups     K = C/groups*R*S
//   data      M = N*H*W   N = C/groups     K = K/groups*R*S, of which a stride leaves 1/(stride_h*stride_w)
//   filter    M = K/groups  N = C/groups*R*S  K = N*P*Q, cut into as many slices as fill the device
// once a group, any number of spatial dimensions alike. Layout changes before and after, Winograd and FFT
// are not modelled. Attention is its two products, its gradient five; a causal mask saves nothing.
// Everything takes the longer of two times: that of its arithmetic (core/matmul.h), and that of moving what
// enters and leaves the graph once at d2d_gbs.
#include <algorithm>
#include <set>

#include "core/config.h"
#include "dnn.h"

namespace gpuwatch::sim::dnn {

namespace {

struct Convolution {
  const char* kind;
  ContentRef x, w, y, description;
};

bool find_convolution(const Content& graph, Convolution& found) {
  for (const ContentRef& op : graph.contents(kGraphOperations)) {
    if (op->type == kConvolutionForward) {
      found = {"fprop", op->content(kForwardX), op->content(kForwardW), op->content(kForwardY),
               op->content(kForwardConvolution)};
    } else if (op->type == kConvolutionBackwardData) {
      found = {"dgrad", op->content(kDataDx), op->content(kDataW), op->content(kDataDy),
               op->content(kDataConvolution)};
    } else if (op->type == kConvolutionBackwardFilter) {
      found = {"wgrad", op->content(kFilterX), op->content(kFilterDw), op->content(kFilterDy),
               op->content(kFilterConvolution)};
    } else {
      continue;
    }
    return found.x && found.w && found.y && found.description;
  }
  return false;
}

uint64_t product(const std::vector<int64_t>& factors, size_t from = 0) {
  uint64_t result = 1;
  for (size_t i = from; i < factors.size(); ++i) result *= static_cast<uint64_t>(factors[i]);
  return result;
}

// The type that decides the precision: the first operand's.
int operand_type(const Content& graph) {
  Convolution convolution;
  if (find_convolution(graph, convolution)) return static_cast<int>(convolution.x->number(kTensorDataType));
  for (const ContentRef& op : graph.contents(kGraphOperations)) {
    for (const int attribute : {kMatmulA, kAttentionQ}) {
      if (const ContentRef a = op->content(attribute)) return static_cast<int>(a->number(kTensorDataType));
    }
  }
  return kFloat;
}

Matmul matmul_of(const Convolution& c, MatmulPrecision precision) {
  const std::vector<int64_t> x = c.x->numbers(kTensorDimensions), w = c.w->numbers(kTensorDimensions),
                             y = c.y->numbers(kTensorDimensions);
  Matmul mm;
  mm.precision = precision;
  if (x.size() < 3 || w.size() != x.size() || y.size() != x.size() || w[1] < 1 || x[1] < w[1]) return mm;
  const auto groups = static_cast<uint64_t>(x[1] / w[1]);
  const auto images = static_cast<uint64_t>(x[0]);
  const auto channels = static_cast<uint64_t>(w[1]);
  const uint64_t filters = static_cast<uint64_t>(w[0]) / groups;
  const uint64_t window = product(w, 2), outputs = images * product(y, 2);
  mm.batch = groups;
  if (c.kind == std::string("fprop")) {
    mm.m = outputs, mm.n = filters, mm.k = channels * window;
    mm.result_bytes = static_cast<uint32_t>(element_bytes(static_cast<int>(c.y->number(kTensorDataType))));
  } else if (c.kind == std::string("dgrad")) {
    const uint64_t strides = std::max<uint64_t>(1, product(c.description->numbers(kConvolutionStrides)));
    mm.m = images * product(x, 2), mm.n = channels;
    mm.k = std::max<uint64_t>(1, filters * window / strides);
    mm.result_bytes = static_cast<uint32_t>(element_bytes(static_cast<int>(c.x->number(kTensorDataType))));
  } else {
    mm.m = filters, mm.n = channels * window, mm.k = outputs;
    const uint64_t edge = matmul_tile_edge(mm);
    const uint64_t tiles = ((mm.m + edge - 1) / edge) * ((mm.n + edge - 1) / edge) * groups;
    const auto multiprocessors = static_cast<uint64_t>(config().multiprocessors);
    // A slice shorter than a tile's edge is not worth a partial sum.
    const uint64_t slices =
        std::clamp<uint64_t>(multiprocessors / tiles, 1, std::max<uint64_t>(1, mm.k / edge));
    mm.k = (mm.k + slices - 1) / slices;
    mm.batch = groups * slices;
  }
  return mm;
}

// In the scheme of cuDNN 8 and 9: "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize
// 128x128x16_stage4_warpsize2x2x1_g1_tensor16x8x8_kernel_cudnn" (operands, result and accumulator, filter and
// image layout, tile).
std::string convolution_name(const Convolution& c, const Matmul& mm) {
  struct Traits {
    const char *types, *depth, *instruction;
  };
  static const Traits kTraits[] = {{"f64f64_f64f64_f64", "x8_stage3", "tensor8x8x4"},
                                   {"f32f32_f32f32_f32", "x8_stage3", "ffma"},
                                   {"tf32f32_tf32f32_f32", "x16_stage4", "tensor16x8x8"},
                                   {"f16f16_f16f32_f32", "x32_stage4", "tensor16x8x16"},
                                   {"bf16bf16_bf16f32_f32", "x32_stage4", "tensor16x8x16"},
                                   {"e4m3e4m3_e4m3f32_f32", "x64_stage3", "tensor16x8x32"},
                                   {"i8i8_i8i32_f32", "x64_stage3", "tensor16x8x32"}};
  const Traits& t = kTraits[static_cast<size_t>(mm.precision)];
  const std::vector<int64_t> strides = c.x->numbers(kTensorStrides);
  const bool channels_last = strides.size() > 2 && strides[1] == 1;
  const std::string edge = std::to_string(matmul_tile_edge(mm));
  return std::string("sm80_xmma_") + c.kind + "_implicit_gemm_" + t.types + "_nhwckrsc_" +
         (channels_last ? "nhwc" : "nchw") + "_tilesize" + edge + "x" + edge + t.depth +
         "_warpsize2x2x1_g1_" + t.instruction + "_kernel_cudnn";
}

// Bytes of all that enters and leaves the graph.
uint64_t traffic_bytes(const Content& graph) {
  std::set<int64_t> counted;
  uint64_t bytes = 0;
  for (const ContentRef& op : graph.contents(kGraphOperations)) {
    for (const auto& [attribute, value] : op->values) {
      for (const ContentRef& tensor : value.contents) {
        if (tensor->type != kTensor || tensor->number(kTensorIsVirtual)) continue;
        if (!counted.insert(tensor->number(kTensorUniqueId)).second) continue;
        bytes += product(tensor->numbers(kTensorDimensions)) *
                 element_bytes(static_cast<int>(tensor->number(kTensorDataType)));
      }
    }
  }
  return bytes;
}

// batch... x rows x inner, times batch... x inner x columns.
double product_ns(const ContentRef& a, const ContentRef& b, bool transposed_b, MatmulPrecision precision) {
  const std::vector<int64_t> left = a->numbers(kTensorDimensions), right = b->numbers(kTensorDimensions);
  if (left.size() < 2 || right.size() < 2) return 0;
  Matmul mm;
  mm.precision = precision;
  mm.m = static_cast<uint64_t>(left[left.size() - 2]);
  mm.k = static_cast<uint64_t>(left.back());
  mm.n = static_cast<uint64_t>(transposed_b ? right[right.size() - 2] : right.back());
  mm.batch = mm.m && mm.k ? product(left) / (mm.m * mm.k) : 0;
  return matmul_arithmetic_ns(mm);
}

Ns duration_ns(const Content& graph, double arithmetic_ns) {
  const double traffic_ns = static_cast<double>(traffic_bytes(graph)) / config().d2d_bytes_per_ns;
  const Ns floor_ns = arithmetic_ns > 0 ? config().matmul_floor_ns : config().default_kernel_ns;
  return floor_ns + static_cast<Ns>(std::max(arithmetic_ns, traffic_ns));
}

LibraryKernel fused_kernel(const Content& graph, MatmulPrecision precision) {
  double arithmetic_ns = 0;
  int products = 0;
  for (const ContentRef& op : graph.contents(kGraphOperations)) {
    const ContentRef a = op->content(kMatmulA), b = op->content(kMatmulB);
    const ContentRef q = op->content(kAttentionQ), k = op->content(kAttentionK);
    if (a && b) {
      arithmetic_ns += product_ns(a, b, false, precision);
      ++products;
    } else if (op->type == kAttentionForward && q && k) {
      arithmetic_ns += 2 * product_ns(q, k, true, precision);  // and that with V, of the same size
      products += 2;
    }
  }
  const char* what = products == 0   ? "pointwise"
                     : products == 1 ? "gemm"
                     : products == 2 ? "fort_native_sdpa_sm80_flash_fprop"
                                     : "fort_native_sdpa_sm80_flash_bprop";
  return {std::string("cudnn_generated_") + what + "_kernel0_0", shape_for_bytes(traffic_bytes(graph)),
          duration_ns(graph, arithmetic_ns)};
}

}  // namespace

size_t element_bytes(int data_type) {
  switch (data_type) {
    case kDouble:
    case kInt64:
      return 8;
    case kHalf:
    case kBfloat16:
      return 2;
    case kInt8:
      return 1;
    default:
      return 4;
  }
}

MatmulPrecision precision_of(int data_type, bool tensor_cores) {
  switch (data_type) {
    case kDouble:
      return MatmulPrecision::kF64;
    case kHalf:
      return tensor_cores ? MatmulPrecision::kF16 : MatmulPrecision::kF32;
    case kBfloat16:
      return tensor_cores ? MatmulPrecision::kBf16 : MatmulPrecision::kF32;
    case kInt8:
      return MatmulPrecision::kInt8;
    default:
      return tensor_cores ? MatmulPrecision::kTf32 : MatmulPrecision::kF32;
  }
}

int engine_count(const Content& graph) {
  return engine_uses_tensor_cores(graph, 0) ? 2 : 1;
}

bool has_tensor_cores(int type) {
  const int major = config().compute_major;
  // TF32 and bf16 came with compute capability 8.0, half precision with 7.0.
  return (type == kHalf && major >= 7) || ((type == kFloat || type == kBfloat16) && major >= 8);
}

bool engine_uses_tensor_cores(const Content& graph, int64_t engine) {
  return engine == 0 && has_tensor_cores(operand_type(graph));
}

LibraryKernel kernel_of(const Content& graph, int64_t engine) {
  const MatmulPrecision precision =
      precision_of(operand_type(graph), engine_uses_tensor_cores(graph, engine));
  Convolution convolution;
  if (!find_convolution(graph, convolution)) return fused_kernel(graph, precision);
  const Matmul mm = matmul_of(convolution, precision);
  return {convolution_name(convolution, mm), matmul_shape(mm), duration_ns(graph, matmul_arithmetic_ns(mm))};
}

}  // namespace gpuwatch::sim::dnn
