// SPDX-License-Identifier: Apache-2.0
// The libcublasLt stand-in: descriptors, one algorithm that fits everything, and products as one kernel
// (core/matmul.h); what a framework has fused to them (bias, activation) costs nothing extra.
#include <cstring>

#include "blas.h"

using namespace gpuwatch::sim;

namespace {

constexpr size_t kVersion = 130100;  // 13.1.0, which goes with CUDA 13.0

enum DescriptorAttribute : int { kTransposeA = 3, kTransposeB = 4 };
enum LayoutAttribute : int { kLayoutType = 0, kLayoutRows = 2, kLayoutColumns = 3, kLayoutBatch = 5 };

struct Descriptor {
  int compute = 0;
  int transpose_a = kBlasNone;
  int transpose_b = kBlasNone;
};

struct Layout {
  int type = CUDA_R_32F;
  uint64_t rows = 0;
  uint64_t columns = 0;
  int batch = 1;
};

struct Preference {};

// What cublasLtMatmulAlgoGetHeuristic fills in; its layout is public.
struct Heuristic {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Heuristic) == 96);

template <class T>
int take(T& field, const void* value, size_t size_bytes) {
  if (!value || size_bytes != sizeof field) return kBlasInvalidValue;
  std::memcpy(&field, value, sizeof field);
  return kBlasSuccess;
}

}  // namespace

GWSIM_EXPORT size_t cublasLtGetVersion() {
  return kVersion;
}
GWSIM_EXPORT int cublasLtCreate(void** handle) {
  static int only;
  *handle = &only;
  return kBlasSuccess;
}
GWSIM_EXPORT int cublasLtDestroy(void*) {
  return kBlasSuccess;
}

GWSIM_EXPORT int cublasLtMatmulDescCreate(Descriptor** descriptor, int compute, int) {
  *descriptor = new Descriptor{compute};
  return kBlasSuccess;
}
GWSIM_EXPORT int cublasLtMatmulDescDestroy(Descriptor* descriptor) {
  delete descriptor;
  return kBlasSuccess;
}
GWSIM_EXPORT int cublasLtMatmulDescSetAttribute(Descriptor* descriptor, int attribute, const void* value,
                                                size_t size_bytes) {
  if (attribute == kTransposeA) return take(descriptor->transpose_a, value, size_bytes);
  if (attribute == kTransposeB) return take(descriptor->transpose_b, value, size_bytes);
  return kBlasSuccess;
}

GWSIM_EXPORT int cublasLtMatrixLayoutCreate(Layout** layout, int type, uint64_t rows, uint64_t columns,
                                            int64_t) {
  *layout = new Layout{type, rows, columns};
  return kBlasSuccess;
}
GWSIM_EXPORT int cublasLtMatrixLayoutDestroy(Layout* layout) {
  delete layout;
  return kBlasSuccess;
}
GWSIM_EXPORT int cublasLtMatrixLayoutSetAttribute(Layout* layout, int attribute, const void* value,
                                                  size_t size_bytes) {
  if (attribute == kLayoutType) return take(layout->type, value, size_bytes);
  if (attribute == kLayoutRows) return take(layout->rows, value, size_bytes);
  if (attribute == kLayoutColumns) return take(layout->columns, value, size_bytes);
  if (attribute == kLayoutBatch) return take(layout->batch, value, size_bytes);
  return kBlasSuccess;
}

GWSIM_EXPORT int cublasLtMatmulPreferenceCreate(Preference** preference) {
  *preference = new Preference;
  return kBlasSuccess;
}
GWSIM_EXPORT int cublasLtMatmulPreferenceDestroy(Preference* preference) {
  delete preference;
  return kBlasSuccess;
}
GWSIM_EXPORT int cublasLtMatmulPreferenceSetAttribute(Preference*, int, const void*, size_t) {
  return kBlasSuccess;
}

GWSIM_EXPORT int cublasLtMatmulAlgoGetHeuristic(void*, const Descriptor*, const Layout*, const Layout*,
                                                const Layout*, const Layout*, const Preference*,
                                                int requested, Heuristic* found, int* count) {
  if (!found || !count || requested < 1) return kBlasInvalidValue;
  *found = {};
  found->waves = 1;
  *count = 1;
  return kBlasSuccess;
}

GWSIM_EXPORT int cublasLtMatmul(void*, const Descriptor* descriptor, const void*, const void*,
                                const Layout* a, const void*, const Layout*, const void*, const void*,
                                const Layout*, void*, const Layout* d, const void*, void*, size_t,
                                void* stream) {
  if (!descriptor || !a || !d) return kBlasInvalidValue;
  Matmul mm;
  if (!precision_of(a->type, descriptor->compute == kBlasComputeFastTf32, mm.precision))
    return kBlasNotSupported;
  mm.transposed_a = descriptor->transpose_a != kBlasNone;
  mm.transposed_b = descriptor->transpose_b != kBlasNone;
  mm.m = d->rows;
  mm.n = d->columns;
  mm.k = mm.transposed_a ? a->rows : a->columns;
  mm.batch = static_cast<uint64_t>(d->batch);
  mm.result_bytes = element_bytes(d->type);
  return run_matmul(mm, stream);
}
