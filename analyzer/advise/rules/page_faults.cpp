// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/machine.h"
#include "analyzer/advise/spared_faults.h"
#include "analyzer/model/cpu_time.h"
#include "analyzer/model/page_faults.h"
#include "analyzer/model/training_framework.h"

namespace gpuwatch::advise {

extern const Rule kPageFaults;

namespace {

constexpr Threshold kThresholds[] = {
    {"page faults that kept memory would spare", kLeastSparedOfCpu, "of the CPU time",
     "of workers, or of training on the CPU; those of a batch's own pages stay: workers share them with the "
     "training process"},
    kLeastGain,
};

// Training of a small convolutional network on two cores took 2813, 763 and 240 ms a step, of which faults
// took 47, 16 and 11% of the CPU time, and 1299, 609 and 205 with kept memory: what is computed on memory
// that the caches still hold is computed sooner, too.
constexpr double kMostOfTraining = 1.25;
// Memory that was used once, not more: a process keeps what it needs at its peak, up to this.
constexpr int kKeptBytes = 1 << 30;
// malloc maps larger blocks apart and gives them back at once. Before glibc 2.35 it takes no higher threshold
// (HEAP_MAX_SIZE / 2), and stays at 128 KiB where it is told one.
constexpr int kMostOfOldMalloc = 32 << 20;

bool takes_any_threshold(const model::Process& process) {
  return number_fact(process, "glibc") >= 2.345;
}

std::string tunables(const model::Process& process) {
  return fmt::format("glibc.malloc.trim_threshold={}:glibc.malloc.mmap_threshold={}", kKeptBytes,
                     takes_any_threshold(process) ? kKeptBytes : kMostOfOldMalloc);
}

// In the range also what is open of how much the spared faults took.
std::optional<predict::Prediction> prediction(const RuleInput& input, const SparedFaults& faults) {
  const auto with = [&](double spared) {
    return loader_prediction(input, *input.loader, input.loader_check,
                             with_kept_memory(input, spared * faults.of_cpu));
  };
  auto expected = with(kSpared);
  const auto best = with(kMostSpared), worst = with(kLeastSpared);
  if (!expected || !best || !worst) return std::nullopt;
  expected->value.low = std::min(expected->value.low, best->value.low);
  expected->value.high = std::max(expected->value.high, worst->value.high);
  expected->speedup.low = std::min(expected->speedup.low, worst->speedup.low);
  expected->speedup.high = std::max(expected->speedup.high, best->speedup.high);
  return expected;
}

void name_fix(Finding& finding, const RuleInput& input, double cpu_factor) {
  const std::string value = tunables(input.process);
  finding.fix.change = KeptMemoryChange{cpu_factor, value};
  finding.fix.summary =
      fmt::format("Let malloc keep freed memory: start the job with GLIBC_TUNABLES={}", value);
  finding.fix.snippet = fmt::format("export GLIBC_TUNABLES={}", value);
}

std::optional<Finding> of_workers(const RuleInput& input) {
  const auto faults = spared_faults_of_workers(input);
  if (!faults) return std::nullopt;
  const double now = expected_step_ms(input, *input.loader, input.loader_setting());
  const double best =
      expected_step_ms(input, *input.loader, with_kept_memory(input, kSpared * faults->of_cpu));
  Finding finding = make_finding(kPageFaults, input, 1 - best / now);
  finding.title = fmt::format(
      "Page faults: workers spend {:.0f}% of their CPU time on getting memory back that they had just freed",
      100 * faults->of_cpu);
  finding.evidence = {{"page faults", faults->per_batch, "a batch"},
                      {"pages of a batch", faults->batch_pages, "of 4 KiB"},
                      {"a page fault", faults->page_ns / 1000, "us on this machine"}};
  name_fix(finding, input, 1 - kSpared * faults->of_cpu);
  finding.prediction = prediction(input, *faults);
  finding.ceiling_speedup = now / best;
  if (faults->batch_bytes > kMostOfOldMalloc && !takes_any_threshold(input.process)) give_as_bound(finding);
  return finding;
}

// Batches come from workers in shared memory, which is mapped anew each time.
double batch_pages_per_cpu_s(const RuleInput& input) {
  constexpr double kPageBytes = 4096;
  if (!input.loader || input.loader->setting.workers == 0) return 0;
  const double cpu_s = model::cpu_time(input.process, steps_of(input)).own_ns / 1e9;
  double bytes = 0;
  for (const predict::ReplayEpoch& epoch : input.loader->epochs)
    for (const predict::BatchCost& batch : epoch.batches) bytes += batch.bytes;
  return cpu_s > 0 ? bytes / kPageBytes / cpu_s : 0;
}

// TensorFlow maps large tensors past malloc, and unmaps them: of five programs one, which copies its weights
// to NumPy arrays, had fewer faults with kept memory (0.17 million instead of 0.5), the others as many.
bool maps_tensors_itself(const model::Process& process) {
  return model::trains_with(process, "tensorflow");
}

// Where training is the host's work: its tensors are made and freed in each step.
std::optional<Finding> of_training(const RuleInput& input) {
  if (input.device || input.device_hidden() || !is_malloc_of_glibc_as_it_comes(input.process) ||
      maps_tensors_itself(input.process))
    return std::nullopt;
  const auto seen = model::page_faults_of_rank(input.process, steps_of(input));
  const double page_ns = number_fact(input.process, "shared_page_ns");
  if (!seen || page_ns <= 0) return std::nullopt;
  const double spared = std::max(0.0, 1 - batch_pages_per_cpu_s(input) / seen->per_cpu_s);
  const double of_cpu = spared * std::min(seen->system_share, seen->per_cpu_s * page_ns / 1e9);
  const bool fetches = input.loader && input.loader->setting.workers == 0;
  const double computing = fetches ? 1 : 1 - input.rank.share(attribute::Group::Input);
  const double ceiling = 1 / (1 - std::min(0.95, kMostOfTraining * of_cpu * computing));
  if (of_cpu < kLeastSparedOfCpu || ceiling < kLeastSpeedup) return std::nullopt;
  Finding finding = make_finding(kPageFaults, input, of_cpu * computing);
  finding.explains = {attribute::Category::Compute};
  finding.bottleneck = attribute::Bottleneck::Compute;
  finding.title = fmt::format(
      "Page faults: the training process spends {:.0f}% of its CPU time on getting memory back that it had "
      "just freed",
      100 * of_cpu);
  finding.evidence = {{"page faults", seen->per_cpu_s, "a second of CPU time"},
                      {"kernel", 100 * seen->system_share, "% of the CPU time"},
                      {"a page fault", page_ns / 1000, "us on this machine"}};
  name_fix(finding, input, 1);
  finding.ceiling_speedup = ceiling;
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (auto finding = of_workers(input)) return finding;
  return of_training(input);
}

}  // namespace

const Rule kPageFaults{
    "page-faults",
    "The same memory is given back to the kernel and got from it again in each batch or step: glibc's malloc "
    "returns the end of its heap, and blocks of more than 32 MiB, as soon as they are free, and each page of "
    "them is a fault when it is used next.",
    "Workers have more page faults than a batch has pages, or training on the CPU has them in each step, and "
    "the kernel takes a good part of the CPU time. What a fault takes is measured on the job's machine when "
    "recording starts: 0.2 to 0.5 us without, 2 to 5 us in a virtual machine. Not where another malloc is "
    "loaded (jemalloc, tcmalloc), or where malloc's settings are changed already, and not of training with "
    "TensorFlow, which maps large tensors itself.",
    "`GLIBC_TUNABLES=glibc.malloc.trim_threshold=1073741824:glibc.malloc.mmap_threshold=1073741824` in the "
    "job's environment (the second 33554432 before glibc 2.35, which takes no more), or `LD_PRELOAD` of "
    "jemalloc or tcmalloc. Results do not change; each process keeps the memory of its peak. Both thresholds "
    "belong together: with the first alone malloc maps each block of more than 128 KiB apart.",
    kThresholds,
    evaluate,
    attribute::Bottleneck::Input};

}  // namespace gpuwatch::advise
