// SPDX-License-Identifier: Apache-2.0
#include "decomposition.h"

#include <algorithm>
#include <utility>

#include "config.h"

namespace gpuwatch::sim {

namespace {

constexpr uint64_t kPanelColumns = 128;  // the edge of a matmul's large tile, so that none is half empty

const char* routine_of(Decomposition what) {
  static constexpr const char* kNames[] = {"getrf", "potrf", "sytrf", "geqrf", "orgqr",
                                           "ormqr", "trsm",  "sytrd", "gehrd", "gebrd"};
  return kNames[static_cast<size_t>(what)];
}

const char* type_of(MatmulPrecision precision) {
  return precision == MatmulPrecision::kF64   ? "double"
         : precision == MatmulPrecision::kC32 ? "float2"
         : precision == MatmulPrecision::kC64 ? "double2"
                                              : "float";
}

class Kernels {
 public:
  explicit Kernels(const DenseTask& task) : t_(task) {}

  std::vector<LibraryKernel> take() {
    if (t_.m == 0 || t_.n == 0) return {};
    switch (t_.what) {
      case Decomposition::kTriangular:
        triangular();
        break;
      case Decomposition::kFormQ:
        form_q();
        break;
      case Decomposition::kApplyQ:
        apply_q(t_.m, t_.n, t_.other);
        break;
      default:
        panels();
        finish();
    }
    return std::move(result_);
  }

  double multiplications() const { return multiplications_; }

 private:
  void matmul(uint64_t m, uint64_t n, uint64_t k) {
    if (m == 0 || n == 0 || k == 0) return;
    Matmul mm;
    mm.m = m, mm.n = n, mm.k = k, mm.precision = t_.precision;
    mm.result_bytes = operand_bytes(t_.precision);
    multiplications_ += static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    result_.push_back(matmul_kernel(mm));
  }

  void panel(uint64_t read_elements, double multiplications) {
    multiplications_ += multiplications;
    result_.push_back(memory_kernel(
        std::string(routine_of(t_.what)) + "_panel_kernel<" + type_of(t_.precision) + ">",
        read_elements * operand_bytes(t_.precision), multiplications_ns(t_.precision, multiplications)));
  }

  void panels() {
    const uint64_t columns = std::min(t_.m, t_.n);
    for (uint64_t done = 0; done < columns; done += kPanelColumns) {
      const uint64_t width = std::min(kPanelColumns, columns - done);
      panel_and_update(t_.m - done, t_.n - done, width);
    }
  }

  // Of what is left, rows x columns, the first `width` columns.
  void panel_and_update(uint64_t rows, uint64_t columns, uint64_t width) {
    const uint64_t rest_rows = rows - std::min(rows, width), rest_columns = columns - width;
    const auto panel_square = static_cast<double>(rows * width * width);
    const uint64_t own = 2 * rows * width, everything = rows * columns;
    switch (t_.what) {
      case Decomposition::kLu:
        panel(own, panel_square / 2);
        matmul(width, rest_columns, width);
        return matmul(rest_rows, rest_columns, width);
      case Decomposition::kCholesky:
      case Decomposition::kSymmetricIndefinite:
        panel(own, panel_square / 2);
        return matmul(rest_rows, (rest_rows + 1) / 2, width);  // one half of it
      case Decomposition::kQr:
        panel(own, panel_square);
        return update_by_reflectors(rows, rest_columns, width);
      case Decomposition::kSymmetricEigen:  // each column is multiplied with all that is left
        panel(own + width * everything, static_cast<double>(width * everything));
        return matmul(rest_rows, rest_rows, width);
      case Decomposition::kEigen:
        panel(own + width * everything, static_cast<double>(width * everything));
        update_by_reflectors(rows, rest_columns, width);
        return update_by_reflectors(t_.n, rest_columns, width);
      default:  // SVD: each column, and each row
        panel(own + 2 * width * everything, 2 * static_cast<double>(width * everything));
        return matmul(rest_rows, rest_columns, 2 * width);
    }
  }

  void update_by_reflectors(uint64_t rows, uint64_t columns, uint64_t count) {
    matmul(count, columns, rows);
    matmul(rows, columns, count);
  }

  // Columns before the reflector's are still those of the identity.
  void form_q() {
    for (uint64_t done = 0; done < t_.other; done += kPanelColumns)
      update_by_reflectors(t_.m - std::min(t_.m, done), t_.n - std::min(t_.n, done),
                           std::min(kPanelColumns, t_.other - done));
  }

  void apply_q(uint64_t rows, uint64_t columns, uint64_t count) {
    for (uint64_t done = 0; done < count; done += kPanelColumns) {
      const uint64_t left = rows - std::min(rows, done);
      update_by_reflectors(left, columns, std::min(kPanelColumns, count - done));
    }
  }

  void triangular() {
    for (uint64_t done = 0; done < t_.n; done += kPanelColumns) {
      const uint64_t width = std::min(kPanelColumns, t_.n - done);
      panel(2 * width * t_.other, static_cast<double>(width * width * t_.other) / 2);
      matmul(t_.n - done - width, t_.other, width);
    }
  }

  // After the reduction: eigenvalues by QR iterations (Golub and Van Loan's count, 10 n^3 flop and 25 with
  // vectors), vectors of symmetric matrices by divide and conquer (4/3 n^3) and the reflectors.
  void finish() {
    const uint64_t n = std::min(t_.m, t_.n);
    if (t_.what == Decomposition::kEigen) matmul(n, n, (t_.vectors ? 25 : 10) * n / 2);
    if (!t_.vectors) return;
    if (t_.what == Decomposition::kSymmetricEigen || t_.what == Decomposition::kSvd)
      matmul(n, n, (2 * n + 2) / 3);
    if (t_.what == Decomposition::kSymmetricEigen) apply_q(n, n, n);
    if (t_.what != Decomposition::kSvd) return;
    matmul(n, n, (2 * n + 2) / 3);
    apply_q(t_.m, n, n);
    apply_q(t_.n, n, n);
  }

  const DenseTask& t_;
  std::vector<LibraryKernel> result_;
  double multiplications_ = 0;
};

}  // namespace

std::vector<LibraryKernel> decomposition_kernels(const DenseTask& task) {
  return Kernels(task).take();
}

LibraryKernel batched_kernel(const char* name, const DenseTask& task, uint64_t batch) {
  Kernels kernels(task);
  kernels.take();
  const uint64_t elements =
      task.m * task.n + (task.what == Decomposition::kTriangular ? task.n * task.other : 0);
  return memory_kernel(
      std::string(name) + "_kernel<" + type_of(task.precision) + ">",
      2 * elements * batch * operand_bytes(task.precision),
      multiplications_ns(task.precision, kernels.multiplications() * static_cast<double>(batch)));
}

uint64_t decomposition_work_elements(uint64_t m, uint64_t n) {
  return std::max<uint64_t>(1, std::max(m, n) * kPanelColumns);
}

}  // namespace gpuwatch::sim
