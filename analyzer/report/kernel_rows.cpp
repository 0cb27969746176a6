// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/kernel_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "analyzer/attribute/device_work.h"
#include "analyzer/io/printable.h"
#include "analyzer/report/facts.h"

namespace gpuwatch::report {
namespace {

using attribute::DeviceWork;
using attribute::RankAttribution;

constexpr size_t kMostKernels = 10;
constexpr size_t kLeastName = 24;  // columns; a narrower name goes below its figures

// Of one row: "  12.3 ms  45%  310 a step   40 us  ".
class Figures {
 public:
  explicit Figures(const RankAttribution& rank)
      : steps_(double(std::max<size_t>(1, rank.steps.size()))),
        wall_ns_(double(std::max<model::Ns>(1, rank.wall_ns))) {}

  static std::string head() {
    return fmt::format("  {:>8} {:>5} {:>8} {:>8}  ", "ms", "step", "count", "mean us");
  }

  std::string words(model::Ns ns, size_t count) const {
    const double mean_us = double(ns) / 1e3 / double(std::max<size_t>(1, count));
    return fmt::format("  {:>8} {:>4.0f}% {:>8} {:>8}  ", three_digits(double(ns) / 1e6 / steps_),
                       100 * double(ns) / wall_ns_, three_digits(double(count) / steps_),
                       three_digits(mean_us));
  }

 private:
  double steps_, wall_ns_;
};

void write_classes(Layout& layout, const DeviceWork& work, const Figures& figures) {
  layout.row(Figures::head(), "GPU work by class, of one step", kLeastName);
  for (const attribute::ClassTime& found : work.classes)
    layout.row(figures.words(found.time.ns, found.time.count),
               std::string(model::info(found.kernel_class).words), kLeastName);
}

struct NamedTime {
  std::string name;
  model::Ns ns = 0;
  size_t count = 0;
};

// Of the kernels that differ in their template arguments alone, the sum.
std::vector<NamedTime> by_short_name(const DeviceWork& work) {
  std::vector<NamedTime> rows;
  std::unordered_map<std::string, size_t> known;
  for (const attribute::KernelTime& kernel : work.kernels) {
    std::string name = model::short_kernel_name(kernel.name);
    const auto [row, is_new] = known.try_emplace(name, rows.size());
    if (is_new) rows.push_back({std::move(name)});
    rows[row->second].ns += kernel.ns;
    rows[row->second].count += kernel.count;
  }
  std::ranges::stable_sort(rows, std::greater<>(), &NamedTime::ns);
  return rows;
}

void write_names(Layout& layout, const DeviceWork& work, const Figures& figures) {
  const std::vector<NamedTime> rows = by_short_name(work);
  const size_t used = columns(Figures::head()), shown = std::min(kMostKernels, rows.size());
  const size_t width = std::max(kLeastName, layout.width() - std::min(layout.width(), used));
  layout.row(Figures::head(), "kernels that take most of the time", kLeastName);
  for (size_t i = 0; i < shown; ++i)
    layout.row(figures.words(rows[i].ns, rows[i].count), io::printable(rows[i].name, width), kLeastName);
  if (shown < rows.size()) layout.paragraph(fmt::format("{} more, see --json", rows.size() - shown), 2);
}

}  // namespace

void write_kernels(Layout& layout, const Report& report, const RankAttribution& rank) {
  const DeviceWork work = attribute::device_work(report.run, rank);
  if (work.classes.empty()) return;
  const Figures figures(rank);
  layout.blank();
  write_classes(layout, work, figures);
  layout.blank();
  write_names(layout, work, figures);
  layout.blank();
  if (const auto& communication = work.communication)
    layout.paragraph(fmt::format("communication: {} ms of each step, {:.0f}% of it hidden behind compute",
                                 three_digits(double(communication->ns) / 1e6 / double(rank.steps.size())),
                                 100 * communication->hidden_share()));
  if (const auto queue = attribute::launch_queue(report.run, rank))
    layout.paragraph(
        fmt::format("launch queue: kernels start {} ms after their launch, with {:.0f} launches before them "
                    "(medians); the "
                    "GPU was waiting for {:.0f}% of launches",
                    three_digits(queue->median_ns / 1e6), queue->median_depth, 100 * queue->empty_share));
}

}  // namespace gpuwatch::report
