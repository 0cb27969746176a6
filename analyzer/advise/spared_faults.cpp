// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/spared_faults.h"

#include <algorithm>
#include <array>

#include "analyzer/advise/change.h"
#include "analyzer/model/facts.h"
#include "analyzer/model/page_faults.h"

namespace gpuwatch::advise {
namespace {

// A batch travels in shared memory, whose pages are new each time; the kernel's share of them is a tenth
// more.
constexpr double kSharedFaults = 1.1, kPageBytes = 4096;

bool has_own_malloc(const model::Process& process) {
  constexpr std::array kOthers{"jemalloc", "tcmalloc", "mimalloc", "ld-musl"};
  return std::ranges::any_of(process.modules, [&](const model::ModuleRange& module) {
    return std::ranges::any_of(kOthers,
                               [&](const char* name) { return module.path.find(name) != std::string::npos; });
  });
}

bool keeps_memory_already(const model::Process& process) {
  constexpr std::array kVariables{"MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"};
  const auto tunables = process.facts.find("GLIBC_TUNABLES");
  return std::ranges::any_of(kVariables, [&](const char* name) { return process.facts.contains(name); }) ||
         (tunables != process.facts.end() && tunables->second.find("malloc") != std::string::npos);
}

double mean(const predict::LoaderReplayInput& loader, double predict::BatchCost::*value) {
  double sum = 0;
  size_t count = 0;
  for (const predict::ReplayEpoch& epoch : loader.epochs)
    for (const predict::BatchCost& batch : epoch.batches) sum += batch.*value, ++count;
  return count ? sum / double(count) : 0;
}

}  // namespace

bool is_malloc_of_glibc_as_it_comes(const model::Process& process) {
  return !has_own_malloc(process) && !keeps_memory_already(process);
}

model::TimeSpan steps_of(const RuleInput& input) {
  if (input.rank.steps.empty()) return {};
  return {input.rank.steps.front().step.begin, input.rank.steps.back().step.end};
}

predict::LoaderSetting with_kept_memory(const RuleInput& input, double of_cpu) {
  predict::LoaderSetting setting = input.loader_setting();
  apply(KeptMemoryChange{1 - std::min(of_cpu, 0.95), ""}, setting);
  return setting;
}

std::optional<SparedFaults> spared_faults_of_workers(const RuleInput& input) {
  if (!input.loader || input.loader->setting.workers < 1 || input.loader_setting().cpu_factor < 1)
    return std::nullopt;
  if (!is_malloc_of_glibc_as_it_comes(input.process)) return std::nullopt;
  const auto seen = model::page_faults_of_workers(input.process, steps_of(input));
  const double page_ns = model::number_fact(input.process, "shared_page_ns");
  const double cpu_ns = mean(*input.loader, &predict::BatchCost::cpu_ns);
  if (!seen || page_ns <= 0 || cpu_ns <= 0) return std::nullopt;
  SparedFaults faults;
  faults.per_batch = seen->per_cpu_s * cpu_ns / 1e9;
  faults.page_ns = page_ns;
  faults.batch_bytes = mean(*input.loader, &predict::BatchCost::bytes);
  faults.batch_pages = faults.batch_bytes / kPageBytes;
  const double spared = faults.per_batch - kSharedFaults * faults.batch_pages;
  if (spared <= 0) return std::nullopt;
  // What the kernel took of their time is the most that faults took.
  faults.of_cpu = std::min(seen->system_share * spared / faults.per_batch, spared * page_ns / cpu_ns);
  const double now = expected_step_ms(input, *input.loader, input.loader_setting());
  const double then =
      expected_step_ms(input, *input.loader, with_kept_memory(input, kSpared * faults.of_cpu));
  if (faults.of_cpu < kLeastSparedOfCpu || now < kLeastSpeedup * then) return std::nullopt;
  return faults;
}

}  // namespace gpuwatch::advise
